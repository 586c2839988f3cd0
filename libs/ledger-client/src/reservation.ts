import { enums, type muster } from "@muster/proto";
import { compactNodeSelection, indexPoolLists, indexSelections, type NodeSelection } from "@muster/resources";

/** The requests that a part of a machine holds, by resource: millicores of cpu, otherwise bytes or pieces. */
export type Share = Readonly<Record<string, number>>;

/**
 * One machine of a pool, for one component of the owner. With `shared`, it is a part of a machine that has room for these requests. Without `selection`, it is
 * a node without taints.
 */
export type Need = {
  readonly component: string;
  readonly pool: string;
  /** Other accepted pools, in order of preference. Needs that accept the same pools are granted in one of them. */
  readonly otherPools?: readonly string[] | undefined;
  readonly shared?: Share | undefined;
  readonly selection?: NodeSelection | undefined;
};

/** The machine granted for a need. */
export type Machine = Omit<Need, "selection" | "otherPools"> & { readonly node: string };

/** The reason of a wait. */
export type WaitReason = {
  readonly code: string;
  readonly pool: string;
  readonly requested: number;
  /** The number of `requested` that are parts of machines. */
  readonly parts: number;
  /** `available` and `ahead` change while the reservation waits; a cache does not follow them. */
  readonly available: number;
  /** Describes the nodes of the pool that count; undefined: each node without taints. */
  readonly nodes?: string | undefined;
  /** Set if the reservation waits for a topology: the label that needs one value on all machines. */
  readonly topology?: string | undefined;
  /** The queue of the reservation, if the code concerns queues. */
  readonly queue?: string | undefined;
  /** The missing quota, if the reservation waits for quota. */
  readonly quota?: QuotaShortage | undefined;
  readonly ahead: number;
};

/** Amounts have the units of shares. `queue` has the exceeded quota: the queue of the reservation, or an ancestor. */
type QuotaShortage = {
  readonly queue: string;
  readonly pool: string;
  readonly resource: string;
  readonly requested: number;
};

/** Machines are taken from work that has them, for a request that waits. Times are by the clock of the ledger. */
export type Preemption = {
  /** Owner of the request that the machines are for. */
  readonly beneficiary: { readonly kind: string; readonly id: string };
  /** Id of that request. */
  readonly beneficiaryId: string;
  /** The queue of that request; empty: none. */
  readonly queue: string;
  /** RECLAIM, FAIR_SHARING or WITHIN_QUEUE. */
  readonly reason: string;
  readonly atMs: number;
  /** Time after which the owner ends its work without grace. */
  readonly deadlineMs: number;
  /** The owner has begun to end its work, so the ledger no longer withdraws the preemption. */
  readonly accepted: boolean;
};

/** A reservation as the ledger shows it. */
export type Reservation = {
  readonly id: string;
  readonly ownerId: string;
  /** Higher in every later reservation; 0: the ledger is of a version that does not number them. */
  readonly sequence: number;
  /** Of two states of a reservation, the one with the higher revision is newer; with equal revisions, the granted one. */
  readonly revision: number;
  /** Creation time by the clock of the ledger. */
  readonly createdAtMs: number;
  readonly needs: readonly Need[];
  /** Label with the same value on all machines; undefined: no restriction. */
  readonly topology?: string;
  /** The queue whose quota it uses; absent: none. */
  readonly queue?: string;
  /** Id of the reservation that it was last preempted for; absent: it never was. */
  readonly preemptedFor?: string;
} & (
  | { readonly state: "waiting"; /** Undefined: the ledger states none. */ readonly because: WaitReason | undefined }
  | {
      readonly state: "granted";
      readonly machines: readonly Machine[];
      /** The value that the label of the topology has on the machines. */
      readonly domain?: string;
      /** The owner must end its work and then call `requeue`; absent: it keeps its machines. */
      readonly preemption?: Preemption;
    }
);

/** Undefined: it is missing, or of another owner kind. */
export function readReservation(
  message: muster.reservation.v1.Reservation | undefined,
  ownerKind: string,
): Reservation | undefined {
  if (message?.owner?.kind !== ownerKind) return undefined;
  const { id, owner, sequence, revision, createdAtMs, needs, nodeSelections, topology, queue, state } = message;
  const { machines, domain, because, preemption, preemptedFor, poolLists } = message;
  const read = {
    id,
    ownerId: owner.id,
    sequence,
    revision,
    createdAtMs,
    needs: needs.map((need) => ({
      ...readShare(need),
      ...readOtherPools(poolLists[need.poolList - 1]),
      ...readSelection(nodeSelections[need.nodeSelection - 1]),
    })),
    ...(topology !== "" && { topology }),
    ...(queue !== "" && { queue }),
    ...(preemptedFor !== "" && { preemptedFor }),
  };
  if (enums.ReservationState.nameOf(state) === "GRANTED")
    return {
      ...read,
      state: "granted",
      machines: machines.map((machine) => ({ ...readShare(machine), node: machine.node })),
      ...(domain !== "" && { domain }),
      ...(preemption !== undefined && { preemption: readPreemption(preemption) }),
    };
  return { ...read, state: "waiting", because: readWaitReason(because) };
}

function readPreemption(message: muster.reservation.v1.Preemption): Preemption {
  const { beneficiary, beneficiaryId, queue, reason, atMs, deadlineMs, accepted } = message;
  const { kind = "", id = "" } = beneficiary ?? {};
  return { beneficiary: { kind, id }, beneficiaryId, queue, reason, atMs, deadlineMs, accepted };
}

type Shared = Pick<muster.reservation.v1.Need, "component" | "pool" | "shared">;

function readShare({ component, pool, shared }: Shared): Omit<Need, "selection" | "otherPools"> {
  return { component, pool, ...(shared !== undefined && { shared: shared.requests }) };
}

function readOtherPools(list: muster.reservation.v1.PoolList | undefined): Pick<Need, "otherPools"> {
  return list === undefined ? {} : { otherPools: list.pools };
}

function readSelection(message: muster.reservation.v1.NodeSelection | undefined): Pick<Need, "selection"> {
  return message === undefined ? {} : { selection: compactNodeSelection(message) };
}

/** Converts the needs for a request message, which contains each selection and each list of pools once. */
export function toWireNeeds(
  needs: readonly Need[],
): Pick<muster.reservation.v1.ReserveRequest.$Properties, "needs" | "nodeSelections" | "poolLists"> {
  const { selections, indexes } = indexSelections(needs);
  const { poolLists, indexes: lists } = indexPoolLists(needs);
  const messages = needs.map(({ component, pool, shared }, index) => ({
    component,
    pool,
    ...(shared !== undefined && { shared: { requests: shared } }),
    nodeSelection: indexes[index],
    poolList: lists[index],
  }));
  return { needs: messages, nodeSelections: selections, poolLists };
}

export function readWaitReason(message: muster.reservation.v1.WaitReason | undefined): WaitReason | undefined {
  if (message === undefined) return undefined;
  const { code, pool, requested, parts, available, nodes, topology, queue, ahead } = message;
  const where = { ...(nodes !== "" && { nodes }), ...(topology && { topology: topology.key }) };
  const quota = readShortage(message);
  return { code, pool, requested, parts, available, ...where, ...(queue !== "" && { queue }), ...quota, ahead };
}

function readShortage({ quota }: muster.reservation.v1.WaitReason): Pick<WaitReason, "quota"> {
  if (quota === undefined) return {};
  const { queue, pool, resource, requested } = quota;
  return { quota: { queue, pool, resource, requested } };
}
