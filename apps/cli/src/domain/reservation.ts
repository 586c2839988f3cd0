import type { Share } from "./share.ts";

export type Pool = {
  readonly name: string;
  readonly available: number;
  readonly capacity: number;
  readonly held: number;
  readonly unusable: number;
  /** Why, as stable words; the counts add up to `unusable`. */
  readonly unusableByReason: readonly { readonly reason: string; readonly count: number }[];
  readonly waiting: number;
  /** Machines among `held` that are held in parts. */
  readonly shared: number;
  /** Amounts of its usable machines by resource, and what can be granted of them in parts: millicores of cpu, otherwise bytes or pieces. */
  readonly allocatable: Readonly<Record<string, number>>;
  readonly free: Readonly<Record<string, number>>;
  /** Granted machines on which more is used than they can allocate, because of foreign pods. */
  readonly overcommitted: number;
  /** The first of them. */
  readonly overcommittedNodes: readonly string[];
  /** The foreign pods on its nodes; undefined: none. */
  readonly foreign: { readonly pods: number; readonly requests: Readonly<Record<string, number>> } | undefined;
  /** What the node scaler may make of it at most; 0: it is not scaled. */
  readonly elasticMax: number;
  /** When the node scaler last wrote that; undefined: it never did, or the ledger does not report it. */
  readonly elasticAtMs?: number | undefined;
};

/** A machine of a pool. With `shared`, a part of a machine. */
type Need = { readonly component: string; readonly pool: string; readonly shared?: Share };

/** A reservation as the ledger reports it. */
export type Reservation = {
  readonly id: string;
  readonly ownerKind: string;
  readonly ownerId: string;
  readonly state: "waiting" | "granted" | "unknown";
  readonly needs: readonly Need[];
  readonly machines: readonly (Need & { readonly node: string })[];
  readonly priority: number;
  readonly createdAtMs: number;
  /** Undefined while it waits. */
  readonly grantedAtMs: number | undefined;
  /** Undefined when it does not wait. */
  readonly because:
    | {
        readonly code: string;
        readonly pool: string;
        readonly requested: number;
        /** How many of `requested` are parts of machines. */
        readonly parts: number;
        readonly available: number;
        readonly ahead: number;
      }
    | undefined;
};

/** An owner of machines, and since when. `owner` is `KIND/ID`. */
export type Holder = {
  readonly owner: string;
  readonly machines: number;
  /** How many of `machines` are parts of machines. */
  readonly parts: number;
  readonly sinceMs: number;
};

/** Parts with the same requests that a reservation needs. */
export type PartDemand = {
  readonly part: Share;
  readonly requested: number;
  /** How many of them fit now, beside the other parts of the reservation. */
  readonly fitting: number;
  /** Why the next one does not fit; undefined: all fit. */
  readonly shortage:
    | {
        /** The node that lacks least; empty: no node can be granted in parts now. */
        readonly node: string;
        /** Parts of the reservation that fit there. `free` is left beside them. */
        readonly placed: number;
        readonly resources: readonly { readonly resource: string; readonly requested: string; readonly free: string }[];
      }
    | undefined;
};

/** What an explanation has of a pool. */
type PoolCounts = Pick<Pool, "available" | "capacity" | "held" | "unusable" | "elasticMax" | "elasticAtMs">;

export type PoolExplanation = PoolCounts & {
  readonly pool: string;
  /** The nodes of the pool that count, such as `disk=ssd`. Absent: all without taints. */
  readonly nodes?: string | undefined;
  readonly requested: number;
  /** The parts among `requested`. */
  readonly parts: readonly PartDemand[];
  readonly partsMore: number;
  /** Amounts of the nodes that count and can be granted, by resource; undefined without parts. */
  readonly amounts: { readonly free: Share; readonly allocatable: Share } | undefined;
  /** Free, and kept for an older request. */
  readonly kept: number;
  readonly unusableNodes: readonly { readonly node: string; readonly reason: string; readonly occupant: string }[];
  readonly unusableMore: number;
  readonly holders: readonly Holder[];
  readonly holdersMore: number;
};

/** All that the ledger says about one reservation and what it waits for; numbers of one moment. */
export type ReservationExplanation = {
  readonly reservation: Reservation;
  /** Stable; empty when the reservation does not wait. */
  readonly code: string;
  readonly message: string;
  readonly pools: readonly PoolExplanation[];
  readonly place: {
    readonly ahead: number;
    readonly byPriority: readonly { readonly priority: number; readonly requests: number }[];
  };
  /** Undefined when no machines are kept. */
  readonly hold: { readonly owner: string; readonly own: boolean; readonly waitingSinceMs: number } | undefined;
  /** Undefined when the request has no limit. */
  readonly concurrency:
    { readonly limit: number; readonly granted: number; readonly holders: readonly Holder[] } | undefined;
};
