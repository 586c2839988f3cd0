import type { Acceptance } from "./acceptance.ts";
import type { Demand } from "./demand.ts";
import { compareNames, canMachineServe, type FreeMachine } from "./fit.ts";

/** Free machines that the scaler did not create. */
export type FreeMachines = {
  /** Takes the first suitable machine by name. `kinds` are the kinds of `Acceptance` from which to take. */
  take(demand: Demand, kinds: ReadonlySet<string>): FreeMachine | undefined;
  /** Takes this machine, unless it is already taken. */
  withhold(machine: FreeMachine): void;
  /** Counts the taken machines. */
  taken(): number;
  /** Returns the latest taken machines, down to this count. */
  rewind(taken: number): void;
};

/** Interchangeable machines sorted by name; those before `next` are taken or withheld. */
type Alike = { readonly machines: FreeMachine[]; readonly kind: string; next: number };

export function indexFreeMachines(machines: readonly FreeMachine[], acceptance: Acceptance): FreeMachines {
  const alikes = new Map<string, Alike>();
  const byPool = new Map<string, Alike[]>();
  const places = new Map<FreeMachine, { readonly alike: Alike; readonly index: number }>();
  const withheld = new Set<FreeMachine>();
  const undo: (() => void)[] = [];
  const firstOf = (alike: Alike): { readonly machine: FreeMachine; readonly index: number } | undefined => {
    for (let index = alike.next; ; index += 1) {
      const machine = alike.machines[index];
      if (machine === undefined) return undefined;
      if (!withheld.has(machine)) return { machine, index };
    }
  };
  for (const machine of machines.toSorted((one, other) => compareNames(one.name, other.name))) {
    const { pool, instanceType, zone, spot, gpus, sharedWith } = machine;
    const isShared = sharedWith !== undefined;
    const kind = acceptance.kindOf(machine);
    const key = JSON.stringify([pool, instanceType, zone, spot, gpus, isShared, kind].map((known) => known ?? null));
    const alike = alikes.get(key);
    if (alike !== undefined) {
      places.set(machine, { alike, index: alike.machines.length });
      alike.machines.push(machine);
      continue;
    }
    const first: Alike = { machines: [machine], kind, next: 0 };
    places.set(machine, { alike: first, index: 0 });
    alikes.set(key, first);
    const others = byPool.get(pool);
    if (others === undefined) byPool.set(pool, [first]);
    else others.push(first);
  }
  return {
    take: (demand, kinds) => {
      let found: { readonly machine: FreeMachine; readonly index: number; readonly alike: Alike } | undefined;
      for (const alike of byPool.get(demand.pool) ?? []) {
        const first = kinds.has(alike.kind) ? firstOf(alike) : undefined;
        if (first === undefined || !canMachineServe(first.machine, demand)) continue;
        if (found === undefined || compareNames(first.machine.name, found.machine.name) < 0)
          found = { ...first, alike };
      }
      if (found === undefined) return undefined;
      const { machine, index, alike } = found;
      const before = alike.next;
      alike.next = index + 1;
      undo.push(() => (alike.next = before));
      return machine;
    },
    withhold: (machine) => {
      const place = places.get(machine);
      if (place === undefined || withheld.has(machine) || place.index < place.alike.next) return;
      withheld.add(machine);
      undo.push(() => withheld.delete(machine));
    },
    taken: () => undo.length,
    rewind: (taken) => {
      while (undo.length > taken) undo.pop()?.();
    },
  };
}
