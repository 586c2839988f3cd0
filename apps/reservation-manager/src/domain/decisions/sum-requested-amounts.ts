import { sumUse, type Amounts } from "@muster/resources";
import { findRoom, type Machines } from "../ledger/machines.ts";
import type { Machine, PoolNeed } from "../ledger/reservation.ts";
import { buildPairKey, type PairAmounts } from "../ledger/queue.ts";

type Asked = {
  /** Undefined: the amounts do not depend on the machines. */
  readonly sizesMark: object | undefined;
  readonly amounts: PairAmounts;
  readonly isExact: boolean;
};

const known = new WeakMap<readonly PoolNeed[], Asked>();

/**
 * Returns the quota that the needs use. A granted whole machine counts its allocatable amounts. Before the grant, it counts those of the smallest machine that
 * the need accepts. `isExact`: every accepted machine has the same amounts.
 */
export function sumRequestedAmounts(needs: readonly PoolNeed[], machines: Machines): Omit<Asked, "sizesMark"> {
  const before = known.get(needs);
  if (before !== undefined && (before.sizesMark ?? machines.sizesMark) === machines.sizesMark) return before;
  const sums = new Map<string, number>();
  let isExact = true;
  for (const need of needs) {
    for (const requests of need.shared) add(sums, need.pool, sumUse(requests), 1);
    if (need.count === 0) continue;
    const smallest = smallestMachine(need, machines);
    add(sums, need.pool, smallest.amounts, need.count);
    isExact &&= smallest.isOnly;
  }
  const sizesMark = needs.some(({ count }) => count > 0) ? machines.sizesMark : undefined;
  const asked = { sizesMark, amounts: sums, isExact };
  known.set(needs, asked);
  return asked;
}

/** By resource, the minimum over the machines that the need accepts. A machine of unknown size counts as 0. */
function smallestMachine(need: PoolNeed, machines: Machines): { readonly amounts: Amounts; readonly isOnly: boolean } {
  const sizes = [...(findRoom(machines, need)?.sizes.values() ?? [])].flatMap(({ allocatable }) => allocatable ?? []);
  const [first, ...others] = [...new Set(sizes)];
  if (first === undefined) return { amounts: new Map(), isOnly: false };
  const least = (resource: string, amount: number): number =>
    others.reduce((min, other) => Math.min(min, other.get(resource) ?? 0), amount);
  const amounts = new Map([...first].map(([resource, amount]) => [resource, least(resource, amount)]));
  return { amounts, isOnly: others.length === 0 };
}

export function sumUsedAmounts(granted: readonly Machine[], machines: Pick<Machines, "nodes">): PairAmounts {
  const sums = new Map<string, number>();
  for (const { pool, node, shared } of granted) {
    const amounts = shared === undefined ? machines.nodes.get(node)?.facts?.allocatable : sumUse(shared);
    add(sums, pool, amounts ?? new Map(), 1);
  }
  return sums;
}

function add(sums: Map<string, number>, pool: string, amounts: Amounts, factor: number): void {
  for (const [resource, amount] of amounts) {
    if (amount === 0) continue;
    const pair = buildPairKey(pool, resource);
    sums.set(pair, (sums.get(pair) ?? 0) + factor * amount);
  }
}
