import { context, type Context, type Span } from "@opentelemetry/api";
import { FaultError, faultOf, isRetryable, reasonOf, throwFault, type Fault } from "@muster/faults";
import type { Log } from "@muster/store";
import { inSpan } from "@muster/tracing";
import { buildExplanation, type Explanation } from "./domain/build-explanation.ts";
import { checkOwner, checkRelease, type ReservationRequest } from "./domain/check-request.ts";
import { decideRelease, type ReleaseRequest } from "./domain/decide-release.ts";
import { decideReservation, type ReservationPolicy } from "./domain/decide-reservation.ts";
import { explainWaiting, type WaitReason } from "./domain/explain-waiting.ts";
import { findHold } from "./domain/fit.ts";
import { knownReservation, reservationOf, type Ledger, type LedgerEvent } from "./domain/ledger.ts";
import { buildPage, type PageRequest } from "./domain/list-page.ts";
import {
  buildMachines,
  withCompleteness,
  withNode,
  withoutNode,
  type Machines,
  type NodeFacts,
  type PoolState,
} from "./domain/machines.ts";
import { eventOf, planGrants, type GrantPlan, type GrantStep } from "./domain/plan-grants.ts";
import { idOf, type Owner, type Reservation } from "./domain/reservation.ts";
import { evolveWorld, type World } from "./domain/world.ts";

/** What the ledger's keeper needs from outside. */
export type LedgerDeps = {
  readonly log: Pick<Log<Ledger, LedgerEvent>, "state" | "transact" | "onCommit">;
  /** The live nodes that are known. */
  readonly nodes: () => readonly NodeFacts[];
  /** Whether these are all there are. */
  readonly allNodesKnown: (nowMs: number) => boolean;
  readonly now: () => number;
  /** Tells that a grant is on disk, under the trace of the request that it answers where that is known. Must not throw. */
  readonly announce: (reservation: Reservation, caller: Context | undefined) => void;
  /** Told about each decision: for metrics. */
  readonly decided: (outcome: string) => void;
  /** Waits before a pass that failed is tried again; returns early when the signal is aborted. */
  readonly pause: (signal: AbortSignal) => Promise<void>;
};

export type ReservationReport = { readonly reservation: Reservation; readonly because: WaitReason | undefined };
export type PoolReport = { readonly state: PoolState; readonly waiting: number };

const TRACER = "@muster/reservation-manager";

/**
 * Keeps the ledger while this process leads: every change of the ledger is one decision of the log, and whatever a change makes possible is granted by the
 * same decision. Reads go through the log too, so that they are never ahead of the disk and never answered by a deposed leader.
 */
export class LedgerKeeper {
  readonly #deps: LedgerDeps;
  readonly #policy: ReservationPolicy;
  /** Traces of the requests that made the reservations which are not granted yet. */
  readonly #callers = new Map<number, Context>();
  /** The machines that belong to the ledger of this version, the one that the next decision is expected to see. */
  #machines: { readonly version: number; readonly value: Machines } | undefined;
  #wake = Promise.withResolvers<undefined>();

  constructor(deps: LedgerDeps, policy: ReservationPolicy) {
    this.#deps = deps;
    this.#policy = policy;
    deps.log.onCommit((events, ledger) => {
      for (const event of events) this.#committed(event, ledger);
    });
    for (const reservation of deps.log.state.reservations.values())
      if (reservation.grant !== undefined) deps.announce(reservation, undefined);
  }

  /** Rejects with FaultError: what `decideReservation` refuses with, and what the log rejects with. */
  async reserve(request: ReservationRequest): Promise<ReservationReport> {
    const { owner, needs, wait } = request;
    const attributes = { ...ownerAttributes(owner), "muster.needs": needs.length, "muster.wait": wait };
    return this.#inSpan("decide reservation", attributes, async (span) => {
      const { report, outcome, because } = await this.#decide(request);
      span.setAttributes({ ...reportAttributes(report), "muster.outcome": outcome, "muster.because": because });
      this.#deps.decided(outcome);
      return report;
    });
  }

  /** Those that wait and fit come first, and are granted by decisions of their own: only then is what is free really free. */
  async #decide(request: ReservationRequest) {
    for (;;) {
      const decided = await this.#deps.log.transact((ledger) => {
        const nowMs = this.#deps.now();
        const settled = this.#grant(this.#worldOf(ledger), nowMs);
        if (settled.events.length > 0) {
          this.#keep(settled.world, undefined);
          return { events: settled.events, result: undefined };
        }
        const verdict = decideReservation(request, settled.world, this.#policy, nowMs);
        if (verdict.do === "refuse") return throwFault(verdict.fault);
        const world = evolveWorld(settled.world, verdict.events);
        if (verdict.do !== "answer") this.#callers.set(verdict.sequence, context.active());
        const report = this.#report(knownReservation(world.ledger, verdict.sequence), world, nowMs);
        const result = { report, outcome: verdict.do, because: verdict.because };
        return { events: verdict.events, result: this.#keep(world, result) };
      });
      if (decided !== undefined) return decided;
    }
  }

  /** Returns whether the owner had this reservation until now. */
  async release(request: ReleaseRequest): Promise<boolean> {
    mustBeRight(checkRelease(request));
    const attributes = { ...ownerAttributes(request.owner), "muster.reservation": request.reservationId };
    return this.#inSpan("decide release", attributes, async (span) => {
      const { outcome, because, steps, complete } = await this.#deps.log.transact((ledger) => {
        const nowMs = this.#deps.now();
        const verdict = decideRelease(request, ledger, nowMs);
        const settled = this.#grant(evolveWorld(this.#worldOf(ledger), verdict.events), nowMs);
        const result = {
          outcome: verdict.do,
          because: verdict.because,
          steps: settled.steps,
          complete: settled.complete,
        };
        return { events: [...verdict.events, ...settled.events], result: this.#keep(settled.world, result) };
      });
      span.setAttributes({ "muster.outcome": outcome, "muster.because": because });
      showSteps(span, steps);
      this.#deps.decided(outcome);
      if (!complete) this.#wake.resolve(undefined);
      return outcome === "release";
    });
  }

  async get(owner: Owner): Promise<ReservationReport> {
    mustBeRight(checkOwner(owner));
    return this.#read((world, nowMs) => this.#report(existing(world, owner), world, nowMs));
  }

  /** Why the owner's reservation waits, and who has what it waits for. */
  async explain(owner: Owner): Promise<Explanation> {
    mustBeRight(checkOwner(owner));
    return this.#read((world, nowMs) => buildExplanation(existing(world, owner), world, this.#policy, nowMs));
  }

  async list(request: PageRequest): Promise<{ reports: readonly ReservationReport[]; next: string | undefined }> {
    return this.#read((world, nowMs) => {
      const { reservations, next } = buildPage(world.ledger, request);
      const hold = findHold(world, this.#policy, nowMs);
      const reports = reservations.map((reservation) => {
        return { reservation, because: explainWaiting(reservation, world, hold) };
      });
      return { reports, next };
    });
  }

  async pools(): Promise<readonly PoolReport[]> {
    return this.#read(({ ledger, machines }) =>
      [...machines.pools.values()].map((state) => {
        return { state, waiting: ledger.queue.waitingByPool.get(state.name) ?? 0 };
      }),
    );
  }

  /** What is on disk, in numbers: for metrics. */
  count(): { readonly waiting: number; readonly heldByPool: ReadonlyMap<string, number> } {
    const pools = this.#machines?.value.pools.values() ?? [];
    return {
      waiting: this.#deps.log.state.queue.places.size,
      heldByPool: new Map([...pools].map(({ name, held }) => [name, held])),
    };
  }

  /** A node came, went or changed. */
  observe(name: string, facts: NodeFacts | undefined): void {
    if (this.#machines === undefined) return;
    const { version, value } = this.#machines;
    this.#machines = { version, value: facts === undefined ? withoutNode(value, name) : withNode(value, facts) };
    this.#wake.resolve(undefined);
  }

  /** Grants what fits now, and again whenever nodes change, until the signal. Rejects with defects only. */
  async run(signal: AbortSignal): Promise<void> {
    const stop = (): void => this.#wake.resolve(undefined);
    signal.addEventListener("abort", stop, { once: true });
    while (!signal.aborted) {
      this.#wake = Promise.withResolvers<undefined>();
      const done = await this.#pass().catch((error: unknown) => {
        const fault = faultOf(error);
        if (fault === undefined || !isRetryable(fault)) throw error;
        return false;
      });
      await (done ? this.#wake.promise : this.#deps.pause(signal));
    }
    signal.removeEventListener("abort", stop);
  }

  async #pass(): Promise<true> {
    const { steps, complete } = await this.#deps.log.transact((ledger) => {
      const settled = this.#grant(this.#worldOf(ledger), this.#deps.now());
      return { events: settled.events, result: this.#keep(settled.world, settled) };
    });
    if (!complete) this.#wake.resolve(undefined);
    if (steps.length > 0)
      await inSpan(TRACER, "plan grants", {}, (span) => {
        showSteps(span, steps);
        return Promise.resolve();
      });
    return true;
  }

  #read<Result>(look: (world: World, nowMs: number) => Result): Promise<Result> {
    return this.#deps.log.transact((ledger) => {
      return { events: [], result: look(this.#worldOf(ledger), this.#deps.now()) };
    });
  }

  #report(reservation: Reservation, world: World, nowMs: number): ReservationReport {
    if (reservation.grant !== undefined) return { reservation, because: undefined };
    return { reservation, because: explainWaiting(reservation, world, findHold(world, this.#policy, nowMs)) };
  }

  #grant(world: World, nowMs: number): GrantPlan & { world: World; events: readonly LedgerEvent[] } {
    const plan = planGrants(world, this.#policy, nowMs);
    const events = plan.steps.map((step) => eventOf(step, nowMs));
    return { ...plan, world: evolveWorld(world, events), events };
  }

  /** Another version than expected means that decisions were given up on their way to disk: the machines are built anew. */
  #worldOf(ledger: Ledger): World {
    if (this.#machines?.version !== ledger.version)
      this.#machines = { version: ledger.version, value: buildMachines(this.#deps.nodes(), ledger) };
    return { ledger, machines: withCompleteness(this.#machines.value, this.#deps.allNodesKnown(this.#deps.now())) };
  }

  /** Makes the machines those of the ledger after this decision, and passes the result on. */
  #keep<Result>(world: World, result: Result): Result {
    this.#machines = { version: world.ledger.version, value: world.machines };
    return result;
  }

  #committed(event: LedgerEvent, ledger: Ledger): void {
    if (event.kind === "requested") return;
    const caller = this.#callers.get(event.sequence);
    this.#callers.delete(event.sequence);
    // A reservation that was granted and released by one write is nobody's news.
    const reservation = ledger.reservations.get(event.sequence);
    if (event.kind === "granted" && reservation !== undefined) this.#deps.announce(reservation, caller);
  }

  /** A refusal is an answer and no failure of the decision, so it is shown as an attribute, and counted under its reason. */
  #inSpan<Result>(
    name: string,
    attributes: Record<string, string | number | boolean>,
    work: (span: Span) => Promise<Result>,
  ): Promise<Result> {
    return inSpan(TRACER, name, { attributes }, async (span) => {
      try {
        return await work(span);
      } catch (error) {
        const fault = faultOf(error);
        if (fault !== undefined) {
          span.setAttributes({ "muster.outcome": "refuse", "muster.because": reasonOf(fault) });
          this.#deps.decided(fault.code);
        }
        throw error;
      }
    });
  }
}

function existing({ ledger }: World, owner: Owner): Reservation {
  const reservation = reservationOf(ledger, owner);
  const id = `${owner.kind}/${owner.id}`;
  return reservation ?? throwFault({ code: "not_found", kind: "reservation", id });
}

function mustBeRight(wrong: Fault | undefined): void {
  if (wrong !== undefined) throw new FaultError(wrong);
}

function ownerAttributes({ kind, id }: Owner): Record<string, string> {
  return { "muster.owner.kind": kind, "muster.owner.id": id };
}

function reportAttributes({ reservation, because }: ReservationReport): Record<string, string | number> {
  return {
    "muster.reservation": idOf(reservation.sequence),
    ...(because !== undefined && {
      "muster.wait.pool": because.pool,
      "muster.wait.requested": because.requested,
      "muster.wait.available": because.available,
      "muster.wait.ahead": because.ahead,
    }),
  };
}

function showSteps(span: Span, steps: readonly GrantStep[]): void {
  for (const { sequence, because } of steps)
    span.addEvent("grant", {
      "muster.reservation": idOf(sequence),
      "muster.because": because.code,
      "muster.ahead": because.ahead,
    });
}
