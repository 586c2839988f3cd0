import type { Demand } from "./demand.ts";
import { compareNames, machineSuits, type FreeMachine } from "./fit.ts";

/** Free machines that the scaler did not make. */
export type FreeMachines = {
  /** Of those that suit, the first by name. */
  take(demand: Demand): FreeMachine | undefined;
  /** How many have been taken. */
  taken(): number;
  /** Puts back those that were taken last, down to this many. */
  rewind(taken: number): void;
};

/** Interchangeable machines in the order of their names; those before `next` are taken. */
type Alike = { readonly machines: FreeMachine[]; next: number };

export function indexFreeMachines(machines: readonly FreeMachine[]): FreeMachines {
  const kinds = new Map<string, Alike>();
  const byPool = new Map<string, Alike[]>();
  const stack: Alike[] = [];
  for (const machine of machines.toSorted((one, other) => compareNames(one.name, other.name))) {
    const { pool, instanceType, zone, spot, gpus, sharedWith } = machine;
    const isShared = sharedWith !== undefined;
    const kind = JSON.stringify([pool, instanceType, zone, spot, gpus, isShared].map((known) => known ?? null));
    const alike = kinds.get(kind);
    if (alike !== undefined) {
      alike.machines.push(machine);
      continue;
    }
    const first: Alike = { machines: [machine], next: 0 };
    kinds.set(kind, first);
    const others = byPool.get(pool);
    if (others === undefined) byPool.set(pool, [first]);
    else others.push(first);
  }
  return {
    take: (demand) => {
      let found: { readonly machine: FreeMachine; readonly alike: Alike } | undefined;
      for (const alike of byPool.get(demand.pool) ?? []) {
        const machine = alike.machines[alike.next];
        if (machine === undefined || !machineSuits(machine, demand)) continue;
        if (found === undefined || compareNames(machine.name, found.machine.name) < 0) found = { machine, alike };
      }
      if (found === undefined) return undefined;
      found.alike.next += 1;
      stack.push(found.alike);
      return found.machine;
    },
    taken: () => stack.length,
    rewind: (taken) => {
      while (stack.length > taken) {
        const alike = stack.pop();
        if (alike !== undefined) alike.next -= 1;
      }
    },
  };
}
