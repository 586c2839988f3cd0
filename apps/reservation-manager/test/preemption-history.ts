import type { PreemptionEvent } from "./naive-preempting-ledger.ts";
import { borrowedOf, fits, freeOf, isLeaf, isLimited, levelOf, pathOf, problemOf } from "./naive-quota.ts";
import {
  forestIn,
  futureOf,
  isInLine,
  policyOf,
  requestIn,
  waitingIn,
  type PreemptionWorld,
  type Work,
} from "./naive-world.ts";

type Preempted = Extract<PreemptionEvent, { kind: "preempted" }>;

type State = {
  kind: "waiting" | "granted" | "leaving" | "accepted" | "over";
  /** Set while it leaves. */
  preemption?: Preempted;
  /** The beneficiary that it was last preempted for. */
  leftFor?: number;
  /** Set for a beneficiary that was dropped. */
  isDropped?: boolean;
};

/** Returns the faults in a history of all events, each as a sentence. */
export function listFaults(events: readonly PreemptionEvent[]): readonly string[] {
  const states = new Map<number, State>();
  const stateOf = (sequence: number): State => states.get(sequence) ?? { kind: "over" };
  return events.flatMap((event) => {
    const state = stateOf(event.sequence);
    const beneficiary = event.kind === "preempted" ? stateOf(event.beneficiary) : undefined;
    const ofLeaving = state.preemption && stateOf(state.preemption.beneficiary);
    const fault = faultOf(event, state, beneficiary ?? ofLeaving);
    states.set(event.sequence, next(event, state));
    return fault === undefined ? [] : [`${event.kind} ${event.sequence}: ${fault}`];
  });
}

function faultOf(
  event: PreemptionEvent,
  { kind, preemption }: State,
  beneficiary: State | undefined,
): string | undefined {
  switch (event.kind) {
    case "requested":
      return kind === "over" ? undefined : "it exists";
    case "granted":
      return kind === "waiting" ? undefined : "it does not wait";
    case "released":
      return kind === "over" ? "it does not exist" : undefined;
    case "accepted":
      return kind === "leaving" ? undefined : "it is not preempted, or has accepted that";
    case "requeued":
      return preemption === undefined ? "it is not preempted" : undefined;
    case "withdrawn":
      if (kind !== "leaving") return "it is not preempted, or its owner has begun to end it";
      return beneficiary?.kind === "waiting" && beneficiary.isDropped !== true ? "its beneficiary waits" : undefined;
    case "dropped":
      return kind === "waiting" ? undefined : "it does not wait";
    case "preempted":
      if (kind !== "granted") return "it is not granted, or leaves already";
      if (beneficiary?.kind !== "waiting") return "its beneficiary does not wait";
      return beneficiary.leftFor === event.sequence ? "its beneficiary left for it" : undefined;
  }
}

function next(event: PreemptionEvent, state: State): State {
  const { preemption, leftFor } = state;
  const more = leftFor === undefined ? {} : { leftFor };
  switch (event.kind) {
    case "requested":
      return { kind: "waiting" };
    case "released":
      return { kind: "over" };
    case "granted":
    case "withdrawn":
      return { kind: "granted", ...more };
    case "preempted":
      return { kind: "leaving", preemption: event, ...more };
    case "accepted":
      return { ...state, kind: "accepted" };
    case "dropped":
      return { ...state, isDropped: true };
    case "requeued":
      return { kind: "waiting", ...(preemption !== undefined && { leftFor: preemption.beneficiary }) };
  }
}

/** Lists the beneficiaries of preemptions that were neither granted nor ended afterwards. */
export function listUnserved(events: readonly PreemptionEvent[]): readonly number[] {
  const unserved = new Set<number>();
  for (const event of events) {
    if (event.kind === "preempted") unserved.add(event.beneficiary);
    if (event.kind === "granted" || event.kind === "released") unserved.delete(event.sequence);
  }
  return [...unserved];
}

/** Lists those of these that wait although no work leaves. At the end of a pass none may remain while nodes and queues are unchanged. */
export function listForgotten(events: readonly PreemptionEvent[]): readonly number[] {
  const leaving = new Set<number>();
  for (const { kind, sequence } of events) {
    if (kind === "preempted") leaving.add(sequence);
    if (kind === "requeued" || kind === "released" || kind === "withdrawn") leaving.delete(sequence);
  }
  return leaving.size > 0 ? [] : listUnserved(events);
}

/** Lists the limits that the use of the work's queue, or of a queue above it, exceeds. A grant may exceed none. */
export function listExceeded(world: PreemptionWorld, { queue, grant }: Work): readonly string[] {
  const forest = forestIn(world);
  const path = queue === undefined ? [] : (pathOf(forest, queue) ?? []);
  return path.flatMap(({ name, quotas, parent }) =>
    [...(grant?.use.keys() ?? [])]
      .filter((pair) => isLimited(forest, name, pair))
      .flatMap((pair) => {
        const limit = quotas.get(pair)?.borrowingLimit;
        const isAboveLimit = limit !== undefined && borrowedOf(forest, name, pair) > BigInt(limit);
        const isMoreThanLent = parent === undefined && freeOf(forest, name, pair) < 0n;
        return [
          ...(isAboveLimit ? [`${name} borrows more of ${pair} than its limit`] : []),
          ...(isMoreThanLent ? [`${name} uses more of ${pair} than it has`] : []),
        ];
      }),
  );
}

/**
 * Lists the requests whose queue's own quota borrowers use although the queue may reclaim it from any priority, and no work leaves for them. After a pass the
 * list is empty, unless a borrower cannot be preempted.
 */
export function listKeptFromOwnQuota(world: PreemptionWorld): readonly number[] {
  const future = futureOf(world);
  const forest = forestIn(future);
  return waitingIn(future).flatMap((work) => {
    const { queue, sequence } = work;
    if (queue === undefined || problemOf(forest, queue) !== undefined || !isLeaf(forest, queue)) return [];
    if (policyOf(world, queue).reclaim !== "Any" || !isInLine(future, work)) return [];
    const { ask } = requestIn(future, work);
    return levelOf(forest, queue, ask) === 0 && !fits(forest, queue, ask) ? [sequence] : [];
  });
}
