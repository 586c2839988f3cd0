import type { Owner } from "@muster/names";
import type { PairAmounts } from "./queue.ts";
import {
  buildAmountsKey,
  compareLargestFirst,
  buildNodeSelectionKey,
  type Amounts,
  type NodeSelection,
} from "@muster/resources";

/** A machine of one pool, or a part of one, for one component or replica. */
export type Need = {
  readonly component: string;
  /** The preferred pool. */
  readonly pool: string;
  /** Further acceptable pools, in order of preference; absent: none. Needs of a reservation with the same list are granted in one pool. */
  readonly otherPools?: readonly string[];
  /** The requests of the one pod on the machine; undefined: the need is exclusive, a whole machine. */
  readonly shared?: Amounts;
  /** The nodes that its pod accepts; undefined: each node of the pool without taints. */
  readonly selection?: NodeSelection;
};

/** One held machine, or a held part of one. */
export type Machine = Omit<Need, "selection" | "otherPools"> & { readonly node: string };

/** One entry of the ledger. It waits until it has a `grant`; then it holds a machine or a part for each need, in the order of the needs. */
export type Reservation = {
  /** Sequence of arrival; never reused, so `getReservationId` is unique for ever. */
  readonly sequence: number;
  readonly owner: Owner;
  readonly needs: readonly Need[];
  /** All of its nodes have the same value of this label. Undefined: they may be anywhere. */
  readonly topology?: string;
  /** The queue whose quota it uses. Undefined: no quota limits it. */
  readonly queue?: string;
  /** Higher values go first. */
  readonly priority: number;
  readonly createdAtMs: number;
  /** Opts out of preemption, if its queue permits that. */
  readonly notPreemptible?: true;
  /** The owner can work without this reservation, so it is preempted before reservations without this mark. */
  readonly beyondMinimum?: true;
  /** How long its work takes to end when it is preempted; absent: `DEFAULT_GRACE_MS`. */
  readonly graceMs?: number;
  /** Grows with each change of its preemption, so that receivers drop an earlier state. Absent: 0. */
  readonly revision?: number;
  /** Sequence of the request that it was last preempted for. */
  readonly preemptedFor?: number;
  readonly grant?: Grant;
};

export const DEFAULT_GRACE_MS = 30_000;

export type Grant = {
  readonly atMs: number;
  readonly machines: readonly Machine[];
  /** The value of the label `topology` on its nodes; set only with `topology`. */
  readonly domain?: string;
  /** Use of the queue's quota until the reservation is released; only with a queue. */
  readonly use?: PairAmounts;
  /** Set while its owner is asked to end the work. */
  readonly preemption?: Preemption;
};

export type Preemption = {
  /** Sequence of the request that waits for the machines; absent: its queue is drained. */
  readonly beneficiary?: number;
  readonly reason: PreemptionReason;
  readonly atMs: number;
  /** The owner ends the work without grace after this time. */
  readonly deadlineMs: number;
  /** The owner has begun to end the work. */
  readonly isAccepted: boolean;
};

/** DRAIN: its queue asks all work to end. */
export type PreemptionReason = "RECLAIM" | "FAIR_SHARING" | "WITHIN_QUEUE" | "DRAIN";

/** The needs of a reservation in one pool, or on the nodes that one selection accepts. */
export type PoolNeed = {
  readonly pool: string;
  readonly selection?: NodeSelection;
  /** Only nodes whose label `key` has this value. */
  readonly domain?: { readonly key: string; readonly value: string };
  /** Number of whole machines. */
  readonly count: number;
  /** Requests of the parts, in the order in which they are placed: the largest first. */
  readonly shared: readonly Amounts[];
};

export function getReservationId(sequence: number): string {
  return `r-${sequence}`;
}

/** The inverse of `getReservationId`; throws on an invalid id. */
export function getSequence(id: string): number {
  const digits = /^r-([1-9]\d*)$/.exec(id)?.[1];
  if (digits === undefined) throw new Error(`"${id}" is not the id of a reservation`);
  return Number(digits);
}

/** Kinds and ids are DNS labels, so the separator, which sorts before all their characters, keeps owners of one kind together. */
export function buildOwnerKey(owner: Owner): string {
  return `${owner.kind}!${owner.id}`;
}

/** Groups the needs by pool and selection, in the order of their `buildViewKey`. */
export function countByPool(needs: readonly Need[]): readonly PoolNeed[] {
  const views = new Map<string, Omit<PoolNeed, "count" | "shared"> & { count: number; shared: Amounts[] }>();
  for (const { pool, selection, shared } of needs) {
    const key = buildViewKey({ pool, ...(selection && { selection }) });
    const known = views.get(key) ?? { pool, ...(selection && { selection }), count: 0, shared: [] };
    if (shared === undefined) known.count += 1;
    else known.shared.push(shared);
    views.set(key, known);
  }
  for (const { shared } of views.values()) shared.sort(compareLargestFirst);
  return [...views].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, need]) => need);
}

/** Equal for needs that accept the same nodes. Pool names contain no exclamation mark, which sorts before all their characters. */
export function buildViewKey({ pool, selection, domain }: NodeFilter): string {
  const key = selection === undefined ? pool : `${pool}!${buildNodeSelectionKey(selection)}`;
  return domain === undefined ? key : `${key}!${domain.key}=${domain.value}`;
}

/** The nodes that a need accepts. */
export type NodeFilter = Pick<PoolNeed, "pool" | "selection" | "domain">;

/** Number of machines and parts of machines. */
export function countMachines({ count, shared }: Pick<PoolNeed, "count" | "shared">): number {
  return count + shared.length;
}

export function getNeeds(pool: string, needs: readonly PoolNeed[]): readonly PoolNeed[] {
  return needs.filter((need) => need.pool === pool);
}

/** Returns whether another need is of the same pool with another selection. */
export function hasOthersOf(need: PoolNeed, needs: readonly PoolNeed[]): boolean {
  return needs.length > 1 && needs.some((other) => other !== need && other.pool === need.pool);
}

/** The request of a reservation, granted completely or not at all. */
export type Gang = Pick<Reservation, "needs" | "topology">;

/** A gang with its needs grouped by pool. */
export type PoolGang = { readonly needs: readonly PoolNeed[]; readonly topology?: string | undefined };

/** Returns whether both gangs request equal machines or parts, on the same nodes and for the same components, in any order. */
export function areNeedsEqual(a: Gang, b: Gang): boolean {
  if (a.needs.length !== b.needs.length || a.topology !== b.topology) return false;
  const keys = new Map(a.needs.map((need) => [need.component, needKey(need)]));
  return b.needs.every((need) => keys.get(need.component) === needKey(need));
}

/** Bytes beside the name of a resource in a message: tags, lengths and the amount. */
const BYTES_PER_RESOURCE = 16;

/** Estimates the bytes of a part's requests in a message; 0 for a whole machine. */
export function shareBytes(requests: Amounts | undefined): number {
  let bytes = 0;
  for (const resource of requests?.keys() ?? []) bytes += resource.length + BYTES_PER_RESOURCE;
  return bytes;
}

function needKey(need: Need): string {
  const key = need.shared === undefined ? buildViewKey(need) : `${buildViewKey(need)} ${buildAmountsKey(need.shared)}`;
  return need.otherPools === undefined ? key : `${key} ${need.otherPools.join(" ")}`;
}
