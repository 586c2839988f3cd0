import { mayOccupy, type Owner } from "@muster/names";
import { subtract, type Amounts } from "@muster/resources";
import { knownReservation, type Ledger, type LedgerEvent } from "../ledger/ledger.ts";
import { standingOf, withNode, type MachineRecord, type Machines, type NodeFacts } from "../ledger/machines.ts";
import type { Reservation } from "../ledger/reservation.ts";
import { dequeue } from "../ledger/waiting-queue.ts";
import { withTree } from "../ledger/waiting-trees.ts";
import { evolveWorld, type World } from "../ledger/world.ts";
import { chooseOption, listOptions, type Option } from "./choose-option.ts";
import { assignMachines, findBeneficiaryObstacle } from "./fit.ts";
import { freeAmountsOf } from "./summarise-pools.ts";

/** The world after all preempted work has left, and its beneficiaries have their machines. */
export type Future = {
  readonly world: World;
  /** The beneficiaries that have machines in it. */
  readonly placed: ReadonlySet<number>;
  /** Nodes on which it differs from the present. */
  readonly nodes: ReadonlySet<string>;
};

/** Whether work is leaving, or machines are kept for the beneficiaries of leaving work. */
export function isChanging({ ledger }: World): boolean {
  return ledger.leaving.size > 0 || ledger.beneficiaries.length > 0;
}

const futures = new WeakMap<Ledger, { readonly machines: Machines; readonly known: Map<string, Future> }>();

/** The parts left out of a future. */
type FutureOptions = {
  /** Only the first beneficiaries, so many of them. */
  readonly beneficiaries?: number;
  /** The request is cancelled if work then stays that is preempted for it, and that its owner has not begun to end. */
  readonly without?: number;
};

export function futureOf(world: World, options: FutureOptions = {}): Future {
  const { ledger } = world;
  const { beneficiaries = ledger.beneficiaries.length, without } = options;
  // Most futures are the same without, and are then built once.
  return knownFuture(
    world,
    beneficiaries,
    without !== undefined && sparedFor(ledger).has(without) ? without : undefined,
  );
}

function knownFuture(world: World, count: number, without: number | undefined): Future {
  const { ledger, machines } = world;
  const kept = futures.get(ledger);
  const known = kept?.machines === machines ? kept.known : new Map<string, Future>();
  futures.set(ledger, { machines, known });
  const key = `${count} ${without}`;
  const future = known.get(key) ?? buildFuture(world, count, without);
  known.set(key, future);
  return future;
}

/** The requests for which work is preempted that may stay. */
function sparedFor({ leaving, reservations }: Ledger): ReadonlySet<number> {
  const spared = new Set<number>();
  for (const sequence of leaving.keys()) {
    const { beneficiary, isAccepted } = reservations.get(sequence)?.grant?.preemption ?? {};
    if (beneficiary !== undefined && isAccepted === false) spared.add(beneficiary);
  }
  return spared;
}

/** Returns whether the work is preempted for this request, and its owner has not begun to end it. */
function mayStay(reservation: Reservation | undefined, beneficiary: number | undefined): boolean {
  const preemption = reservation?.grant?.preemption;
  return preemption?.beneficiary !== undefined && preemption.beneficiary === beneficiary && !preemption.isAccepted;
}

function buildFuture(world: World, count: number, without: number | undefined): Future {
  if (count > 0) {
    const before = knownFuture(world, count - 1, without);
    const sequence = world.ledger.beneficiaries[count - 1]?.sequence;
    return sequence === without ? before : withPlaced(before, sequence);
  }
  const { ledger } = world;
  const nodes = new Set<string>();
  let after = world;
  for (const sequence of ledger.leaving.keys()) {
    const reservation = knownReservation(ledger, sequence);
    if (mayStay(reservation, without)) continue;
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

function withPlaced(future: Future, sequence: number | undefined): Future {
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

/** The option that a request that work was preempted for can be granted with in this world. */
export function chooseForBeneficiary(reservation: Reservation, world: World): Option | undefined {
  return chooseOption(
    listOptions(reservation),
    world,
    ({ demand, place }) => findBeneficiaryObstacle(demand, place, world) !== undefined,
  );
}

/** Whether the beneficiary has machines in the future, and in each future in which one other beneficiary is cancelled. */
export function isPlaced(world: World, beneficiary: number): boolean {
  const others = [...sparedFor(world.ledger)].filter((sequence) => sequence !== beneficiary);
  if (!futureOf(world).placed.has(beneficiary)) return false;
  return others.every((without) => futureOf(world, { without }).placed.has(beneficiary));
}

/**
 * Whether each beneficiary that has machines in the future of a world has them after these events, too, or now. The same holds in the futures in which one
 * other beneficiary is cancelled, so that the work stays that was preempted for it.
 */
export function keepsPlaces(world: World, events: readonly LedgerEvent[]): boolean {
  if (world.ledger.beneficiaries.length === 0) return true;
  // Copies: what an event comes to is remembered with it, and a request that is not granted after all has to wait.
  const after = evolveWorld(
    world,
    events.map((event) => ({ ...event })),
  );
  return keepsPlacesAfter(world, after);
}

/** Compares with a later world. Computed futures are reused. */
export function keepsPlacesAfter(world: World, after: World): boolean {
  if (!keepsPlacesIn(world, after, {})) return false;
  const spared = sparedFor(world.ledger);
  return world.ledger.beneficiaries.every(
    ({ sequence }) => !spared.has(sequence) || keepsPlacesIn(world, after, { without: sequence }),
  );
}

function keepsPlacesIn(before: World, after: World, options: FutureOptions): boolean {
  const isGranted = (sequence: number): boolean => after.ledger.reservations.get(sequence)?.grant !== undefined;
  const kept = [...futureOf(before, options).placed].filter((sequence) => !isGranted(sequence));
  if (kept.length === 0) return true;
  const { placed } = futureOf(after, options);
  return kept.every((sequence) => placed.has(sequence));
}

/** The world once this granted work and its pods have left. */
export function withoutWork(world: World, { sequence, owner, grant }: Reservation): World {
  const after = evolveWorld(world, [{ kind: "released", sequence, atMs: 0 }]);
  const nodes = new Set(grant?.machines.map(({ node }) => node));
  return { ...after, machines: [...nodes].reduce((all, node) => withoutPods(all, node, owner), after.machines) };
}

/** The machines once the owner's pods have left the node. */
function withoutPods(machines: Machines, node: string, owner: Owner): Machines {
  const facts = machines.nodes.get(node)?.facts;
  if (facts === undefined) return machines;
  const occupants = facts.occupants.filter((each) => !mayOccupy(each, owner));
  const ownerUses = facts.ownerUses.filter((each) => !mayOccupy(each.owner, owner));
  if (occupants.length === facts.occupants.length && ownerUses.length === facts.ownerUses.length) return machines;
  return withNode(machines, { ...facts, occupants, ownerUses });
}

const worldsForOthers = new WeakMap<Future, { readonly present: World; readonly forOthers: World }>();

/**
 * The present world without what is kept for the beneficiaries: each node has what is free both now and in the future, and quotas have to suffice now and then.
 * Whatever is granted in it disturbs no beneficiary.
 */
export function withoutKeptWork(present: World, future: Future = futureOf(present)): World {
  if (!isChanging(present)) return present;
  const known = worldsForOthers.get(future);
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
  worldsForOthers.set(future, { present, forOthers });
  return forOthers;
}

/** The world in which these requests do not wait. */
export function withoutRequests(world: World, sequences: Iterable<number>): World {
  let after = world.ledger;
  for (const sequence of sequences) {
    const reservation = knownReservation(world.ledger, sequence);
    after = { ...after, queue: dequeue(after.queue, reservation) };
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
    // A cordoned node is no part of its pool, and the quota of a root may be the sum of its pools.
    const hasLimit = free.amounts.has("pods");
    return withNode(
      machines,
      hasLimit ? withForeignUse(facts, free.amounts) : { ...facts, schedulable: false, cordoned: true },
    );
  }
  if (later.isWhole) return machines;
  const kept = new Map([...subtract(free.amounts, later.amounts)].filter(([, amount]) => amount > 0));
  return kept.size === 0 ? machines : withNode(machines, withForeignUse(facts, kept));
}

/** The node as if foreign pods used so much of it. */
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
  const standing = standingOf(facts, record);
  const amounts = freeAmountsOf(facts, record, standing);
  if (standing === "free") return { isWhole: true, amounts: amounts ?? new Map() };
  return amounts && { isWhole: false, amounts };
}

/** Replaces the trees of queues, which cache results: without some requests these differ. */
function withNewTrees(ledger: Ledger): Ledger {
  const { leaving, beneficiaries, reservations } = ledger;
  const queues = [...leaving.keys(), ...beneficiaries.map(({ sequence }) => sequence)].flatMap(
    (sequence) => reservations.get(sequence)?.queue ?? [],
  );
  const trees = [...new Set(queues)].reduce((all, queue) => withTree(all, queue, ledger), ledger.trees);
  return { ...ledger, trees };
}
