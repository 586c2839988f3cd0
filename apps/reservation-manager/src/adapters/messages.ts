import { enums, muster } from "@muster/proto";
import { throwFault } from "@muster/faults";
import {
  buildAmountsKey,
  computeFreeAmounts,
  compactNodeSelection,
  indexPoolLists,
  indexSelections,
  buildNodeSelectionKey,
  sumUse,
  type Amounts,
} from "@muster/resources";
import type { Codec, ListCodec } from "@muster/store";
import type { ReservationRequest } from "../domain/decisions/check-request.ts";
import type { LimitRequest } from "../domain/decisions/decide-limit.ts";
import type { LedgerEvent } from "../domain/ledger/ledger.ts";
import {
  countUnusable,
  countCapacity,
  type NodeFacts,
  type NodeUse,
  type PoolScaling,
  type UnusableReason,
} from "../domain/ledger/machines.ts";
import type { Owner } from "@muster/names";
import {
  getReservationId,
  getSequence,
  type Gang,
  type Grant,
  type Machine,
  type Need,
  type Reservation,
} from "../domain/ledger/reservation.ts";
import type { PoolReport, ReservationReport } from "../keeper-deps.ts";
import { toEnding, toPreempted, toPreemption, toWirePreempted, toWirePreemption } from "./preemption-messages.ts";
import { toPairAmounts, toPastShares, toQueue, toWirePastUse, toWireQueue, toWireUse } from "./queue-messages.ts";

const wire = muster.reservation.v1;
const { WAITING, GRANTED } = enums.ReservationState.numbers;

/**
 * One entry of the ledger's log. Decoding throws on an entry that this version does not understand, because skipping part of it would produce another ledger.
 */
export const entryCodec: ListCodec<LedgerEvent> = {
  encode: (events) => wire.LedgerEntry.encode({ events: events.map(toWireEvent) }).finish(),
  decode: (bytes) => wire.LedgerEntry.decode(bytes).events.map(toEvent),
  // Concatenated protobuf messages of one type decode as one message whose lists are joined.
  join: (parts) => Buffer.concat(parts),
};

/** One entry of the watcher's bucket: a node, or the mark that all nodes up to that time are published. */
export type NodeEntry =
  | { readonly kind: "node"; readonly state: muster.watch.v1.NodeState }
  | { readonly kind: "complete"; readonly atMs: number };

/** Only nodes have a name, which distinguishes the two kinds. */
export const nodeCodec: Codec<NodeEntry> = {
  encode: (entry) =>
    entry.kind === "node"
      ? muster.watch.v1.NodeState.encode(entry.state).finish()
      : muster.watch.v1.NodesComplete.encode({ atMs: entry.atMs }).finish(),
  decode: (bytes) => {
    const state = muster.watch.v1.NodeState.decode(bytes);
    if (state.name !== "") return { kind: "node", state };
    return { kind: "complete", atMs: muster.watch.v1.NodesComplete.decode(bytes).atMs };
  },
};

/** How a pool is scaled, as the node scaler writes it. */
export const scalingCodec: Codec<muster.node.v1.PoolScaling> = {
  encode: (scaling) => muster.node.v1.PoolScaling.encode(scaling).finish(),
  decode: (bytes) => muster.node.v1.PoolScaling.decode(bytes),
};

/** The node scaler reports this code if the provider is out of capacity. Other codes are temporary or, like TOO_LARGE, concern one request only. */
const EXHAUSTED = "UNAVAILABLE";

export function toScaling(pool: string, { max, blockedCode }: muster.node.v1.PoolScaling): PoolScaling {
  return { pool, max, exhausted: blockedCode === EXHAUSTED };
}

/** Returns undefined if the node no longer exists. */
export function toNodeFacts(state: muster.watch.v1.NodeState, poolLabel: string): NodeFacts | undefined {
  if (state.deleted) return undefined;
  const { name, ready, schedulable, cordoned, labels, unopened } = state;
  const pool = state.labels[poolLabel];
  return {
    name,
    pool: pool === "" ? undefined : pool,
    ready,
    schedulable,
    cordoned,
    labels,
    taints: unopened ? [] : state.taints,
    occupants: state.occupants.map(toOwner),
    allocatable: toAllocatable(state),
    foreign: toNodeUse(state.foreign),
    ownerUses: state.shared.map(({ owner, use }) => ({ owner: toOwner(owner), use: toNodeUse(use) })),
  };
}

/** Undefined if the watcher does not report the resources of the node. */
function toAllocatable({ allocatable, overhead }: muster.watch.v1.NodeState): Amounts | undefined {
  const all = toAmounts(allocatable);
  if (all.size === 0) return undefined;
  const { pods, requests } = toNodeUse(overhead);
  return computeFreeAmounts({ allocatable: all, overhead: sumUse(requests, pods), uses: [] });
}

function toNodeUse(use: muster.watch.v1.NodeUse | null | undefined): NodeUse {
  return { pods: use?.pods ?? 0, requests: toAmounts(use?.requests ?? {}), examples: use?.examples ?? [] };
}

export function toWireNodeUse({ pods, requests, examples }: NodeUse): muster.watch.v1.NodeUse.$Properties {
  return { pods, requests: toWireAmounts(requests), examples: [...examples] };
}

function toAmounts(requests: Readonly<Record<string, number>>): Amounts {
  return new Map(Object.entries(requests));
}

export function toWireAmounts(amounts: Amounts): Record<string, number> {
  return Object.fromEntries(amounts);
}

export function toRequest(message: muster.reservation.v1.ReserveRequest): ReservationRequest {
  const { owner, wait, priority, concurrencyLimit } = message;
  const asked = { ...toGang(message), ...toQueueName(message), ...toEnding(message) };
  return { owner: toOwner(owner), ...asked, wait, priority, concurrencyLimit };
}

/** Reads the queue of a message; an empty name means no queue. */
export function toQueueName({ queue }: { readonly queue: string }): { readonly queue?: string } {
  return queue === "" ? {} : { queue };
}

/** Converts the gang of a request. */
export function toGang(
  message: WireNeeds & Pick<muster.reservation.v1.ReserveRequest, "topology">,
  needsOf: ReadNeeds = toNeeds,
): Gang {
  const { topology } = message;
  return { needs: needsOf(message), ...(topology !== "" && { topology }) };
}

/** A missing owner has an empty kind and id, which no owner may have. */
export function toOwner(owner: muster.common.v1.Owner | undefined): Owner {
  return { kind: owner?.kind ?? "", id: owner?.id ?? "" };
}

export function toWireReservation({
  reservation,
  because,
  beneficiary,
}: ReservationReport): muster.reservation.v1.Reservation.$Properties {
  const { sequence, owner, needs, topology, queue, priority, createdAtMs, grant } = reservation;
  const { notPreemptible, beyondMinimum, graceMs, revision, preemptedFor } = reservation;
  return {
    id: getReservationId(sequence),
    sequence,
    owner,
    ...toWireNeeds(needs),
    topology,
    queue,
    priority,
    createdAtMs,
    state: grant === undefined ? WAITING : GRANTED,
    ...(grant && toWireGrant(grant)),
    grantedAtMs: grant?.atMs,
    because,
    notPreemptible,
    beyondMinimum,
    graceMs,
    revision,
    ...(preemptedFor !== undefined && { preemptedFor: getReservationId(preemptedFor) }),
    ...(grant?.preemption && { preemption: toWirePreemption(grant.preemption, beneficiary) }),
  };
}

const MAX_OVERCOMMITTED_NAMED = 3;

export function toWirePool({ state, amounts, waiting }: PoolReport): muster.reservation.v1.Pool.$Properties {
  const { name, free, held, shared, foreign, occupied, notReady, cordoned, scaling } = state;
  const reasons: readonly { readonly reason: UnusableReason; readonly count: number }[] = [
    { reason: "NOT_READY", count: notReady },
    { reason: "CORDONED", count: cordoned },
    { reason: "OCCUPIED", count: occupied },
    { reason: "FOREIGN_USE", count: foreign },
  ];
  return {
    name,
    available: free.size,
    capacity: countCapacity(state),
    held: held + shared,
    unusable: countUnusable(state) + occupied + foreign,
    waiting,
    unusableByReason: reasons.filter(({ count }) => count > 0),
    elasticMax: scaling?.max,
    shared,
    allocatable: toWireAmounts(amounts.allocatable),
    free: toWireAmounts(amounts.free),
    overcommitted: amounts.overcommitted.length,
    overcommittedNodes: amounts.overcommitted.slice(0, MAX_OVERCOMMITTED_NAMED),
    foreign: { pods: amounts.foreign.pods, requests: toWireAmounts(amounts.foreign.requests) },
  };
}

function toWireEvent(event: LedgerEvent): muster.reservation.v1.LedgerEvent.$Properties {
  const { atMs } = event;
  switch (event.kind) {
    case "requested":
      return { atMs, requested: toWireRequested(event.reservation) };
    case "granted":
      return { atMs, granted: { ...toWireGrant(event), id: getReservationId(event.sequence) } };
    case "released":
      return { atMs, released: { id: getReservationId(event.sequence) } };
    case "preempted":
      return { atMs, preempted: toWirePreempted(event) };
    case "preemptionAccepted":
      return { atMs, preemptionAccepted: { id: getReservationId(event.sequence) } };
    case "preemptionWithdrawn":
      return { atMs, preemptionWithdrawn: { id: getReservationId(event.sequence) } };
    case "requeued":
      return { atMs, requeued: { id: getReservationId(event.sequence) } };
    case "beneficiaryDropped":
      return { atMs, beneficiaryDropped: { id: getReservationId(event.sequence) } };
    case "limited":
      return { atMs, limited: { ownerKind: event.ownerKind, limit: event.limit } };
    case "queueChanged":
      return { atMs, queueChanged: toWireQueue(event.queue) };
    case "queueRemoved":
      return { atMs, queueRemoved: { name: event.name } };
    case "pastUseCounted":
      return { atMs, pastUseCounted: toWirePastUse(event.parent, event) };
  }
}

function toEvent(message: muster.reservation.v1.LedgerEvent): LedgerEvent {
  const { atMs, requested, granted, limited, queueChanged, queueRemoved, preempted, pastUseCounted } = message;
  if (requested) return { kind: "requested", reservation: toReservation(requested), atMs };
  if (granted) return { kind: "granted", sequence: getSequence(granted.id), ...toGrant(granted), atMs };
  if (limited) return { kind: "limited", ...toLimit(limited), atMs };
  if (queueChanged) return { kind: "queueChanged", queue: toQueue(queueChanged), atMs };
  if (queueRemoved) return { kind: "queueRemoved", name: queueRemoved.name, atMs };
  if (preempted) return { kind: "preempted", sequence: getSequence(preempted.id), ...toPreempted(preempted), atMs };
  if (pastUseCounted) {
    const [parent, shares] = toPastShares(pastUseCounted);
    return { kind: "pastUseCounted", parent, ...shares };
  }
  for (const kind of PLAIN_EVENTS) {
    const event = message[kind];
    if (event) return { kind, sequence: getSequence(event.id), atMs };
  }
  throw new Error("the ledger's log has an event of an unknown kind");
}

/** Events that carry only their reservation. */
const PLAIN_EVENTS = [
  "released",
  "preemptionAccepted",
  "preemptionWithdrawn",
  "requeued",
  "beneficiaryDropped",
] as const;

export function toWireRequested(reservation: Reservation): muster.reservation.v1.LedgerRequested.$Properties {
  return { reservation: toWireReservation({ reservation, because: undefined }) };
}

export function toReservation(
  requested: muster.reservation.v1.LedgerRequested,
  needsOf: ReadNeeds = toNeeds,
): Reservation {
  const message = requested.reservation ?? wire.Reservation.create();
  const { id, owner, state, priority, createdAtMs, grantedAtMs, revision, preemptedFor, preemption } = message;
  const sequence = getSequence(id);
  const asked = { ...toGang(message, needsOf), ...toQueueName(message), ...toEnding(message) };
  const reservation = {
    ...{ sequence, owner: toOwner(owner), ...asked, priority, createdAtMs },
    ...(revision > 0 && { revision }),
    ...(preemptedFor !== "" && { preemptedFor: getSequence(preemptedFor) }),
  };
  if (enums.ReservationState.nameOf(state) !== "GRANTED") return reservation;
  const grant = { atMs: grantedAtMs, ...toGrant(message), ...(preemption && { preemption: toPreemption(preemption) }) };
  return { ...reservation, grant };
}

function toLimit({ ownerKind, limit }: muster.reservation.v1.LedgerLimited): LimitRequest {
  return { ownerKind, limit };
}

type WireNeeds = Pick<muster.reservation.v1.ReserveRequest, "needs" | "nodeSelections" | "poolLists">;
type ReadNeeds = (message: WireNeeds) => readonly Need[];

/** Limit of the interned lists. A larger number of distinct lists comes from names that owners generate, and sharing them saves nothing. */
const MAX_INTERNED_LISTS = 10_000;

/** Returns equal lists as the same object: of a million requests most have equal needs, and one list takes less memory. */
export function internNeeds(): ReadNeeds {
  const known = new Map<string, readonly Need[]>();
  return (message) => {
    let key = message.nodeSelections.map((selection) => buildNodeSelectionKey(selection)).join(" ");
    for (const { pools } of message.poolLists) key += `!${pools.join(" ")}`;
    for (const { component, pool, shared, nodeSelection, poolList } of message.needs)
      key += `${component}=${pool}!${nodeSelection}!${poolList}${shared ? buildAmountsKey(toAmounts(shared.requests)) : ""} `;
    const same = known.get(key);
    if (same !== undefined) return same;
    const read = toNeeds(message);
    if (known.size < MAX_INTERNED_LISTS) known.set(key, read);
    return read;
  };
}

/** Throws a fault where a need refers to a selection or a pool list that the message lacks. */
function toNeeds({ needs, nodeSelections, poolLists }: WireNeeds): readonly Need[] {
  const selections = nodeSelections.map(compactNodeSelection);
  return needs.map(({ component, pool, shared, nodeSelection, poolList }, index) => {
    const selection = entryOf(selections, nodeSelection, `needs[${index}].node_selection`);
    const list = entryOf(poolLists, poolList, `needs[${index}].pool_list`);
    return {
      component,
      pool,
      ...(list && { otherPools: list.pools }),
      ...toShare(shared),
      ...(selection && { selection }),
    };
  });
}

/** Resolves a 1-based index; 0 means none. */
function entryOf<Entry>(entries: readonly Entry[], place: number, field: string): Entry | undefined {
  if (place === 0) return undefined;
  const entry = entries[place - 1];
  if (entry !== undefined) return entry;
  return throwFault({
    code: "invalid_request",
    field,
    reason: `is ${place}; the message has ${entries.length} of them`,
  });
}

function toWireNeeds(needs: readonly Need[]) {
  const { selections, indexes } = indexSelections(needs);
  const { poolLists, indexes: lists } = indexPoolLists(needs);
  const messages = needs.map(({ component, pool, shared }, index) => {
    const need = withWireShare({ component, pool, ...(shared && { shared }) });
    return { ...need, nodeSelection: indexes[index], poolList: lists[index] };
  });
  return { needs: messages, nodeSelections: selections, poolLists };
}

function toWireGrant({ machines, domain, use }: Omit<Grant, "atMs">) {
  return { machines: machines.map(withWireShare), domain, ...(use && { use: toWireUse(use) }) };
}

type WireGrant = Pick<muster.reservation.v1.LedgerGranted, "machines" | "domain" | "use">;

function toGrant({ machines, domain, use }: WireGrant): Omit<Grant, "atMs"> {
  return {
    machines: machines.map(toMachine),
    ...(domain !== "" && { domain }),
    ...(use.length > 0 && { use: toPairAmounts(use) }),
  };
}

function toMachine({ component, pool, node, shared }: muster.reservation.v1.Machine): Machine {
  return { component, pool, node, ...toShare(shared) };
}

function toShare(share: muster.reservation.v1.Share | null | undefined): Pick<Need, "shared"> {
  if (share === null || share === undefined) return {};
  return { shared: new Map(Object.entries(share.requests).filter(([, amount]) => amount !== 0)) };
}

function withWireShare<Part extends Omit<Need, "selection" | "otherPools">>({ shared, ...part }: Part) {
  return { ...part, ...(shared !== undefined && { shared: { requests: toWireAmounts(shared) } }) };
}
