import { canOccupy, type Owner } from "@muster/names";
import { subtractAmounts, type Amounts } from "@muster/resources";
import { getReservation, type Ledger, type LedgerEvent } from "../ledger/ledger.ts";
import { getNodeStanding, withNode, type MachineRecord, type Machines, type NodeFacts } from "../ledger/machines.ts";
import type { Reservation } from "../ledger/reservation.ts";
import { dequeueRequest } from "../ledger/waiting-queue.ts";
import { withTree } from "../ledger/waiting-trees.ts";
import { evolveWorld, type World } from "../ledger/world.ts";
import { chooseOption, listOptions, type Option } from "./choose-option.ts";
import { assignMachines, findBeneficiaryObstacle } from "./fit.ts";
import { findFreeAmounts } from "./summarise-pools.ts";

/** The world after all preempted work has left, and its beneficiaries have their machines. */
export type FutureWorld = {
  readonly world: World;
  /** Sequences of the beneficiaries that have machines in this world. */
  readonly placed: ReadonlySet<number>;
  /** Nodes whose state differs from the present. */
  readonly nodes: ReadonlySet<string>;
};

/** Whether work is leaving, or machines are kept for the beneficiaries of leaving work. */
export function isChanging({ ledger }: World): boolean {
  return ledger.leaving.size > 0 || ledger.beneficiaries.length > 0;
}

const futures = new WeakMap<Ledger, { readonly machines: Machines; readonly known: Map<string, FutureWorld> }>();

/** The parts that a future omits. */
type FutureOptions = {
  /** Number of beneficiaries that get machines, in order; absent: all. */
  readonly beneficiaries?: number;
  /** Sequence of a beneficiary that is cancelled. Its victims stay unless their owners have begun to end them. */
  readonly without?: number;
};

export function buildFutureWorld(world: World, options: FutureOptions = {}): FutureWorld {
  const { ledger } = world;
  const { beneficiaries = ledger.beneficiaries.length, without } = options;
  // Without victims that may stay, a cancelled beneficiary only frees machines. One future serves both cases.
  return knownFuture(
    world,
    beneficiaries,
    without !== undefined && listRevocable(ledger).has(without) ? without : undefined,
  );
}

function knownFuture(world: World, count: number, without: number | undefined): FutureWorld {
  const { ledger, machines } = world;
  const kept = futures.get(ledger);
  const known = kept?.machines === machines ? kept.known : new Map<string, FutureWorld>();
  futures.set(ledger, { machines, known });
  const key = `${count} ${without}`;
  const future = known.get(key) ?? buildFuture(world, count, without);
  known.set(key, future);
  return future;
}

/** The beneficiaries with victims that may still stay. */
function listRevocable({ leaving, reservations }: Ledger): ReadonlySet<number> {
  const revocable = new Set<number>();
  for (const sequence of leaving.keys()) {
    const { beneficiary, isAccepted } = reservations.get(sequence)?.grant?.preemption ?? {};
    if (beneficiary !== undefined && isAccepted === false) revocable.add(beneficiary);
  }
  return revocable;
}

/** Whether the work is preempted for this request and its owner has not accepted the preemption. */
function isWithdrawable(reservation: Reservation | undefined, beneficiary: number | undefined): boolean {
  const preemption = reservation?.grant?.preemption;
  return preemption?.beneficiary !== undefined && preemption.beneficiary === beneficiary && !preemption.isAccepted;
}

function buildFuture(world: World, count: number, without: number | undefined): FutureWorld {
  if (count > 0) {
    const before = knownFuture(world, count - 1, without);
    const sequence = world.ledger.beneficiaries[count - 1]?.sequence;
    return sequence === without ? before : withPlaced(before, sequence);
  }
  const { ledger } = world;
  const nodes = new Set<string>();
  let after = world;
  for (const sequence of ledger.leaving.keys()) {
    const reservation = getReservation(ledger, sequence);
    if (isWithdrawable(reservation, without)) continue;
    for (const { node } of reservation.grant?.machines ?? []) nodes.add(node);
    after = withoutWork(after, reservation);
  }
  for (const { vacated } of ledger.beneficiaries)
    for (const { owner, node } of vacated) {
      nodes.add(node);
      after = { ...after, machines: withoutPods(after.machines, node, owner) };
    }
  return { world: after, placed: new Set(), nodes };
}

function withPlaced(future: FutureWorld, sequence: number | undefined): FutureWorld {
  const { world, placed, nodes } = future;
  const reservation = sequence === undefined ? undefined : world.ledger.reservations.get(sequence);
  if (sequence === undefined || reservation === undefined || reservation.grant !== undefined) return future;
  const option = chooseForBeneficiary(reservation, world);
  if (option === undefined) return future;
  const assigned = assignMachines({ ...reservation, needs: option.needs }, world.machines, undefined);
  return {
    world: evolveWorld(world, [{ kind: "granted", sequence, ...assigned, atMs: 0 }]),
    placed: new Set([...placed, sequence]),
    nodes: new Set([...nodes, ...assigned.machines.map(({ node }) => node)]),
  };
}

/** Returns an option that can be granted in this world; undefined: none. */
export function chooseForBeneficiary(reservation: Reservation, world: World): Option | undefined {
  return chooseOption(
    listOptions(reservation),
    world,
    ({ demand, place }) => findBeneficiaryObstacle(demand, place, world) !== undefined,
  );
}

/** Whether the beneficiary has machines in the future, and in each future in which one other beneficiary is cancelled. */
export function isPlaced(world: World, beneficiary: number): boolean {
  const others = [...listRevocable(world.ledger)].filter((sequence) => sequence !== beneficiary);
  if (!buildFutureWorld(world).placed.has(beneficiary)) return false;
  return others.every((without) => buildFutureWorld(world, { without }).placed.has(beneficiary));
}

/**
 * Whether each beneficiary with machines in the future still has them after these events, or was granted. The same must hold in each future in which one other
 * beneficiary is cancelled, because its victims may stay.
 */
export function arePlacesKept(world: World, events: readonly LedgerEvent[]): boolean {
  if (world.ledger.beneficiaries.length === 0) return true;
  // Use copies, because results are cached by event, and these events may not be applied.
  const after = evolveWorld(
    world,
    events.map((event) => ({ ...event })),
  );
  return arePlacesKeptAfter(world, after);
}

/** As `arePlacesKept`, for a later world, whose computed futures are reused. */
export function arePlacesKeptAfter(world: World, after: World): boolean {
  if (!arePlacesKeptIn(world, after, {})) return false;
  const revocable = listRevocable(world.ledger);
  return world.ledger.beneficiaries.every(
    ({ sequence }) => !revocable.has(sequence) || arePlacesKeptIn(world, after, { without: sequence }),
  );
}

function arePlacesKeptIn(before: World, after: World, options: FutureOptions): boolean {
  const isGranted = (sequence: number): boolean => after.ledger.reservations.get(sequence)?.grant !== undefined;
  const kept = [...buildFutureWorld(before, options).placed].filter((sequence) => !isGranted(sequence));
  if (kept.length === 0) return true;
  const { placed } = buildFutureWorld(after, options);
  return kept.every((sequence) => placed.has(sequence));
}

/** Returns the world after this granted work and its pods have ended. */
export function withoutWork(world: World, { sequence, owner, grant }: Reservation): World {
  const after = evolveWorld(world, [{ kind: "released", sequence, atMs: 0 }]);
  const nodes = new Set(grant?.machines.map(({ node }) => node));
  return { ...after, machines: [...nodes].reduce((all, node) => withoutPods(all, node, owner), after.machines) };
}

/** Returns the machines after the owner's pods have left the node. */
function withoutPods(machines: Machines, node: string, owner: Owner): Machines {
  const facts = machines.nodes.get(node)?.facts;
  if (facts === undefined) return machines;
  const occupants = facts.occupants.filter((each) => !canOccupy(each, owner));
  const ownerUses = facts.ownerUses.filter((each) => !canOccupy(each.owner, owner));
  if (occupants.length === facts.occupants.length && ownerUses.length === facts.ownerUses.length) return machines;
  return withNode(machines, { ...facts, occupants, ownerUses });
}

const othersByFuture = new WeakMap<FutureWorld, { readonly present: World; readonly forOthers: World }>();

/**
 * Returns the present world without the machines and quota kept for beneficiaries. Each node offers the amounts that are free both now and in the future, and
 * quota must suffice in both. A grant in this world takes nothing from a beneficiary.
 */
export function buildWorldForOthers(present: World, future: FutureWorld = buildFutureWorld(present)): World {
  if (!isChanging(present)) return present;
  const known = othersByFuture.get(future);
  if (known?.present.ledger === present.ledger && known.present.machines === present.machines) return known.forOthers;
  let { machines } = present;
  for (const node of future.nodes)
    machines = withLimited(machines, machines.nodes.get(node), future.world.machines.nodes.get(node));
  const { ledger } = present;
  const use = { ...ledger.use, later: future.world.ledger.use.tree };
  const open = {
    ledger: withNewTrees({ ...ledger, use }),
    machines,
    attainable: present.attainable ?? present.machines,
  };
  const forOthers = withoutRequests(open, future.placed);
  othersByFuture.set(future, { present, forOthers });
  return forOthers;
}

/** Returns the world without these waiting requests. */
export function withoutRequests(world: World, sequences: Iterable<number>): World {
  let after = world.ledger;
  for (const sequence of sequences) {
    const reservation = getReservation(world.ledger, sequence);
    after = { ...after, queue: dequeueRequest(after.queue, reservation) };
    after = { ...after, trees: withTree(after.trees, reservation.queue ?? "", after) };
  }
  return { ...world, ledger: after };
}

function withLimited(machines: Machines, now: MachineRecord | undefined, then: MachineRecord | undefined): Machines {
  const facts = now?.facts;
  if (now === undefined || facts === undefined) return machines;
  const free = freeOn(facts, now);
  if (free === undefined) return machines;
  const later = then?.facts && freeOn(then.facts, then);
  if (later === undefined) {
    // A node of known size stays uncordoned: a cordoned one leaves the sum of its pool, which may be the quota of a root.
    const hasLimit = free.amounts.has("pods");
    return withNode(
      machines,
      hasLimit ? withForeignUse(facts, free.amounts) : { ...facts, schedulable: false, cordoned: true },
    );
  }
  if (later.isWhole) return machines;
  const kept = new Map([...subtractAmounts(free.amounts, later.amounts)].filter(([, amount]) => amount > 0));
  return kept.size === 0 ? machines : withNode(machines, withForeignUse(facts, kept));
}

function withForeignUse(facts: NodeFacts, use: Amounts): NodeFacts {
  const { pods, requests, examples } = facts.foreign;
  const after = new Map(requests);
  for (const [resource, amount] of use)
    if (resource !== "pods") after.set(resource, (after.get(resource) ?? 0) + amount);
  return { ...facts, foreign: { pods: pods + (use.get("pods") ?? 1), requests: after, examples } };
}

type Free = { readonly isWhole: boolean; readonly amounts: Amounts };

/** The part of the node that can be granted now; undefined: none. A free node of unknown size has no amounts. */
function freeOn(facts: NodeFacts, record: MachineRecord): Free | undefined {
  const standing = getNodeStanding(facts, record);
  const amounts = findFreeAmounts(facts, record, standing);
  if (standing === "free") return { isWhole: true, amounts: amounts ?? new Map() };
  return amounts && { isWhole: false, amounts };
}

/** Recreates the trees of queues with leaving work or beneficiaries, because results cached by tree become invalid without some requests. */
function withNewTrees(ledger: Ledger): Ledger {
  const { leaving, beneficiaries, reservations } = ledger;
  const queues = [...leaving.keys(), ...beneficiaries.map(({ sequence }) => sequence)].flatMap(
    (sequence) => reservations.get(sequence)?.queue ?? [],
  );
  const trees = [...new Set(queues)].reduce((all, queue) => withTree(all, queue, ledger), ledger.trees);
  return { ...ledger, trees };
}
