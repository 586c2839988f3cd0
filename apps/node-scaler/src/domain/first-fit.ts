/** How much of a node is asked for, or taken. */
export type Load = { readonly cpuMilli: number; readonly memoryBytes: number; readonly gpus: number };

/** Has room for nothing. */
export const FULL: Load = { cpuMilli: Infinity, memoryBytes: Infinity, gpus: Infinity };

/** The loads of nodes in their order, where the first that has room is found without asking of each. */
export type Loads = {
  /**
   * Place of the first load with room. `hasRoom` must be monotonic: it is also called with the minimum of several loads, and room for more implies room for
   * less.
   */
  find(hasRoom: (load: Load) => boolean): number | undefined;
  /** The place after the last one is a new one. */
  set(place: number, load: Load): void;
};

/**
 * A tree of minima: an entry holds the minimum of each amount of its two children, so that a subtree without room is skipped as a whole. Where one child
 * lacks one amount and the other child another, the subtree is searched and yields nothing.
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
