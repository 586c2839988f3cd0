import type { Ledger } from "@muster/reservation-manager/ledger";
import type { NodeFacts } from "@muster/reservation-manager/machines";
import type { Forest, QueuedRequest } from "@muster/reservation-manager/naive-quota";
import { pairKey, type PairAmounts } from "@muster/reservation-manager/queue";
import type { Machine, Need, Reservation } from "@muster/reservation-manager/reservation";
import { freeOf, useOf, type Amounts } from "@muster/resources";

/** What a decision reads, without an index or a cache: every answer is computed from the reservations and the nodes. */
export type NaiveWorld = { readonly ledger: Ledger; readonly nodes: readonly NodeFacts[] };

/** A request that waits. */
export type NaiveRequest = QueuedRequest & {
  readonly needs: readonly Need[];
  /** Whether room and quota are known exactly: needs of one pool are alike, and whole machines are of one size. */
  readonly isExact: boolean;
};

const NOTHING: Amounts = new Map();

export function forestOf({ ledger, nodes }: NaiveWorld): Forest {
  const own = new Map<string, Map<string, number>>();
  for (const { queue, grant } of ledger.reservations.values()) {
    if (queue === undefined || grant === undefined) continue;
    own.set(queue, addAll(own.get(queue) ?? new Map<string, number>(), grant.use ?? new Map()));
  }
  const allocatable = nodes
    .filter(isUsable)
    .reduce((sums, node) => addAll(sums, inPool(node.pool, node.allocatable)), new Map<string, number>());
  return { queues: [...ledger.queues.values()], own, allocatable };
}

/** In the order of arrival. */
export function waitingOf(world: NaiveWorld): readonly NaiveRequest[] {
  return [...world.ledger.reservations.values()].flatMap((reservation) => {
    if (reservation.grant !== undefined) return [];
    const { sequence, queue, priority, createdAtMs, needs } = reservation;
    const request = { sequence, ...(queue !== undefined && { queue }), priority, createdAtMs, needs };
    return [{ ...request, ask: askOf(needs, world), isExact: isExact(needs, world) }];
  });
}

/** What the machines of a grant use of the quota. */
export function useOfMachines(machines: readonly Machine[], nodes: readonly NodeFacts[]): PairAmounts {
  return machines.reduce((sums, { pool, node, shared }) => {
    const whole = nodes.find(({ name }) => name === node)?.allocatable;
    return addAll(sums, inPool(pool, shared === undefined ? whole : useOf(shared)));
  }, new Map<string, number>());
}

/** Whether machines are free for all needs now. Exact for exact requests. */
export function hasRoom({ needs }: Pick<NaiveRequest, "needs">, { ledger, nodes }: NaiveWorld): boolean {
  const reservations = [...ledger.reservations.values()];
  return fitsIn(needs, nodes, (node) => spotOf(node, reservations));
}

/** Whether all needs fit while nothing is granted and foreign pods stay. */
export function isPossible({ needs }: Pick<NaiveRequest, "needs">, { nodes }: NaiveWorld): boolean {
  return fitsIn(needs, nodes, ({ allocatable = NOTHING, foreign }) => ({
    isWhole: foreign.pods === 0,
    free: freeOf({ allocatable, overhead: NOTHING, uses: [useOf(foreign.requests, foreign.pods)] }),
  }));
}

type Spot = { readonly isWhole: boolean; readonly free: Amounts };

/** Needs that are alike fit when enough of them fit on each node; others are only counted as whole machines, which is enough. */
function fitsIn(needs: readonly Need[], nodes: readonly NodeFacts[], spotIn: (node: NodeFacts) => Spot): boolean {
  return [...Map.groupBy(needs, ({ pool }) => pool)].every(([pool, ofPool]) => {
    const spots = nodes.filter((node) => node.pool === pool && isUsable(node)).map(spotIn);
    const whole = spots.filter(({ isWhole }) => isWhole);
    const [first] = ofPool;
    if (first === undefined || !areAlike(ofPool))
      return whole.filter(({ free }) => ofPool.every(({ shared }) => countIn(free, shared) > 0)).length >= needs.length;
    if (first.shared === undefined) return whole.length >= ofPool.length;
    return spots.reduce((sum, { free }) => sum + countIn(free, first.shared), 0) >= ofPool.length;
  });
}

/** How many pods with these requests fit. A whole machine fits once. */
function countIn(free: Amounts, shared: Amounts | undefined): number {
  if (shared === undefined) return 1;
  const counts = [...useOf(shared)]
    .filter(([, amount]) => amount > 0)
    .map(([resource, amount]) => Math.floor((free.get(resource) ?? 0) / amount));
  return Math.max(0, Math.min(...counts));
}

/** What is free of a node beside grants, foreign pods, and pods of owners that hold nothing of it. */
function spotOf({ name, allocatable = NOTHING, ...facts }: NodeFacts, reservations: readonly Reservation[]): Spot {
  const held = reservations.flatMap(({ owner, grant }) =>
    (grant?.machines ?? []).filter(({ node }) => node === name).map(({ shared }) => ({ owner, shared })),
  );
  const isHolder = (owner: { readonly id: string }): boolean => held.some((each) => each.owner.id === owner.id);
  const ownersWithoutGrant = facts.ownerUses.filter(({ owner }) => !isHolder(owner)).map(({ use }) => use);
  const isTaken = held.some(({ shared }) => shared === undefined) || facts.occupants.some((owner) => !isHolder(owner));
  const uses = [
    ...held.map(({ shared = NOTHING }) => useOf(shared)),
    ...[facts.foreign, ...ownersWithoutGrant].map(({ requests, pods }) => useOf(requests, pods)),
  ];
  const isExceeded = [...allocatable].some(
    ([resource, amount]) => uses.reduce((sum, use) => sum + (use.get(resource) ?? 0), 0) > amount,
  );
  if (isTaken || isExceeded) return { isWhole: false, free: NOTHING };
  const isWhole = held.length === 0 && facts.foreign.pods === 0 && ownersWithoutGrant.length === 0;
  return { isWhole, free: freeOf({ allocatable, overhead: NOTHING, uses }) };
}

function askOf(needs: readonly Need[], { nodes }: NaiveWorld): PairAmounts {
  return needs.reduce((sums, { pool, shared }) => {
    const amounts = shared === undefined ? leastOf(sizesOf(pool, nodes)) : useOf(shared);
    return addAll(sums, inPool(pool, amounts));
  }, new Map<string, number>());
}

function isExact(needs: readonly Need[], { nodes }: NaiveWorld): boolean {
  return [...Map.groupBy(needs, ({ pool }) => pool)].every(([pool, ofPool]) => {
    const sizes = sizesOf(pool, nodes).map((size) => [...size].sort().join());
    const hasOneSize = new Set(sizes).size === 1;
    return areAlike(ofPool) && (hasOneSize || ofPool.every(({ shared }) => shared !== undefined));
  });
}

function areAlike(needs: readonly Need[]): boolean {
  return new Set(needs.map(({ shared }) => (shared === undefined ? "" : [...shared].sort().join()))).size === 1;
}

function sizesOf(pool: string, nodes: readonly NodeFacts[]): readonly Amounts[] {
  return nodes.filter((node) => node.pool === pool && isUsable(node)).flatMap(({ allocatable }) => allocatable ?? []);
}

function leastOf([first = NOTHING, ...others]: readonly Amounts[]): Amounts {
  return new Map([...first].map(([name, amount]) => [name, Math.min(amount, ...others.map((o) => o.get(name) ?? 0))]));
}

function isUsable({ ready, schedulable }: NodeFacts): boolean {
  return ready && schedulable;
}

function inPool(pool: string | undefined, amounts: Amounts = NOTHING): PairAmounts {
  return new Map([...amounts].map(([resource, amount]) => [pairKey(pool ?? "", resource), amount]));
}

function addAll(sums: Map<string, number>, amounts: PairAmounts): Map<string, number> {
  for (const [pair, amount] of amounts) if (amount > 0) sums.set(pair, (sums.get(pair) ?? 0) + amount);
  return sums;
}
