import { assertNever } from "@muster/faults";
import type { Owner } from "@muster/names";
import type { Amounts } from "@muster/resources";
import { noQueues, NO_PAIRS, type PairAmounts, type Queue, type Queues } from "./queue.ts";
import { keepPastUse, noPastUse, withPastShares, type PastShares, type PastUse } from "./past-use.ts";
import { noUse, rebuildUse, withUse, type QueueUse } from "./queue-use.ts";
import { getReservationId, buildOwnerKey, type Grant, type Preemption, type Reservation } from "./reservation.ts";
import { compareNumbers, compareText, SortedMap } from "./sorted-map.ts";
import type { Steps } from "./steps.ts";
import { addTo, buildQueue, dequeueRequest, emptyQueue, enqueueRequest, type WaitingQueue } from "./waiting-queue.ts";
import { buildTrees, noTrees, withPastOf, withTree, type WaitingTrees } from "./waiting-trees.ts";

/** A change of the ledger, in the order of decisions. The ledger is the sum of its events. */
export type LedgerEvent =
  | { readonly kind: "requested"; readonly reservation: Reservation; readonly atMs: number }
  | ({ readonly kind: "granted"; readonly sequence: number } & Grant)
  | { readonly kind: "released"; readonly sequence: number; readonly atMs: number }
  | ({ readonly kind: "preempted"; readonly sequence: number } & Omit<Preemption, "isAccepted">)
  | { readonly kind: "preemptionAccepted"; readonly sequence: number; readonly atMs: number }
  /** The preemption is withdrawn, and the reservation keeps its machines. */
  | { readonly kind: "preemptionWithdrawn"; readonly sequence: number; readonly atMs: number }
  /** The reservation waits at its former place in the queue. */
  | { readonly kind: "requeued"; readonly sequence: number; readonly atMs: number }
  /** The ledger no longer keeps machines or quota for the beneficiary. */
  | { readonly kind: "beneficiaryDropped"; readonly sequence: number; readonly atMs: number }
  /** 0: the limit is removed. */
  | { readonly kind: "limited"; readonly ownerKind: string; readonly limit: number; readonly atMs: number }
  | { readonly kind: "queueChanged"; readonly queue: Queue; readonly atMs: number }
  | { readonly kind: "queueRemoved"; readonly name: string; readonly atMs: number }
  | ({ readonly kind: "pastUseCounted"; readonly parent: string } & PastShares);

/** Records grants and waiting requests. Immutable: every event returns a new ledger that shares most of the old ledger. */
export type Ledger = {
  readonly nextSequence: number;
  /** Grows by one with every event, so that a follower of the events detects a gap. */
  readonly version: number;
  readonly reservations: SortedMap<number, Reservation>;
  /** Owner key -> sequence. */
  readonly owners: SortedMap<string, number>;
  readonly queue: WaitingQueue;
  /** Node -> sequence of the reservation that holds it as a whole. */
  readonly holders: SortedMap<string, number>;
  /** Node -> its held parts. */
  readonly parts: SortedMap<string, readonly MachinePart[]>;
  /** Owner kind -> granted reservations. */
  readonly grantedByKind: SortedMap<string, number>;
  /** Owner kind -> how many of its reservations may be granted concurrently, for the kinds with a limit. */
  readonly limits: SortedMap<string, number>;
  readonly queues: Queues;
  /** The use of each queue's quota by its granted reservations. */
  readonly use: QueueUse;
  readonly pastUse: PastUse;
  /** Queue -> its granted reservations, in the order of preemption. */
  readonly admitted: SortedMap<string, PreemptionOrder>;
  /** Granted reservations whose owners were requested to end their work. */
  readonly leaving: SortedMap<number, true>;
  /** Beneficiaries: requests for which work is preempted, in the order of their first preemption. */
  readonly beneficiaries: readonly Beneficiary[];
  /** The queues with waiting requests, as trees. */
  readonly trees: WaitingTrees;
};

/** Granted reservations in the order of preemption: first those beyond a minimum, then the lowest priority, then the most recent grant. */
export type PreemptionOrder = SortedMap<PreemptionOrderKey, true>;
export type PreemptionOrderKey = Pick<Reservation, "beyondMinimum" | "priority" | "sequence"> & {
  readonly grantedAtMs: number;
};

/** A request for which work is preempted. `vacated`: nodes that work released for it or an earlier beneficiary; the watcher may still report the last pods. */
export type Beneficiary = { readonly sequence: number; readonly vacated: readonly VacatedNode[] };
export type VacatedNode = { readonly owner: Owner; readonly node: string };

/** A part of a machine that a reservation holds, for one of its components. */
export type MachinePart = { readonly sequence: number; readonly component: string; readonly requests: Amounts };

export const emptyLedger: Ledger = {
  nextSequence: 1,
  version: 0,
  reservations: SortedMap.empty(compareNumbers),
  owners: SortedMap.empty(compareText),
  queue: emptyQueue,
  holders: SortedMap.empty(compareText),
  parts: SortedMap.empty(compareText),
  grantedByKind: SortedMap.empty(compareText),
  limits: SortedMap.empty(compareText),
  queues: noQueues,
  use: noUse,
  pastUse: noPastUse,
  admitted: SortedMap.empty(compareText),
  leaving: SortedMap.empty(compareNumbers),
  beneficiaries: [],
  trees: noTrees,
};

/** Returns the ledger after one event. Throws on an event that no decision could have made, because continuing would grant one machine to two owners. */
export function evolveLedger(ledger: Ledger, event: LedgerEvent): Ledger {
  const after = { ...ledger, version: ledger.version + 1 };
  switch (event.kind) {
    case "requested":
      return updateTrees(addWaiting(after, event.reservation), event.reservation);
    case "granted": {
      const reservation = getReservation(ledger, event.sequence);
      return updateTrees(grant(after, reservation, event), reservation);
    }
    case "released": {
      const reservation = getReservation(ledger, event.sequence);
      return updateTrees(release(after, reservation), reservation);
    }
    case "preempted":
    case "preemptionAccepted":
    case "preemptionWithdrawn":
    case "requeued":
      return evolvePreemption(after, getReservation(ledger, event.sequence), event);
    case "beneficiaryDropped":
      return updateBeneficiary(
        { ...after, beneficiaries: withoutBeneficiary(ledger.beneficiaries, event.sequence) },
        event.sequence,
      );
    case "limited":
      return { ...after, limits: withLimit(ledger.limits, event) };
    case "queueChanged":
      return withQueues(after, ledger.queues.set(event.queue.name, event.queue));
    case "queueRemoved":
      return withQueues(after, ledger.queues.delete(event.name));
    case "pastUseCounted":
      return countPast(after, event.parent, withPastShares(ledger.pastUse, event.parent, event));
    default:
      return assertNever(event);
  }
}

type PreemptionEvent = Extract<
  LedgerEvent,
  { kind: "preempted" | "preemptionAccepted" | "preemptionWithdrawn" | "requeued" }
>;

function evolvePreemption(ledger: Ledger, before: Reservation, event: PreemptionEvent): Ledger {
  const { sequence } = event;
  const reservation = { ...before, revision: (before.revision ?? 0) + 1 };
  const { grant: granted } = reservation;
  if (granted === undefined) throw new Error(`${getReservationId(sequence)} waits, so that it cannot be preempted`);
  const { preemption, ...kept } = granted;
  const withGrant = (next: Grant): Ledger => {
    const reservations = ledger.reservations.set(sequence, { ...reservation, grant: next });
    return updateTrees({ ...ledger, reservations }, reservation);
  };
  switch (event.kind) {
    case "preempted": {
      const { kind: _kind, sequence: _sequence, ...stated } = event;
      const beneficiaries = withBeneficiary(ledger.beneficiaries, event.beneficiary);
      const after = withGrant({ ...kept, preemption: { ...stated, isAccepted: false } });
      return updateBeneficiary(
        { ...after, leaving: ledger.leaving.set(sequence, true), beneficiaries },
        event.beneficiary,
      );
    }
    case "preemptionAccepted":
      return preemption === undefined
        ? ledger
        : withGrant({ ...kept, preemption: { ...preemption, isAccepted: true } });
    case "preemptionWithdrawn":
      return { ...withGrant(kept), leaving: ledger.leaving.delete(sequence) };
    case "requeued": {
      const { grant: _grant, ...asked } = reservation;
      const { beneficiary } = preemption ?? {};
      const waiting = { ...asked, ...(beneficiary !== undefined && { preemptedFor: beneficiary }) };
      return updateTrees(addWaiting(release(ledger, before), waiting), waiting);
    }
    default:
      return assertNever(event);
  }
}

/** Replaces the beneficiary's tree, because results cached by tree become invalid: a beneficiary keeps nothing from borrowers. */
function updateBeneficiary(ledger: Ledger, sequence: number | undefined): Ledger {
  const reservation = sequence === undefined ? undefined : ledger.reservations.get(sequence);
  return reservation === undefined ? ledger : updateTrees(ledger, reservation);
}

function withBeneficiary(known: readonly Beneficiary[], sequence: number | undefined): readonly Beneficiary[] {
  if (sequence === undefined || known.some((each) => each.sequence === sequence)) return known;
  return [...known, { sequence, vacated: [] }];
}

/** Limit of vacated nodes per request; the oldest are dropped. */
const MAX_VACATED = 1000;

/** Removes a beneficiary. The first of the others takes over the nodes that its victims released. */
function withoutBeneficiary(known: readonly Beneficiary[], sequence: number): readonly Beneficiary[] {
  const gone = known.find((each) => each.sequence === sequence);
  if (gone === undefined) return known;
  const rest = known.filter((each) => each !== gone);
  return addVacated(rest, rest[0]?.sequence, gone.vacated);
}

/** Adds the nodes of released work to its beneficiary. Without one, the first beneficiary may count on them. */
function vacateGrant(known: readonly Beneficiary[], { owner, grant: granted }: Reservation): readonly Beneficiary[] {
  if (granted?.preemption === undefined) return known;
  const { beneficiary } = granted.preemption;
  const target = known.find(({ sequence }) => sequence === beneficiary) ?? known[0];
  const nodes = new Set(granted.machines.map(({ node }) => node));
  const vacated = [...nodes].map((node) => ({ owner, node }));
  return addVacated(known, target?.sequence, vacated);
}

function addVacated(
  known: readonly Beneficiary[],
  target: number | undefined,
  added: readonly VacatedNode[],
): readonly Beneficiary[] {
  if (added.length === 0) return known;
  return known.map((each) =>
    each.sequence === target ? { ...each, vacated: [...each.vacated, ...added].slice(-MAX_VACATED) } : each,
  );
}

export function findReservation(ledger: Ledger, owner: Owner): Reservation | undefined {
  const sequence = ledger.owners.get(buildOwnerKey(owner));
  return sequence === undefined ? undefined : ledger.reservations.get(sequence);
}

function withQueues(ledger: Ledger, queues: Queues): Ledger {
  const pastUse = keepPastUse(ledger.pastUse, queues);
  return withTrees({ ...ledger, queues, pastUse, use: rebuildUse(ledger.use.own, queues) });
}

/** Updates past use of one parent. Each queue with a half-life emits such an event per interval, so only the trees below it change. */
function countPast(ledger: Ledger, parent: string, pastUse: PastUse): Ledger {
  const after = { ...ledger, pastUse };
  return { ...after, trees: withPastOf(ledger.trees, parent, after) };
}

function withTrees(ledger: Ledger): Ledger {
  return { ...ledger, trees: buildTrees(ledger) };
}

function updateTrees(ledger: Ledger, { queue }: Reservation): Ledger {
  return queue === undefined ? ledger : { ...ledger, trees: withTree(ledger.trees, queue, ledger) };
}

/** Limit of concurrently granted reservations of the kind; 0: no limit. */
export function limitOf(ledger: Ledger, ownerKind: string): number {
  return ledger.limits.get(ownerKind) ?? 0;
}

/** Number of further reservations of the kind that its concurrency limit permits. */
export function countFreeReservations(ownerKind: string, ledger: Ledger): number {
  const limit = limitOf(ledger, ownerKind);
  if (limit === 0) return Number.POSITIVE_INFINITY;
  return Math.max(0, limit - (ledger.grantedByKind.get(ownerKind) ?? 0));
}

/** Returns the reservation of this sequence; throws if the ledger lacks it. */
export function getReservation(ledger: Ledger, sequence: number): Reservation {
  const reservation = ledger.reservations.get(sequence);
  if (reservation === undefined) throw new Error(`the ledger has no reservation ${getReservationId(sequence)}`);
  return reservation;
}

/** The content of a snapshot beside the reservations. */
export type SnapshotContent = {
  readonly limits?: Iterable<readonly [string, number]>;
  readonly queues?: Iterable<Queue>;
  readonly beneficiaries?: readonly Beneficiary[];
  readonly pastUse?: PastUse;
};

/** Rebuilds the ledger of a snapshot. Works in steps, because a leader that blocks for seconds loses its lease. */
export function* restoreLedger(
  reservations: readonly Reservation[],
  nextSequence: number,
  { limits = [], queues = [], beneficiaries = [], pastUse = noPastUse }: SnapshotContent = {},
): Steps<Ledger> {
  const grantedByKind = new Map<string, number>();
  const admitted = new Map<string, [PreemptionOrderKey, true][]>();
  const leaving: [number, true][] = [];
  let use = noUse;
  const holders: [string, number][] = [];
  const parts = new Map<string, readonly MachinePart[]>();
  for (const reservation of reservations) {
    const { owner, sequence, queue, grant: granted } = reservation;
    if (granted === undefined) continue;
    grantedByKind.set(owner.kind, (grantedByKind.get(owner.kind) ?? 0) + 1);
    if (granted.preemption !== undefined) leaving.push([sequence, true]);
    if (queue !== undefined) {
      const ofQueue = admitted.get(queue) ?? [];
      ofQueue.push([buildPreemptionOrderKey(reservation, granted.atMs), true]);
      admitted.set(queue, ofQueue);
      use = withUse(use, noQueues, queue, granted.use ?? NO_PAIRS, 1);
    }
    for (const { node, component, shared } of granted.machines)
      if (shared === undefined) holders.push([node, sequence]);
      else parts.set(node, withPart(parts.get(node) ?? [], { sequence, component, requests: shared }));
  }
  const known = SortedMap.from(
    compareText,
    [...queues].map((queue): [string, Queue] => [queue.name, queue]),
  );
  const queue = yield* buildQueue(reservations.filter(({ grant: granted }) => granted === undefined));
  const ledger = {
    version: 0,
    nextSequence: reservations.reduce((next, { sequence }) => Math.max(next, sequence + 1), nextSequence),
    reservations: yield* SortedMap.inSteps<number, Reservation>(
      compareNumbers,
      reservations.map((reservation) => [reservation.sequence, reservation]),
    ),
    owners: yield* SortedMap.inSteps<string, number>(
      compareText,
      reservations.map(({ owner, sequence }) => [buildOwnerKey(owner), sequence]),
    ),
    queue,
    trees: noTrees,
    holders: yield* SortedMap.inSteps(compareText, holders),
    parts: yield* SortedMap.inSteps(compareText, [...parts]),
    grantedByKind: SortedMap.from(compareText, grantedByKind),
    limits: SortedMap.from(compareText, limits),
    queues: known,
    use: rebuildUse(use.own, known),
    pastUse,
    admitted: SortedMap.from(
      compareText,
      [...admitted].map(([name, keys]): [string, PreemptionOrder] => [
        name,
        SortedMap.from(comparePreemptionOrder, keys),
      ]),
    ),
    leaving: SortedMap.from(compareNumbers, leaving),
    beneficiaries,
  };
  const isWholeAndParts = holders.some(([node]) => parts.has(node));
  if (isWholeAndParts || ledger.holders.size !== holders.length || ledger.owners.size !== reservations.length)
    throw new Error("the snapshot of the ledger gives a node to two reservations, or two reservations to one owner");
  return withTrees(ledger);
}

/**
 * As `evolveLedger` with a request and then with its grant, but cheaper, because such a request never waits. Only callers that count events see the ledger in
 * between.
 */
export function evolveImmediateGrant(
  ledger: Ledger,
  requested: Extract<LedgerEvent, { kind: "requested" }>,
  granted: Extract<LedgerEvent, { kind: "granted" }>,
): { readonly between: Ledger; readonly after: Ledger } {
  const { reservation } = requested;
  const between = { ...addReservation(ledger, reservation), version: ledger.version + 1 };
  const after = updateTrees(hold(between, reservation, granted), reservation);
  return { between, after: { ...after, version: ledger.version + 2 } };
}

function addWaiting(ledger: Ledger, reservation: Reservation): Ledger {
  return { ...addReservation(ledger, reservation), queue: enqueueRequest(ledger.queue, reservation) };
}

function addReservation(ledger: Ledger, reservation: Reservation): Ledger {
  const key = buildOwnerKey(reservation.owner);
  if (ledger.owners.get(key) !== undefined) throw new Error(`${key} has a reservation already`);
  return {
    ...ledger,
    nextSequence: Math.max(ledger.nextSequence, reservation.sequence + 1),
    reservations: ledger.reservations.set(reservation.sequence, reservation),
    owners: ledger.owners.set(key, reservation.sequence),
  };
}

function grant(ledger: Ledger, reservation: Reservation, granted: Grant): Ledger {
  const beneficiaries = withoutBeneficiary(ledger.beneficiaries, reservation.sequence);
  return { ...hold(ledger, reservation, granted), queue: dequeueRequest(ledger.queue, reservation), beneficiaries };
}

function hold(ledger: Ledger, reservation: Reservation, { atMs, machines, domain, use }: Grant): Ledger {
  const { sequence, owner, queue } = reservation;
  let { holders, parts } = ledger;
  for (const { node, component, shared } of machines) {
    const holder = holders.get(node) ?? (shared === undefined ? parts.get(node)?.[0]?.sequence : undefined);
    if (holder !== undefined)
      throw new Error(`${node} is held by ${getReservationId(holder)}, granted to ${getReservationId(sequence)}`);
    if (shared === undefined) holders = holders.set(node, sequence);
    else parts = parts.set(node, withPart(parts.get(node) ?? [], { sequence, component, requests: shared }));
  }
  return {
    ...ledger,
    reservations: ledger.reservations.set(sequence, {
      ...reservation,
      grant: { atMs, machines, ...(domain !== undefined && { domain }), ...(use && { use }) },
    }),
    holders,
    parts,
    grantedByKind: addTo(ledger.grantedByKind, owner.kind, 1),
    ...(queue !== undefined && countInQueue(ledger, reservation, { atMs, use }, 1)),
  };
}

function countInQueue(
  { queues, use: before, admitted }: Ledger,
  reservation: Reservation,
  { atMs, use }: Pick<Grant, "atMs"> & { readonly use: PairAmounts | undefined },
  change: 1 | -1,
): Pick<Ledger, "use" | "admitted"> {
  const { queue = "" } = reservation;
  const key = buildPreemptionOrderKey(reservation, atMs);
  const known = admitted.get(queue) ?? SortedMap.empty<PreemptionOrderKey, true>(comparePreemptionOrder);
  const after = change === 1 ? known.set(key, true) : known.delete(key);
  return {
    use: withUse(before, queues, queue, use ?? NO_PAIRS, change),
    admitted: after.size === 0 ? admitted.delete(queue) : admitted.set(queue, after),
  };
}

export function buildPreemptionOrderKey(
  { beyondMinimum, priority, sequence }: Reservation,
  grantedAtMs: number,
): PreemptionOrderKey {
  return { ...(beyondMinimum && { beyondMinimum }), priority, sequence, grantedAtMs };
}

/** Compares in the order of `PreemptionOrder`. */
export function comparePreemptionOrder(a: PreemptionOrderKey, b: PreemptionOrderKey): number {
  return (
    Number(b.beyondMinimum === true) - Number(a.beyondMinimum === true) ||
    compareNumbers(a.priority, b.priority) ||
    compareNumbers(b.grantedAtMs, a.grantedAtMs) ||
    compareNumbers(b.sequence, a.sequence)
  );
}

function release(ledger: Ledger, reservation: Reservation): Ledger {
  const { owner, sequence, queue, grant: granted } = reservation;
  const after = {
    ...ledger,
    reservations: ledger.reservations.delete(sequence),
    owners: ledger.owners.delete(buildOwnerKey(owner)),
  };
  const beneficiaries = withoutBeneficiary(ledger.beneficiaries, sequence);
  if (granted === undefined) return { ...after, queue: dequeueRequest(ledger.queue, reservation), beneficiaries };
  let { holders, parts } = ledger;
  for (const { node, component, shared } of granted.machines) {
    if (shared === undefined) holders = holders.delete(node);
    else {
      const left = withoutPart(parts.get(node) ?? [], { sequence, component });
      parts = left.length === 0 ? parts.delete(node) : parts.set(node, left);
    }
  }
  return {
    ...after,
    holders,
    parts,
    grantedByKind: addTo(ledger.grantedByKind, owner.kind, -1),
    leaving: ledger.leaving.delete(sequence),
    beneficiaries: vacateGrant(beneficiaries, reservation),
    ...(queue !== undefined && countInQueue(ledger, reservation, { atMs: granted.atMs, use: granted.use }, -1)),
  };
}

/** Inserts the part in the order of reservation and component, independent of the order of the grants. */
export function withPart<Held extends MachinePart>(parts: readonly Held[], part: Held): readonly Held[] {
  return [...parts, part].sort(
    (a, b) => compareNumbers(a.sequence, b.sequence) || compareText(a.component, b.component),
  );
}

export function withoutPart<Held extends MachinePart>(
  parts: readonly Held[],
  { sequence, component }: Pick<MachinePart, "sequence" | "component">,
): readonly Held[] {
  return parts.filter((part) => part.sequence !== sequence || part.component !== component);
}

function withLimit(
  limits: Ledger["limits"],
  { ownerKind, limit }: { readonly ownerKind: string; readonly limit: number },
): Ledger["limits"] {
  return limit === 0 ? limits.delete(ownerKind) : limits.set(ownerKind, limit);
}
