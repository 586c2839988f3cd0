import { compareText, SortedMap } from "./sorted-map.ts";

/** A node of the tree of queues, as its team or administrator configures it. Amounts have the ledger's units: millicores of cpu, otherwise bytes or pieces. */
export type Queue = {
  readonly name: string;
  /** Undefined: it is the root of a tree. */
  readonly parent?: string;
  /** Weight in thousandths. With 0 it borrows only when no other queue has work that fits. */
  readonly weightMilli: number;
  /** By `buildPairKey`. Empty: it has no quota of its own, and may use that of its tree. */
  readonly quotas: ReadonlyMap<string, Quota>;
  readonly strategy: "BestEffortFIFO" | "StrictFIFO";
  readonly stopPolicy: "None" | "Hold" | "HoldAndDrain";
  /** Higher priorities are lowered to this. */
  readonly maxPriority?: number;
  /** Set by the reader of an invalid queue, which then admits nothing. */
  readonly problem?: string;
  /** Work of other queues that its requests may preempt, if that work borrows quota which this queue owns. Absent, as in the next two: none. */
  readonly reclaim?: Preemptible;
  /** Work of queues with a larger share that its requests may preempt. */
  readonly fairSharing?: Preemptible;
  /** Work of its own that its requests may preempt. Any: of lower priority, or newer and of the same priority. */
  readonly withinQueue?: Preemptible;
  /** Requests that have to borrow preempt borrowers of lower priority, up to this priority. */
  readonly whileBorrowing?: number;
  /** Minimum time that its work keeps its machines before it may be preempted. */
  readonly minRunTimeMs?: number;
  /** Work of the queue may opt out of preemption. */
  readonly permitsNonPreemptible?: boolean;
  /** The owner releases a gang that is not ready within this time after its grant. The ledger only displays it. */
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

/** Amounts by `buildPairKey`; entries of 0 are omitted. */
export type PairAmounts = ReadonlyMap<string, number>;

export type Queues = SortedMap<string, Queue>;

export const noQueues: Queues = SortedMap.empty(compareText);
export const NO_PAIRS: PairAmounts = new Map();

/** Stands for each resource of a pool that the queue does not name. */
export const ANY_RESOURCE = "";

/** Key of a resource in a pool. Names of pools and resources contain no space. */
export function buildPairKey(pool: string, resource: string): string {
  return `${pool} ${resource}`;
}

export function parsePair(key: string): { readonly pool: string; readonly resource: string } {
  const [pool = "", resource = ""] = key.split(" ");
  return { pool, resource };
}

export function areQueuesEqual(a: Queue, b: Queue): boolean {
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
