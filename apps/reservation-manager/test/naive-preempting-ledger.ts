import type { Owner } from "@muster/names";
import type { NodeFacts } from "../src/domain/ledger/machines.ts";
import type { Queue } from "../src/domain/ledger/queue.ts";
import type { Need, PreemptionReason } from "../src/domain/ledger/reservation.ts";
import { planGrant, planPreemption } from "./naive-preemption.ts";
import { canEverFit, isLeaf, pathOf } from "./naive-quota.ts";
import {
  forestIn,
  futureOf,
  grantable,
  isPossible,
  isServed,
  isToBeWithdrawn,
  requestIn,
  useOn,
  waitingIn,
  withdrawnFor,
  type PreemptionWorld,
  type Work,
} from "./naive-world.ts";

/** The request of an owner. */
export type WorkRequest = {
  readonly owner: Owner;
  readonly queue?: string | undefined;
  readonly needs: readonly Need[];
  readonly priority: number;
  readonly topology?: string;
  readonly notPreemptible?: boolean;
  readonly beyondMinimum?: boolean;
  readonly graceMs?: number;
};

export type PreemptionOperation =
  | ({ readonly kind: "reserve" } & WorkRequest)
  /** Releases a grant or a waiting request. */
  | { readonly kind: "release"; readonly owner: Owner }
  /** The owner begins to end its work. */
  | { readonly kind: "accept"; readonly owner: Owner }
  /** The owner has ended its work, and waits again. */
  | { readonly kind: "requeue"; readonly owner: Owner }
  | { readonly kind: "put"; readonly queue: Queue }
  | { readonly kind: "remove"; readonly name: string }
  | { readonly kind: "node"; readonly facts: NodeFacts }
  | { readonly kind: "lose"; readonly node: string }
  | { readonly kind: "wait"; readonly ms: number };

type EventOfWork =
  | { readonly kind: "requested" | "released" | "accepted" | "withdrawn" | "requeued" }
  /** The future has no machines for it, so no work is preempted for it. */
  | { readonly kind: "dropped" }
  | { readonly kind: "granted"; readonly nodes: readonly string[] }
  | {
      readonly kind: "preempted";
      readonly beneficiary: number;
      readonly reason: PreemptionReason;
      readonly deadlineMs: number;
    };

/** An event of the work with this sequence. */
export type PreemptionEvent = EventOfWork & { readonly sequence: number; readonly atMs: number };

type Verdict =
  | { readonly kind: "granted" | "waiting" | "known"; readonly sequence: number }
  | {
      readonly kind: "refused";
      readonly code: "QUEUE_UNKNOWN" | "QUOTA_EXCEEDED" | "RESERVATION_DIFFERS" | "POOL_CAPACITY";
    };

export type PreemptionOutcome = {
  /** Set only for a request. */
  readonly verdict?: Verdict;
  /** The events in their order. */
  readonly events: readonly PreemptionEvent[];
};

/** Grace period of an owner that states none. */
const DEFAULT_GRACE_MS = 30_000;

/**
 * A reference ledger with queues, machines and preemption. After every operation it grants one request after another until no waiting request fits. Then it
 * preempts for one request after another. It computes each decision from its whole state.
 */
export class NaivePreemption {
  #world: PreemptionWorld;
  #nextSequence = 1;
  #nextPromise = 1;
  #events: PreemptionEvent[] = [];

  constructor(nodes: readonly NodeFacts[]) {
    this.#world = { queues: [], nodes, work: [], nowMs: 0 };
  }

  get world(): PreemptionWorld {
    return this.#world;
  }

  step(operation: PreemptionOperation): PreemptionOutcome {
    this.#events = [];
    const verdict = this.#do(operation);
    if (verdict?.kind !== "refused" && verdict?.kind !== "known") this.#pass();
    const events = this.#events;
    if (verdict === undefined) return { events };
    if (verdict.kind !== "waiting") return { verdict, events };
    const isGranted = events.some(({ kind, sequence }) => kind === "granted" && sequence === verdict.sequence);
    return { verdict: { ...verdict, kind: isGranted ? "granted" : "waiting" }, events };
  }

  #do(operation: PreemptionOperation): Verdict | undefined {
    const { queues, nodes, nowMs } = this.#world;
    switch (operation.kind) {
      case "reserve":
        return this.#reserve(operation);
      case "release":
        this.#release(operation.owner);
        return undefined;
      case "accept":
        this.#accept(operation.owner);
        return undefined;
      case "requeue":
        this.#requeue(operation.owner);
        return undefined;
      case "put":
        this.#set({ queues: [...queues.filter(({ name }) => name !== operation.queue.name), operation.queue] });
        return undefined;
      case "remove":
        this.#set({ queues: queues.filter(({ name }) => name !== operation.name) });
        return undefined;
      case "node":
        this.#set({ nodes: [...nodes.filter(({ name }) => name !== operation.facts.name), operation.facts] });
        return undefined;
      case "lose":
        this.#set({ nodes: nodes.filter(({ name }) => name !== operation.node) });
        return undefined;
      case "wait":
        this.#set({ nowMs: nowMs + operation.ms });
        return undefined;
    }
  }

  /** A queue lowers the priority of a request when it arrives; a later `maxPriority` does not change it. */
  #reserve(request: WorkRequest): Verdict {
    const known = this.#workOf(request.owner);
    if (known !== undefined) {
      const isSame = contentOf(known) === contentOf(request);
      return isSame ? { kind: "known", sequence: known.sequence } : { kind: "refused", code: "RESERVATION_DIFFERS" };
    }
    const { queues, nowMs } = this.#world;
    const { queue, priority, owner, needs, topology, notPreemptible, beyondMinimum, graceMs } = request;
    const maxPriority = queues.find(({ name }) => name === queue)?.maxPriority ?? priority;
    const work: Work = {
      sequence: this.#nextSequence,
      owner,
      needs,
      priority: Math.min(priority, maxPriority),
      createdAtMs: nowMs,
      ...(queue !== undefined && { queue }),
      ...(topology !== undefined && { topology }),
      ...(notPreemptible !== undefined && { notPreemptible }),
      ...(beyondMinimum !== undefined && { beyondMinimum }),
      ...(graceMs !== undefined && { graceMs }),
    };
    const code = this.#refusalOf(work);
    if (code !== undefined) return { kind: "refused", code };
    this.#nextSequence += 1;
    const waited = waitingIn(this.#world);
    this.#set({ work: [...this.#world.work, work] });
    this.#record(work, { kind: "requested" });
    this.#grantArrival(work, waited);
    return { kind: "waiting", sequence: work.sequence };
  }

  /** A request that fits is granted before those that its arrival unblocks: no quota is kept any more for the previous head of its queue. */
  #grantArrival(work: Work, waited: readonly Work[]): void {
    const nodes = grantable(this.#world, work, futureOf(this.#world), waited);
    if (nodes !== undefined) this.#grant(work, nodes);
  }

  /** A queue whose numbers cannot be known refuses nothing: its work waits until it is repaired. */
  #refusalOf(work: Work): "QUEUE_UNKNOWN" | "QUOTA_EXCEEDED" | "POOL_CAPACITY" | undefined {
    if (!isPossible(this.#world, work)) return "POOL_CAPACITY";
    const { queue } = work;
    if (queue === undefined) return undefined;
    const forest = forestIn(this.#world);
    if (forest.queues.every(({ name }) => name !== queue)) return "QUEUE_UNKNOWN";
    const path = pathOf(forest, queue);
    if (path === undefined || path.some(({ problem }) => problem !== undefined)) return undefined;
    if (!isLeaf(forest, queue)) return "QUEUE_UNKNOWN";
    return canEverFit(forest, queue, requestIn(this.#world, work).ask) ? undefined : "QUOTA_EXCEEDED";
  }

  #release(owner: Owner): void {
    const work = this.#workOf(owner);
    if (work === undefined) return;
    this.#set({ work: this.#world.work.filter((each) => each !== work) });
    this.#record(work, { kind: "released" });
    this.#withdrawFor(work);
  }

  #accept(owner: Owner): void {
    const work = this.#workOf(owner);
    const leaving = work?.grant?.leaving;
    if (work?.grant === undefined || leaving === undefined || leaving.isAccepted) return;
    this.#replace({ ...work, grant: { ...work.grant, leaving: { ...leaving, isAccepted: true } } });
    this.#record(work, { kind: "accepted" });
  }

  /** The work waits at its old place. Work that is not preempted stays. */
  #requeue(owner: Owner): void {
    const work = this.#workOf(owner);
    const preemptedFor = work?.grant?.leaving?.beneficiary;
    if (work === undefined || preemptedFor === undefined) return;
    const { grant: _, ...waiting } = work;
    this.#replace({ ...waiting, preemptedFor });
    this.#record(work, { kind: "requeued" });
  }

  /** A preemption frees quota that was kept for a promise, so more requests may be granted to borrowers. */
  #pass(): void {
    this.#dropUnserved();
    for (;;) {
      const grant = planGrant(this.#world);
      if (grant !== undefined) {
        this.#grant(this.#known(grant.sequence), grant.nodes);
        continue;
      }
      const preemption = planPreemption(this.#world);
      if (preemption === undefined) return;
      const { beneficiary, victims } = preemption;
      for (const { sequence, reason } of victims) this.#preempt(this.#known(sequence), beneficiary, reason);
      this.#replace({ ...this.#known(beneficiary), promise: this.#nextPromise++ });
    }
  }

  /** Drops promises that the future does not keep, for example after the loss of a node, and withdraws their preemptions. */
  #dropUnserved(): void {
    for (;;) {
      const future = futureOf(this.#world);
      const unserved = waitingIn(this.#world).filter((work) => work.promise !== undefined && !isServed(future, work));
      if (unserved.length === 0) return;
      for (const { promise: _, ...kept } of unserved) {
        this.#replace(kept);
        this.#record(kept, { kind: "dropped" });
        this.#withdrawFor(kept);
      }
    }
  }

  #grant(work: Work, nodes: readonly string[]): void {
    const { promise: _, ...kept } = work;
    const world = this.#world;
    this.#replace({ ...kept, grant: { atMs: world.nowMs, nodes, use: useOn(world, work, nodes) } });
    this.#record(work, { kind: "granted", nodes });
    this.#withdrawFor(work);
  }

  #preempt(work: Work, beneficiary: number, reason: PreemptionReason): void {
    if (work.grant === undefined) throw new Error(`work ${work.sequence} is not granted`);
    const deadlineMs = this.#world.nowMs + (work.graceMs ?? DEFAULT_GRACE_MS);
    const leaving = { beneficiary, reason, deadlineMs, isAccepted: false };
    this.#replace({ ...work, grant: { ...work.grant, leaving } });
    this.#record(work, { kind: "preempted", beneficiary, reason, deadlineMs });
  }

  /** The beneficiary has its machines, or has ended. */
  #withdrawFor(beneficiary: Work): void {
    const withdrawn = this.#world.work.filter((each) => isToBeWithdrawn(each, beneficiary.sequence));
    this.#world = withdrawnFor(this.#world, beneficiary);
    for (const work of withdrawn) this.#record(work, { kind: "withdrawn" });
  }

  #known(sequence: number): Work {
    const work = this.#world.work.find((each) => each.sequence === sequence);
    if (work === undefined) throw new Error(`no work ${sequence}`);
    return work;
  }

  #workOf({ kind, id }: Owner): Work | undefined {
    return this.#world.work.find(({ owner }) => owner.kind === kind && owner.id === id);
  }

  #replace(work: Work): void {
    this.#set({ work: this.#world.work.map((each) => (each.sequence === work.sequence ? work : each)) });
  }

  #set(part: Partial<PreemptionWorld>): void {
    this.#world = { ...this.#world, ...part };
  }

  #record({ sequence }: Work, event: EventOfWork): void {
    this.#events.push({ ...event, sequence, atMs: this.#world.nowMs });
  }
}

function contentOf({ needs, topology = "" }: Pick<WorkRequest, "needs" | "topology">): string {
  const lines = needs.map(({ component, pool, shared, selection }) => {
    const amounts = shared === undefined ? "whole" : [...shared].sort().join();
    return `${component} ${pool} ${amounts} ${JSON.stringify(selection)}`;
  });
  return [...lines.sort(), topology].join(";");
}
