/** How much of a node is asked for, or taken. */
export type Load = { readonly cpuMilli: number; readonly memoryBytes: number; readonly gpus: number };

/** Has room for nothing. */
export const FULL: Load = { cpuMilli: Infinity, memoryBytes: Infinity, gpus: Infinity };

/** The loads of nodes in their order, where the first that has room is found without asking of each. */
export type Loads = {
  /** Place of the first load with room. `hasRoom` is also asked of loads that are less than any of several, and whoever has room for more has to have it for less. */
  find(hasRoom: (load: Load) => boolean): number | undefined;
  /** The place after the last one is a new one. */
  set(place: number, load: Load): void;
};

/**
 * Levels of halves: an entry holds the least of each amount of the two entries below it, so that a part of the nodes in which none can have room is passed over as a
 * whole. Where some lack the one amount and some the other, their common entry promises more than they have, and is looked into in vain.
 */
export function indexLoads(): Loads {
  const levels: Load[][] = [[]];
  const findBelow = (level: number, place: number, hasRoom: (load: Load) => boolean): number | undefined => {
    const load = levels[level]?.[place];
    if (load === undefined || !hasRoom(load)) return undefined;
    if (level === 0) return place;
    return findBelow(level - 1, place * 2, hasRoom) ?? findBelow(level - 1, place * 2 + 1, hasRoom);
  };
  return {
    find: (hasRoom) => findBelow(levels.length - 1, 0, hasRoom),
    set: (place, load) => {
      let at = place;
      let entry = load;
      for (let level = 0; ; level += 1) {
        const entries = (levels[level] ??= []);
        entries[at] = entry;
        if (level === levels.length - 1 && entries.length === 1) return;
        const other = entries[at % 2 === 0 ? at + 1 : at - 1];
        if (other !== undefined) entry = least(entry, other);
        at = Math.floor(at / 2);
      }
    },
  };
}

/** The lesser of each amount. */
export function least(one: Load, other: Load): Load {
  return {
    cpuMilli: Math.min(one.cpuMilli, other.cpuMilli),
    memoryBytes: Math.min(one.memoryBytes, other.memoryBytes),
    gpus: Math.min(one.gpus, other.gpus),
  };
}
