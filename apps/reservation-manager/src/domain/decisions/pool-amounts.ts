import { largestOf, type Machines, type PoolState } from "../ledger/machines.ts";
import { compareLargestFirst, type Amounts } from "@muster/resources";
import { ANY_RESOURCE, pairKey, type PairAmounts } from "../ledger/queue.ts";

type Known = {
  readonly sizesMark: object;
  readonly states: readonly PoolState[];
  readonly amounts: PairAmounts;
};

/** The last amounts: they change when nodes do, and not with grants. */
let latest: Known | undefined;

/**
 * What the nodes of each pool can allocate together. A pool that is scaled counts with the nodes that it may get, each as the largest that it has; without a
 * node of known size it has any amount of each resource.
 */
export function poolAmounts({ pools, sizesMark }: Pick<Machines, "pools" | "sizesMark">): PairAmounts {
  if (latest?.sizesMark === sizesMark) return latest.amounts;
  const states = [...pools.values()];
  const known = latest;
  const isSame =
    known?.states.length === states.length &&
    states.every((state, index) => {
      const before = known.states[index];
      return before?.name === state.name && before.sizes === state.sizes && before.scaling === state.scaling;
    });
  const amounts = isSame ? known.amounts : sumAmounts(states);
  latest = { sizesMark, states, amounts };
  return amounts;
}

function sumAmounts(states: readonly PoolState[]): PairAmounts {
  const sums = new Map<string, number>();
  for (const state of states) {
    let largest: Amounts | undefined;
    const add = (amounts: Amounts, nodes: number): void => {
      for (const [resource, amount] of amounts) {
        const pair = pairKey(state.name, resource);
        if (amount * nodes > 0) sums.set(pair, (sums.get(pair) ?? 0) + amount * nodes);
      }
    };
    for (const { allocatable, nodes } of state.sizes.values()) {
      if (allocatable === undefined) continue;
      add(allocatable, nodes);
      if (largest === undefined || compareLargestFirst(allocatable, largest) < 0) largest = allocatable;
    }
    const future = (state.scaling?.max ?? 0) - largestOf(state);
    if (largest !== undefined && future > 0) add(largest, future);
    if (largest === undefined && future > 0) sums.set(pairKey(state.name, ANY_RESOURCE), Number.MAX_SAFE_INTEGER);
  }
  return sums;
}
