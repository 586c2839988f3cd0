import { isDeepStrictEqual } from "node:util";
import { context, type Context, type Span } from "@opentelemetry/api";
import { FaultError, findFault, isRetryable, throwFault, type Fault } from "@muster/faults";
import { runInDecisionSpan, buildOwnerAttributes, reportAttributes, showPlan, showSteps } from "./decision-spans.ts";
import { buildDemand, type DemandList, type DemandRequest } from "./domain/decisions/build-demand.ts";
import { buildExplanation } from "./domain/decisions/build-explanation.ts";
import type { Explanation } from "./domain/decisions/explanation.ts";
import { checkLimit, checkOwner, checkRelease, type ReservationRequest } from "./domain/decisions/check-request.ts";
import { decideLimit, type LimitRequest, type LimitVerdict } from "./domain/decisions/decide-limit.ts";
import {
  decideReservationRelease,
  type ReleaseRequest,
  type ReleaseVerdict,
} from "./domain/decisions/decide-reservation-release.ts";
import { decideReservation, type ReservationPolicy, type Verdict } from "./domain/decisions/decide-reservation.ts";
import { explainWaiting, type WaitReason } from "./domain/decisions/explain-waiting.ts";
import { findHolds } from "./domain/decisions/find-hold.ts";
import { getReservation, limitOf, findReservation, type Ledger, type LedgerEvent } from "./domain/ledger/ledger.ts";
import { buildMachinePage, type MachinePage, type MachinePageRequest } from "./domain/decisions/list-machines.ts";
import { buildPage, type PageRequest } from "./domain/decisions/list-page.ts";
import { buildQueuePage, type QueuePage, type QueueQuery, type QueueReport } from "./domain/decisions/list-queues.ts";
import { planQueueChanges } from "./domain/decisions/plan-queue-changes.ts";
import type { Queue, Queues } from "./domain/ledger/queue.ts";
import {
  buildMachines,
  withCompleteness,
  withNode,
  withoutNode,
  withScaling,
  type Machines,
  type NodeFacts,
  type PoolScaling,
} from "./domain/ledger/machines.ts";
import { findBeneficiary, requireReservation } from "./domain/find-reservation.ts";
import { followPreemptions } from "./domain/follow-preemptions.ts";
import type { LedgerDeps, PoolReport, ReservationReport } from "./keeper-deps.ts";
import { NO_AMOUNTS, summarisePools } from "./domain/decisions/summarise-pools.ts";
import {
  decideAcceptance,
  decideRequeue,
  type AcceptVerdict,
  type RequeueVerdict,
} from "./domain/decisions/decide-preemption.ts";
import { mayPreemptAny } from "./domain/decisions/plan-preemptions.ts";
import { settleStep, settleGrants, type Settlement } from "./domain/decisions/plan-settlement.ts";
import type { Owner } from "@muster/names";
import { getReservationId, type Gang, type Reservation } from "./domain/ledger/reservation.ts";
import { countAhead, findPlacesAround } from "./domain/ledger/waiting-queue.ts";
import { evolveWorld, type World } from "./domain/ledger/world.ts";

/** A Node timer with a delay of more than 24 days fires immediately. */
const MAX_IDLE_MS = 86_400_000;

/** After a longer pass, the next one waits a multiple of its duration, so that requests are answered in between. */
const LONG_PASS_MS = 20;
const PAUSE_FACTOR = 4;

/** Limit of queues in metrics, because each has several time series. */
const MAX_MEASURED_QUEUES = 1000;

/**
 * Keeps the ledger while this process leads. Every change is one decision of the log, which also grants what the change makes possible. Reads go through the
 * log too, so they are never ahead of the disk and a deposed leader never answers them.
 */
export class LedgerKeeper {
  readonly #deps: LedgerDeps;
  readonly #policy: ReservationPolicy;
  /** Traces of the requests behind reservations that are not granted yet. */
  readonly #callers = new Map<number, Context>();
  /** Reservations that end with a decision that is not yet on disk. */
  readonly #ending = new Map<number, Reservation>();
  /** The machines that match the ledger of this version, which the next decision is expected to see. */
  #machines: { readonly version: number; readonly value: Machines } | undefined;
  /** The configured queues, and the ledger's queues that match them. */
  #followed: { readonly stated: readonly Queue[]; readonly queues: Queues } | undefined;
  #wake = Promise.withResolvers<undefined>();
  /** Duration of the last pass that planned preemptions; 0 if no queue may preempt work. */
  #passMs = 0;
  /** Next time at which work may be preempted without any other change. */
  #againAtMs: number | undefined;
  readonly #followPreemption: ReturnType<typeof followPreemptions>;

  constructor(deps: LedgerDeps, policy: ReservationPolicy) {
    this.#deps = deps;
    this.#policy = policy;
    this.#followPreemption = followPreemptions(deps.log.state);
    deps.log.onCommit((events, ledger) => {
      for (const event of events) this.#committed(event, ledger);
    });
    for (const reservation of deps.log.state.reservations.values())
      if (reservation.grant !== undefined)
        deps.announce(
          { kind: "granted", reservation, beneficiary: findBeneficiary(reservation, deps.log.state) },
          undefined,
        );
  }

  /** Rejects with FaultError: the refusals of `decideReservation`, and the faults of the log. */
  async reserve(request: ReservationRequest): Promise<ReservationReport> {
    const { owner, needs, wait } = request;
    const attributes = { ...buildOwnerAttributes(owner), "muster.needs": needs.length, "muster.wait": wait };
    return this.#inSpan("decide reservation", attributes, async (span) => {
      const { report, outcome, because } = await this.#decide(request);
      span.setAttributes({
        ...reportAttributes(report.reservation, report.because),
        "muster.outcome": outcome,
        "muster.because": because,
      });
      this.#deps.decided(outcome);
      return report;
    });
  }

  /** Returns why `reserve` would queue this request now; undefined: it would grant it. Rejects with final refusals. Stores nothing. */
  async check(asked: Gang & Pick<ReservationRequest, "owner" | "queue" | "priority">): Promise<WaitReason | undefined> {
    return this.#read((world, nowMs) => {
      const request = { ...asked, wait: true, concurrencyLimit: limitOf(world.ledger, asked.owner.kind) };
      const verdict = decideReservation(request, world, this.#policy, nowMs);
      if (verdict.kind === "refuse") {
        // A request that may become possible once all nodes are known is not refused permanently.
        if (verdict.fault.code !== "unavailable") return throwFault(verdict.fault);
        const waiting = { ...asked, sequence: world.ledger.nextSequence, createdAtMs: nowMs };
        return this.#report(waiting, world, nowMs).because;
      }
      const next = evolveWorld(world, verdict.events);
      return this.#report(requireReservation(next, asked.owner), next, nowMs).because;
    });
  }

  #decide(request: ReservationRequest) {
    return this.#settled((settled, nowMs) => {
      const verdict = decideReservation(request, settled, this.#policy, nowMs);
      if (verdict.kind === "refuse") return throwFault(verdict.fault);
      const decided = evolveWorld(settled, verdict.events);
      if (verdict.kind === "limit") {
        this.#keep(decided, undefined);
        return { events: verdict.events, result: undefined };
      }
      if (verdict.kind === "grant" || verdict.kind === "queue") this.#callers.set(verdict.sequence, context.active());
      const { world, events, complete } = this.#settleBehind(verdict, decided, nowMs);
      this.#wakeUnless(complete, world);
      const report = this.#report(getReservation(world.ledger, verdict.sequence), world, nowMs);
      const result = { report, outcome: verdict.kind, because: verdict.because };
      return { events: [...verdict.events, ...events], result: this.#keep(world, result) };
    });
  }

  /**
   * Grants requests that fit after a new request. Its grant, or its precedence in its queue, may end the reason why quota or machines are kept for a waiting
   * request.
   */
  #settleBehind(
    { kind, sequence }: Pick<Extract<Verdict, { sequence: number }>, "kind" | "sequence">,
    world: World,
    nowMs: number,
  ): Settlement {
    const { queue } = world.ledger;
    const reservation = getReservation(world.ledger, sequence);
    const isBeforeOthers = countAhead(reservation, queue) < findPlacesAround(reservation, queue).size - 1;
    if (kind === "grant" || (kind === "queue" && reservation.queue !== undefined && isBeforeOthers))
      return settleGrants(world, this.#policy, nowMs);
    return { steps: [], complete: true, world, events: [], againAtMs: undefined };
  }

  /**
   * Decides after every waiting request that fits is granted, so free machines are really free. Earlier grants, and work that `decide` requires first, are
   * separate decisions without a result.
   */
  async #settled<Result>(
    decide: (world: World, nowMs: number) => { events: readonly LedgerEvent[]; result: Result | undefined },
  ): Promise<Result> {
    for (;;) {
      const decided = await this.#deps.log.transact((ledger) => {
        const nowMs = this.#deps.now();
        const settled = this.#settle(this.#worldOf(ledger), nowMs);
        if (settled.events.length === 0) {
          return decide(settled.world, nowMs);
        }
        this.#keep(settled.world, undefined);
        return { events: settled.events, result: undefined };
      });
      if (decided !== undefined) return decided;
    }
  }

  /** Returns whether the owner held this reservation until now. */
  async release(request: ReleaseRequest): Promise<boolean> {
    throwIfInvalid(checkRelease(request));
    const attributes = { ...buildOwnerAttributes(request.owner), "muster.reservation": request.reservationId };
    const done = await this.#change("decide release", attributes, (ledger, nowMs) =>
      decideReservationRelease(request, ledger, nowMs),
    );
    return done === "release";
  }

  /** Called before the owner ends its work. Returns whether the reservation is still preempted, and its state; undefined: it does not exist. */
  async acceptPreemption(
    request: ReleaseRequest,
  ): Promise<{ readonly accepted: boolean; readonly report: ReservationReport | undefined }> {
    throwIfInvalid(checkRelease(request));
    const attributes = { ...buildOwnerAttributes(request.owner), "muster.reservation": request.reservationId };
    await this.#change("decide acceptance", attributes, (ledger, nowMs) => decideAcceptance(request, ledger, nowMs));
    const report = await this.#find(request);
    return { accepted: report?.reservation.grant?.preemption !== undefined, report };
  }

  /** Called when the work has ended. Returns the state of the reservation, which waits again; undefined: it does not exist. */
  async requeue(request: ReleaseRequest): Promise<ReservationReport | undefined> {
    throwIfInvalid(checkRelease(request));
    const attributes = { ...buildOwnerAttributes(request.owner), "muster.reservation": request.reservationId };
    await this.#change("decide requeue", attributes, (ledger, nowMs) => decideRequeue(request, ledger, nowMs));
    return this.#find(request);
  }

  #find({ owner, reservationId }: ReleaseRequest): Promise<ReservationReport | undefined> {
    return this.#read((world, nowMs) => {
      const reservation = findReservation(world.ledger, owner);
      if (reservation === undefined || getReservationId(reservation.sequence) !== reservationId) return undefined;
      return this.#report(reservation, world, nowMs);
    });
  }

  /** Returns whether the limit changed. */
  async limit(request: LimitRequest): Promise<boolean> {
    throwIfInvalid(checkLimit(request));
    const attributes = { "muster.owner.kind": request.ownerKind, "muster.limit": request.limit };
    const done = await this.#change("decide limit", attributes, (ledger, nowMs) => decideLimit(request, ledger, nowMs));
    return done === "limit";
  }

  /** Decides a change that needs no free machines. The same decision grants the requests that then fit. */
  #change<Verdict extends ReleaseVerdict | LimitVerdict | AcceptVerdict | RequeueVerdict>(
    name: string,
    attributes: Record<string, string | number>,
    decide: (ledger: Ledger, nowMs: number) => Verdict,
  ): Promise<Verdict["kind"]> {
    return this.#inSpan(name, attributes, async (span) => {
      const { verdict, steps } = await this.#deps.log.transact((ledger) => {
        const nowMs = this.#deps.now();
        const decided = decide(ledger, nowMs);
        this.#remember(ledger, decided.events);
        const settled = this.#settle(evolveWorld(this.#worldOf(ledger), decided.events), nowMs);
        this.#wakeUnless(settled.complete, settled.world);
        const result = { verdict: decided, steps: settled.steps };
        return { events: [...decided.events, ...settled.events], result: this.#keep(settled.world, result) };
      });
      span.setAttributes({ "muster.outcome": verdict.kind, "muster.because": verdict.because });
      showSteps(span, steps);
      this.#deps.decided(verdict.kind);
      return verdict.kind;
    });
  }

  async get(owner: Owner): Promise<ReservationReport> {
    throwIfInvalid(checkOwner(owner));
    return this.#read((world, nowMs) => this.#report(requireReservation(world, owner), world, nowMs));
  }

  /** Explains why the owner's reservation waits, and names the holders of the machines that it waits for. */
  async explain(owner: Owner): Promise<Explanation> {
    throwIfInvalid(checkOwner(owner));
    return this.#read((world, nowMs) => buildExplanation(requireReservation(world, owner), world, this.#policy, nowMs));
  }

  async list(request: PageRequest): Promise<{
    readonly reports: readonly ReservationReport[];
    readonly next: string | undefined;
    /** The sequence of the next reservation. */
    readonly nextSequence: number;
  }> {
    return this.#read((world, nowMs) => {
      const { reservations, next } = buildPage(world.ledger, request);
      const holds = findHolds(world, this.#policy, nowMs);
      const reports = reservations.map((reservation) => {
        const beneficiary = findBeneficiary(reservation, world.ledger);
        return { reservation, because: explainWaiting(reservation, world, holds), beneficiary };
      });
      return { reports, next, nextSequence: world.ledger.nextSequence };
    });
  }

  async pools(): Promise<readonly PoolReport[]> {
    return this.#read(({ ledger, machines }) => {
      const summaries = summarisePools(machines);
      return [...machines.pools.values()].map((state) => ({
        state,
        amounts: summaries.get(state.name) ?? NO_AMOUNTS,
        waiting: ledger.queue.waitingByPool.get(state.name) ?? 0,
      }));
    });
  }

  async demand(request: DemandRequest): Promise<DemandList> {
    return this.#read((world, nowMs) => buildDemand(world, this.#policy, nowMs, request));
  }

  async machines(request: MachinePageRequest): Promise<MachinePage> {
    return this.#read((world) => buildMachinePage(world, request));
  }

  async listQueues(request: QueueQuery): Promise<QueuePage> {
    return this.#read((world) => buildQueuePage(world, request));
  }

  /** The counts of the stored state, for metrics. */
  count(): {
    readonly waiting: number;
    readonly heldByPool: ReadonlyMap<string, number>;
    readonly overcommittedByPool: ReadonlyMap<string, number>;
    /** Reports of the first queues by name. */
    readonly queues: readonly QueueReport[];
  } {
    const machines = this.#machines?.value;
    const pools = [...(machines?.pools.values() ?? [])];
    const summaries = machines === undefined ? undefined : summarisePools(machines);
    return {
      waiting: this.#deps.log.state.queue.places.size,
      heldByPool: new Map(pools.map(({ name }) => [name, summaries?.get(name)?.held ?? 0])),
      overcommittedByPool: new Map(pools.map(({ name }) => [name, summaries?.get(name)?.overcommitted.length ?? 0])),
      queues:
        machines === undefined
          ? []
          : buildQueuePage({ ledger: this.#deps.log.state, machines }, { limit: MAX_MEASURED_QUEUES }).reports,
    };
  }

  /** Called when a node was added, removed or changed. */
  observe(name: string, facts: NodeFacts | undefined): void {
    this.#seen((before) => {
      // A node is published for many reasons, such as a label, that do not affect the ledger.
      if (isDeepStrictEqual(before.nodes.get(name)?.facts, facts)) return before;
      return facts === undefined ? withoutNode(before, name) : withNode(before, facts);
    });
  }

  /** Called when the scaling of a pool was set, changed or removed (undefined). */
  observePool(pool: string, scaling: PoolScaling | undefined): void {
    this.#seen((before) => withScaling(before, pool, scaling));
  }

  #seen(change: (before: Machines) => Machines): void {
    if (this.#machines === undefined) return;
    const { version, value: before } = this.#machines;
    const value = change(before);
    if (value === before) return;
    this.#machines = { version, value };
    this.#wake.resolve(undefined);
  }

  /** Called when a queue was added, removed or changed. */
  queuesChanged(): void {
    this.#wake.resolve(undefined);
  }

  /** Called when all nodes are known as of now: requests that waited for that may fit. */
  nodesMarked(): void {
    this.#wake.resolve(undefined);
  }

  /** Grants requests that fit after every change, until the signal is aborted. Rejects with defects only. */
  async run(signal: AbortSignal): Promise<void> {
    const stop = (): void => this.#wake.resolve(undefined);
    signal.addEventListener("abort", stop, { once: true });
    // `runPeriodically` does not fit: this loop waits for changes, and retries only after failures.
    while (!signal.aborted) {
      this.#wake = Promise.withResolvers<undefined>();
      const done = await this.#pass().catch((error: unknown) => {
        const fault = findFault(error);
        if (fault === undefined || !isRetryable(fault)) throw error;
        return false;
      });
      await (done ? this.#idle(signal) : this.#deps.pause(signal));
      if (this.#passMs >= LONG_PASS_MS) await this.#deps.pause(signal, this.#passMs * PAUSE_FACTOR);
    }
    signal.removeEventListener("abort", stop);
  }

  /** Waits for a change, or for the time at which a step becomes possible. */
  async #idle(signal: AbortSignal): Promise<void> {
    if (this.#againAtMs === undefined) {
      await this.#wake.promise;
      return;
    }
    const woken = new AbortController();
    const ms = Math.min(MAX_IDLE_MS, Math.max(0, this.#againAtMs - this.#deps.now()));
    await Promise.race([this.#wake.promise, this.#deps.pause(AbortSignal.any([signal, woken.signal]), ms)]);
    woken.abort();
  }

  /** Preempts work in separate passes, because planning may take longer than a request should wait. */
  #wakeUnless(complete: boolean, { ledger }: World): void {
    if (!complete || mayPreemptAny(ledger.queues)) this.#wake.resolve(undefined);
  }

  async #pass(): Promise<true> {
    const {
      steps,
      complete,
      limits = [],
    } = await this.#deps.log.transact((ledger) => {
      const begin = performance.now();
      const settled = this.#settle(this.#worldOf(ledger), this.#deps.now(), settleStep);
      this.#passMs = mayPreemptAny(ledger.queues) ? performance.now() - begin : 0;
      this.#againAtMs = settled.againAtMs;
      return { events: settled.events, result: this.#keep(settled.world, settled) };
    });
    for (const limit of limits) this.#deps.preemption({ kind: "limited", limit });
    if (!complete) this.#wake.resolve(undefined);
    if (steps.length > 0) await showPlan(steps);
    return true;
  }

  #read<Result>(look: (world: World, nowMs: number) => Result): Promise<Result> {
    return this.#deps.log.transact((ledger) => {
      return { events: [], result: look(this.#worldOf(ledger), this.#deps.now()) };
    });
  }

  #report(reservation: Reservation, world: World, nowMs: number): ReservationReport {
    if (reservation.grant !== undefined)
      return { reservation, because: undefined, beneficiary: findBeneficiary(reservation, world.ledger) };
    return { reservation, because: explainWaiting(reservation, world, findHolds(world, this.#policy, nowMs)) };
  }

  /** Applies changes of queues. Once the ledger has all queues, grants requests that fit. One log entry never mixes both. */
  #settle(world: World, nowMs: number, plan = settleGrants): Settlement {
    const stated = this.#deps.queues();
    const { queues } = world.ledger;
    if (this.#followed?.stated !== stated || this.#followed.queues !== queues) {
      const { events } = planQueueChanges(stated, queues, nowMs);
      if (events.length > 0)
        return { steps: [], complete: false, world: evolveWorld(world, events), events, againAtMs: undefined };
      this.#followed = { stated, queues };
    }
    return plan(world, this.#policy, nowMs);
  }

  /** Keeps ended reservations until their end is stored, because the ledger no longer has them. */
  #remember(ledger: Ledger, events: readonly LedgerEvent[]): void {
    for (const event of events)
      if (event.kind === "released") this.#ending.set(event.sequence, getReservation(ledger, event.sequence));
  }

  /** An unexpected version means that decisions were dropped before they reached the disk, so the machines are rebuilt. */
  #worldOf(ledger: Ledger): World {
    if (this.#machines?.version !== ledger.version) {
      const value = buildMachines(this.#deps.nodes(), ledger, this.#deps.scalings());
      this.#machines = { version: ledger.version, value };
    }
    return { ledger, machines: withCompleteness(this.#machines.value, this.#deps.allNodesKnown(this.#deps.now())) };
  }

  /** Stores the machines that match the ledger after this decision, and returns the result. */
  #keep<Result>(world: World, result: Result): Result {
    this.#machines = { version: world.ledger.version, value: world.machines };
    return result;
  }

  #committed(event: LedgerEvent, ledger: Ledger): void {
    for (const news of this.#followPreemption(event)) this.#deps.preemption(news);
    if (event.kind === "preempted" || event.kind === "preemptionWithdrawn") {
      const reservation = ledger.reservations.get(event.sequence);
      const beneficiary = reservation && findBeneficiary(reservation, ledger);
      if (reservation?.grant !== undefined)
        this.#deps.announce({ kind: "preempted", reservation, beneficiary }, undefined);
    }
    if (event.kind !== "granted" && event.kind !== "released") return;
    const { kind, sequence } = event;
    const caller = this.#callers.get(sequence);
    this.#callers.delete(sequence);
    // A reservation that one write granted and ended is announced as ended only.
    const reservation = kind === "granted" ? ledger.reservations.get(sequence) : this.#ending.get(sequence);
    if (kind !== "granted") this.#ending.delete(sequence);
    if (reservation !== undefined) this.#deps.announce({ kind, reservation }, caller);
  }

  #inSpan<Result>(
    name: string,
    attributes: Record<string, string | number | boolean>,
    work: (span: Span) => Promise<Result>,
  ): Promise<Result> {
    return runInDecisionSpan(name, attributes, this.#deps.decided, work);
  }
}

function throwIfInvalid(wrong: Fault | undefined): void {
  if (wrong !== undefined) throw new FaultError(wrong);
}
