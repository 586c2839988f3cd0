import { compareText, SortedMap } from "./sorted-map.ts";

/** A node of the tree of queues, as its team or administrator states it. Amounts are those of the ledger: millicores of cpu, otherwise bytes or pieces. */
export type Queue = {
  readonly name: string;
  /** Undefined: it is the root of a tree. */
  readonly parent?: string;
  /** In thousandths. With 0 it borrows only when no other queue has work that fits. */
  readonly weightMilli: number;
  /** By `pairKey`. Empty: it has no quota of its own, and may use that of its tree. */
  readonly quotas: ReadonlyMap<string, Quota>;
  readonly strategy: "BestEffortFIFO" | "StrictFIFO";
  readonly stopPolicy: "None" | "Hold" | "HoldAndDrain";
  /** Higher priorities are lowered to this. */
  readonly maxPriority?: number;
  /** Found where it was read; it admits nothing then. */
  readonly problem?: string;
  /** Which borrowing work of other queues its requests may preempt, for quota that the queue owns. Absent, as in the next two: none. */
  readonly reclaim?: Preemptible;
  /** Which work of other queues that have a larger share. */
  readonly fairSharing?: Preemptible;
  /** Which work of its own. Any: of lower priority, or newer and of the same priority. */
  readonly withinQueue?: Preemptible;
  /** Requests that must borrow preempt borrowers of lower priority, of at most this one. */
  readonly whileBorrowing?: number;
  /** Its work is not preempted before it has had its machines for so long. */
  readonly minRunTimeMs?: number;
  /** Its work may state that it is not to be preempted. */
  readonly permitsNonPreemptible?: boolean;
  /** The owner releases a gang that is not ready so long after its grant. The ledger only shows it. */
  readonly readyTimeoutMs?: number;
  /** Half-life of the past borrowing of the queues below it, which counts in their order. Absent: it does not count. */
  readonly pastUseHalfLifeMs?: number;
};

export type Preemptible = "LowerPriority" | "Any";

/** The quota of a queue for one resource in one pool. */
export type Quota = {
  readonly nominal: number;
  /** The maximum use beyond its own quota; undefined: no limit. */
  readonly borrowingLimit?: number;
  /** The maximum of its own quota that other queues may use; undefined: all. */
  readonly lendingLimit?: number;
};

/** Amounts by `pairKey`; without those of 0. */
export type PairAmounts = ReadonlyMap<string, number>;

export type Queues = SortedMap<string, Queue>;

export const noQueues: Queues = SortedMap.empty(compareText);
export const NO_PAIRS: PairAmounts = new Map();

/** Stands for each resource of a pool that is not named. */
export const ANY_RESOURCE = "";

/** A resource in a pool. No name of a pool or a resource has a space. */
export function pairKey(pool: string, resource: string): string {
  return `${pool} ${resource}`;
}

export function pairOf(key: string): { readonly pool: string; readonly resource: string } {
  const [pool = "", resource = ""] = key.split(" ");
  return { pool, resource };
}

export function sameQueue(a: Queue, b: Queue): boolean {
  const { quotas: quotasOfA, ...restOfA } = a;
  const { quotas: quotasOfB, ...restOfB } = b;
  return sameFields(restOfA, restOfB) && sameQuotas(quotasOfA, quotasOfB);
}

function sameQuotas(a: Queue["quotas"], b: Queue["quotas"]): boolean {
  if (a.size !== b.size) return false;
  for (const [pair, quota] of a) {
    const other = b.get(pair);
    if (other === undefined || !sameFields(quota, other)) return false;
  }
  return true;
}

/** Whether two flat objects have the same fields with the same values. */
function sameFields(a: object, b: object): boolean {
  const [fieldsOfA, fieldsOfB] = [Object.entries(a), new Map(Object.entries(b))];
  return fieldsOfA.length === fieldsOfB.size && fieldsOfA.every(([field, value]) => fieldsOfB.get(field) === value);
}
