import {
  buildAmountsKey,
  compareLargestFirst,
  canHoldMinimum,
  getMinimum,
  withoutMinimum,
  type Amounts,
} from "@muster/resources";
import { countUnsizedMachines, findRoom, type Machines, type PoolState } from "./machines.ts";
import { buildViewKey, type PoolNeed, type NodeFilter } from "./reservation.ts";

/**
 * Drops the need's minimum size if every usable node that it otherwise accepts has that size. Most requests are far below every node's size, so they need no
 * view of their own and are counted instead of placed.
 */
export function withoutHeldMinimum<Need extends NodeFilter>(need: Need, machines: Machines): Need {
  const { pool, selection } = need;
  if (selection?.minimum === undefined) return need;
  const any = withoutMinimum(selection);
  const state = findRoom(machines, { pool, ...(any && { selection: any }) });
  return state === undefined || isHeldByAll(state.sizes, need) ? withAnySize(need) : need;
}

/** Drops the minimum size of the need. */
export function withAnySize<Need extends NodeFilter>(need: Need): Need {
  if (need.selection?.minimum === undefined) return need;
  const { selection, ...others } = need;
  const any = withoutMinimum(selection);
  return { ...others, ...(any && { selection: any }) } as Need;
}

const answers = new WeakMap<PoolState["sizes"], Map<string, boolean>>();
const MAX_ANSWERS = 10_000;

function isHeldByAll(sizes: PoolState["sizes"], { selection }: NodeFilter): boolean {
  const minimum: Amounts = getMinimum(selection) ?? new Map();
  const key = buildAmountsKey(minimum);
  const known = answers.get(sizes) ?? new Map<string, boolean>();
  answers.set(sizes, known);
  const answer =
    known.get(key) ?? [...sizes.values()].every(({ allocatable }) => canHoldMinimum(selection, allocatable));
  if (known.size < MAX_ANSWERS) known.set(key, answer);
  return answer;
}

/** Lists of needs without some of their minima. Each reduced list is one object, because caches use its identity as their key. */
const reducedLists = new WeakMap<readonly PoolNeed[], Map<string, readonly PoolNeed[]>>();

/** Drops minima as `withoutHeldMinimum` does, merges needs that then accept the same nodes, and orders them by `buildViewKey`. */
export function withoutHeldMinima(needs: readonly PoolNeed[], machines: Machines): readonly PoolNeed[] {
  if (needs.every(({ selection }) => selection?.minimum === undefined)) return needs;
  const reduced = needs.map((need) => withoutHeldMinimum(need, machines));
  const changes = reduced.map((need, index) => (need === needs[index] ? "0" : "1")).join("");
  if (!changes.includes("1")) return needs;
  const known = reducedLists.get(needs) ?? new Map<string, readonly PoolNeed[]>();
  reducedLists.set(needs, known);
  const list = known.get(changes) ?? mergeViews(reduced);
  known.set(changes, list);
  return list;
}

function mergeViews(needs: readonly PoolNeed[]): readonly PoolNeed[] {
  const merged = [...Map.groupBy(needs, buildViewKey)].map(([key, alike]) => {
    const count = alike.reduce((sum, need) => sum + need.count, 0);
    const shared = alike.flatMap((need) => need.shared).sort(compareLargestFirst);
    return alike.slice(0, 1).map((need) => ({ key, need: { ...need, count, shared } }));
  });
  return merged
    .flat()
    .sort((a, b) => (a.key < b.key ? -1 : 1))
    .map(({ need }) => need);
}

/** Returns whether nodes of unknown size may hold the need, so that it is still undecided whether the need fits. */
export function mayFitUnsized(need: PoolNeed, machines: Machines): boolean {
  const state = findRoom(machines, withAnySize(need));
  return state !== undefined && countUnsizedMachines(state) > 0;
}
