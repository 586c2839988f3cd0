import { countLargest, type Machines, type PoolState } from "../ledger/machines.ts";
import { compareLargestFirst, type Amounts } from "@muster/resources";
import { ANY_RESOURCE, buildPairKey, type PairAmounts } from "../ledger/queue.ts";

type Known = {
  readonly sizesMark: object;
  readonly states: readonly PoolState[];
  readonly amounts: PairAmounts;
};

/** The last amounts, kept because they change with nodes and not with grants. */
let latest: Known | undefined;

/**
 * Returns the sum of the amounts that the nodes of each pool can allocate. A scaled pool counts its maximum number of nodes, each with the size of its largest
 * node. If no node has a known size, the pool's amounts are unlimited.
 */
export function sumPoolAmounts({ pools, sizesMark }: Pick<Machines, "pools" | "sizesMark">): PairAmounts {
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
        const pair = buildPairKey(state.name, resource);
        if (amount * nodes > 0) sums.set(pair, (sums.get(pair) ?? 0) + amount * nodes);
      }
    };
    for (const { allocatable, nodes } of state.sizes.values()) {
      if (allocatable === undefined) continue;
      add(allocatable, nodes);
      if (largest === undefined || compareLargestFirst(allocatable, largest) < 0) largest = allocatable;
    }
    const future = (state.scaling?.max ?? 0) - countLargest(state);
    if (largest !== undefined && future > 0) add(largest, future);
    if (largest === undefined && future > 0) sums.set(buildPairKey(state.name, ANY_RESOURCE), Number.MAX_SAFE_INTEGER);
  }
  return sums;
}
