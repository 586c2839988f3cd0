import { assertNever } from "./assert-never.ts";

/** Every expected failure in the system. One variant per failure that a caller may want to distinguish. */
export type Fault =
  | { readonly code: "invalid_request"; readonly field: string; readonly reason: string }
  | { readonly code: "not_found"; readonly kind: string; readonly id: string }
  | { readonly code: "already_exists"; readonly kind: string; readonly id: string }
  | {
      readonly code: "conflict";
      readonly id: string;
      readonly expectedRevision: number;
      /** 0 when the other side did not report it. */
      readonly actualRevision: number;
    }
  | {
      readonly code: "pool_unknown";
      readonly pool: string;
      /** Some pools that exist; absent where the sender does not know them. */
      readonly known?: readonly string[];
    }
  | {
      readonly code: "pool_capacity";
      readonly pool: string;
      readonly requested: number;
      readonly capacity: number;
      /** The capacity is that of the nodes with one value of this label. */
      readonly topology?: string;
      /** Resources that every machine lacks for some pod; absent: none, or not known. */
      readonly short?: readonly ShortResource[];
      /** Some of the nodes that only their cordon excludes; absent: none, or unknown. */
      readonly cordoned?: readonly string[];
      /** Some taints that keep nodes from counting, such as `gpu=big:NoSchedule`; absent: none, or not known. */
      readonly taints?: readonly string[];
    }
  | {
      readonly code: "pool_availability";
      readonly pool: string;
      readonly requested: number;
      readonly available: number;
    }
  | {
      readonly code: "queue_unknown";
      readonly queue: string;
      /** Some queues that may have work. */
      readonly known?: readonly string[];
    }
  /** Amounts in the unit of the ledger: thousandths of a core of cpu. */
  | {
      readonly code: "quota_exceeded";
      readonly queue: string;
      readonly pool: string;
      readonly resource: string;
      readonly requested: number;
      readonly most: number;
    }
  | { readonly code: "reservation_differs"; readonly ownerKind: string; readonly ownerId: string }
  | {
      readonly code: "limit_exceeded";
      readonly what: string;
      /** 0: not known. */
      readonly limit: number;
      /** 0: waiting does not help, make the request smaller. */
      readonly retryAfterMs: number;
    }
  | { readonly code: "unavailable"; readonly dependency: string; readonly retryAfterMs: number }
  | { readonly code: "deadline_exceeded"; readonly operation: string; readonly timeoutMs: number }
  | { readonly code: "cancelled"; readonly operation: string }
  /** A defect of the other side, which has logged the rest. */
  | { readonly code: "internal"; readonly operation: string };

/** The largest amounts that one pod requests and that one machine has, in the unit of the ledger: thousandths of a core of cpu. */
export type ShortResource = { readonly resource: string; readonly requested: number; readonly largest: number };

export type FaultCode = Fault["code"];

/** gRPC status numbers. A new variant does not compile until it is mapped. */
export const WIRE_CODE = {
  invalid_request: 3,
  not_found: 5,
  already_exists: 6,
  conflict: 10,
  pool_unknown: 5,
  pool_capacity: 9,
  pool_availability: 8,
  queue_unknown: 5,
  quota_exceeded: 9,
  reservation_differs: 9,
  limit_exceeded: 8,
  unavailable: 14,
  deadline_exceeded: 4,
  cancelled: 1,
  internal: 13,
} as const satisfies Record<FaultCode, number>;

/** The stable word for dashboards, scripts and `-o json`: POOL_UNKNOWN. */
export function getReason(fault: Fault): string {
  return fault.code.toUpperCase();
}

/** Describes the fault for people in one line with its numbers, in lower case without a full stop. */
export function describeFault(fault: Fault): string {
  switch (fault.code) {
    case "invalid_request":
      return `${fault.field}: ${fault.reason}`;
    case "not_found":
      return `${fault.kind} ${fault.id} does not exist`;
    case "already_exists":
      return `${fault.kind} ${fault.id} exists already`;
    case "conflict":
      return `${fault.id} was changed concurrently: expected revision ${fault.expectedRevision}, found ${fault.actualRevision || "another"}`;
    case "pool_unknown":
      return `pool ${fault.pool} does not exist${fault.known === undefined ? "" : `; known pools: ${fault.known.join(", ")}`}`;
    case "pool_capacity":
      if (fault.topology !== undefined)
        return `pool ${fault.pool} has room for ${fault.capacity} of ${fault.requested} at most on nodes with one value of the label ${fault.topology}: request fewer, or label or add nodes${describeExcluded(fault)}`;
      return `pool ${fault.pool} has ${fault.capacity} machines at most, ${fault.requested} are needed: request fewer, or enlarge the pool${describeExcluded(fault)}`;
    case "pool_availability":
      return `pool ${fault.pool} has ${fault.available} machines free now, ${fault.requested} are needed`;
    case "queue_unknown":
      return `queue ${fault.queue} does not exist or has queues below it${fault.known === undefined ? "" : `; queues: ${fault.known.join(", ")}`}`;
    case "quota_exceeded":
      return describeQuota(fault);
    case "reservation_differs":
      return `${fault.ownerKind} ${fault.ownerId} already has a reservation with other needs`;
    case "limit_exceeded":
      return `${fault.what} is over its limit${fault.limit > 0 ? ` of ${fault.limit}` : ""}${retryHint(fault.retryAfterMs)}`;
    case "unavailable":
      return `${fault.dependency} is not available${retryHint(fault.retryAfterMs)}`;
    case "deadline_exceeded":
      return `${fault.operation} took longer than ${describeTime(fault.timeoutMs)}`;
    case "cancelled":
      return `${fault.operation} was cancelled`;
    case "internal":
      return `${fault.operation} failed inside the service; its log says why`;
    default:
      return assertNever(fault);
  }
}

/** The cordons and taints that keep nodes of the pool from counting; empty: none is known. */
export function describeExcluded({
  cordoned = [],
  taints = [],
}: Pick<Extract<Fault, { code: "pool_capacity" }>, "cordoned" | "taints">): string {
  const cordons = cordoned.length === 0 ? "" : `; cordoned: ${cordoned.join(", ")}`;
  return `${cordons}${taints.length === 0 ? "" : `; taints that are not tolerated: ${taints.join(", ")}`}`;
}

/** Whether the same request may succeed later. */
export function isRetryable(fault: Fault): boolean {
  switch (fault.code) {
    case "unavailable":
    case "deadline_exceeded":
    case "conflict":
    case "pool_availability":
      return true;
    case "limit_exceeded":
      return fault.retryAfterMs > 0;
    case "invalid_request":
    case "not_found":
    case "already_exists":
    case "pool_unknown":
    case "pool_capacity":
    case "queue_unknown":
    case "quota_exceeded":
    case "reservation_differs":
    case "cancelled":
    case "internal":
      return false;
    default:
      return assertNever(fault);
  }
}

function retryHint(retryAfterMs: number): string {
  return retryAfterMs > 0 ? `; try again in ${describeTime(retryAfterMs)}` : "";
}

function describeTime(ms: number): string {
  return ms < 1000 ? `${ms} ms` : `${Math.round(ms / 100) / 10} s`;
}

function describeQuota({ queue, pool, resource, requested, most }: Extract<Fault, { code: "quota_exceeded" }>): string {
  const [needed, available] = [requested, most].map((amount) => (resource === "cpu" ? amount / 1000 : amount));
  return `queue ${queue} can have ${available} of ${resource} in pool ${pool} at most, ${needed} are needed: ask for less, or raise its quota`;
}
