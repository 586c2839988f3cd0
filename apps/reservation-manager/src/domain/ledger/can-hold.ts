import { buildAmountsKey, compareLargestFirst, type Amounts } from "@muster/resources";
import { emptyLedger } from "./ledger.ts";
import {
  countAttainableMachines,
  buildMachines,
  countLargest,
  findRoom,
  type Machines,
  type NodeFacts,
  type EqualNodes,
  type NodeUse,
  type PoolState,
} from "./machines.ts";
import { countPlaced, placeNeeds } from "./place-needs.ts";
import { hasOthersOf, getNeeds, countMachines, buildViewKey, type PoolNeed } from "./reservation.ts";
import { emptyRoom, buildFreeKey, buildPartialKey, placeShared, type Room } from "./room.ts";

const NOTHING: Amounts = new Map();
const NO_PODS: NodeUse = { pods: 0, requests: NOTHING, examples: [] };

/** Returns whether all needs together fit beside the current foreign pods if all other grants are released. */
export function canHoldAll(machines: Machines, needs: readonly PoolNeed[]): boolean {
  const isEachPossible = needs.every((need) => {
    const state = findRoom(machines, need);
    return state !== undefined && canHold(state, need);
  });
  if (!isEachPossible || !needs.some((need) => hasOthersOf(need, needs))) return isEachPossible;
  const pools = new Set(needs.map(({ pool }) => pool));
  return [...pools].every((pool) => canHoldTogether(machines, getNeeds(pool, needs)));
}

/** Returns whether the need fits beside the current foreign pods if all other grants are released. */
export function canHold(pool: PoolState, need: PoolNeed): boolean {
  const machines = countAttainableMachines(pool);
  if (need.count > machines) return false;
  if (need.shared.length === 0) return true;
  const key = `${pool.scaling?.exhausted === true} ${pool.scaling?.max} ${need.count} ${need.shared.map(buildAmountsKey).join("")}`;
  const known = answers.get(pool.sizes) ?? new Map<string, boolean>();
  answers.set(pool.sizes, known);
  const answer = known.get(key) ?? countFittingParts(pool, need, machines, "foreign pods stay") === need.shared.length;
  if (known.size < MAX_ANSWERS) known.set(key, answer);
  return answer;
}

/** As `canHold`, for several needs of one pool together. */
export function canHoldTogether(machines: Machines, needs: readonly PoolNeed[]): boolean {
  if (needs.length < 2) return true;
  const [sizes, ...others] = needs.map((need) => findRoom(machines, need)?.sizes);
  if (sizes === undefined) return false;
  const key = needs
    .map((need) => `${buildViewKey(need)} ${need.count} ${need.shared.map(buildAmountsKey).join("")}`)
    .join(" ");
  const known = jointAnswers.get(sizes) ?? new Map<string, JointAnswer>();
  jointAnswers.set(sizes, known);
  const same = known.get(key);
  if (same !== undefined && same.others.every((other, index) => other === others[index])) return same.answer;
  const wanted = needs.reduce((sum, need) => sum + countMachines(need), 0);
  const answer = fitTogether(machines, needs, "foreign pods stay") === wanted;
  if (known.size < MAX_ANSWERS) known.set(key, { others, answer });
  return answer;
}

/** An answer that is valid while the other views have these sizes. Sizes change with each change of a node of the view, but not with grants. */
type JointAnswer = { readonly others: readonly (PoolState["sizes"] | undefined)[]; readonly answer: boolean };

/** Answers of `canHoldTogether`, by the sizes of the first view. */
const jointAnswers = new WeakMap<PoolState["sizes"], Map<string, JointAnswer>>();

/** Counts how many machines and parts of these needs of one pool fit together when nothing else is granted. Visits every node. */
export function fitTogether(
  machines: Machines,
  needs: readonly PoolNeed[],
  foreign: "foreign pods stay" | "foreign pods leave",
): number {
  const [first] = needs;
  const nodes = [...machines.nodes.values()].flatMap(({ facts }): readonly NodeFacts[] => {
    if (facts === undefined || first === undefined || facts.pool !== first.pool || !isInDomain(facts, first)) return [];
    const foreignPods = foreign === "foreign pods stay" ? facts.foreign : NO_PODS;
    return [{ ...facts, occupants: [], ownerUses: [], foreign: foreignPods }];
  });
  const empty = buildMachines(nodes, emptyLedger);
  const placed = placeNeeds(needs.map((need) => ({ need, room: findRoom(empty, need) ?? emptyRoom })));
  return placed.reduce((sum, { parts, whole }) => sum + whole.length + countPlaced(parts), 0);
}

/** Returns whether the node is in the need's domain; true without a domain. */
function isInDomain({ labels }: NodeFacts, { domain }: PoolNeed): boolean {
  return domain === undefined || labels[domain.key] === domain.value;
}

/** Caches `canHold` by the sizes of a pool, because every pass repeats the check for long waiting requests. */
const answers = new WeakMap<PoolState["sizes"], Map<string, boolean>>();
const MAX_ANSWERS = 10_000;

/**
 * Counts the parts that fit beside the need's whole machines in an otherwise empty pool of the given node count. Nodes that the pool does not have yet count as
 * its largest node. If no size is known, every part fits.
 */
export function countFittingParts(
  pool: PoolState,
  { count, shared }: PoolNeed,
  machines: number,
  foreign: "foreign pods stay" | "foreign pods leave",
): number {
  const sizes = [...pool.sizes.values()].filter(({ allocatable }) => allocatable !== undefined);
  const stays = ({ hasForeignUse }: EqualNodes): boolean => hasForeignUse && foreign === "foreign pods stay";
  const present = foreign === "foreign pods stay" ? pool.withoutForeign : countLargest(pool);
  const future = Math.max(0, machines - present);
  if (sizes.length === 0) return future > 0 ? shared.length : 0;
  let room: Room = emptyRoom;
  for (const [index, size] of sizes.entries())
    for (let node = Math.min(size.nodes, shared.length); node > 0; node -= 1)
      room = withEmptyNode(room, `${index} ${node}`, size, stays(size));
  const [largest] = sizes.sort((a, b) => compareLargestFirst(a.allocatable ?? NOTHING, b.allocatable ?? NOTHING));
  if (largest !== undefined)
    for (let node = Math.min(future, shared.length); node > 0; node -= 1)
      room = withEmptyNode(room, `new ${node}`, largest, false);
  const whole = new Set([...room.free.keys()].map(({ node }) => node));
  const used = new Set<string>();
  let parts = 0;
  for (const node of placeShared(room, shared).nodes) {
    if (node === undefined) continue;
    if (whole.has(node) && !used.has(node) && used.size === machines - count) continue;
    if (whole.has(node)) used.add(node);
    parts += 1;
  }
  return parts;
}

function withEmptyNode(room: Room, node: string, size: EqualNodes, isPartial: boolean): Room {
  const { allocatable = NOTHING, potential } = size;
  if (!isPartial) return { ...room, free: room.free.set(buildFreeKey(node, allocatable), allocatable) };
  const partial = { free: potential, allocatable, potential, hasForeignUse: true };
  return { ...room, partial: room.partial.set(buildPartialKey(node, partial), partial) };
}
