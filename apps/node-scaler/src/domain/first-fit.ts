/** The requested or used amounts of a node. */
export type NodeLoad = { readonly cpuMilli: number; readonly memoryBytes: number; readonly gpus: number };

/** A load that leaves no room. */
export const FULL_LOAD: NodeLoad = { cpuMilli: Infinity, memoryBytes: Infinity, gpus: Infinity };

/** The loads of nodes in their order. The search for the first one with room does not test each load. */
export type NodeLoads = {
  /**
   * Returns the position of the first load with room. `hasRoom` must be monotonic: it is also called with the minimum of several loads, and room for a larger
   * load implies room for a smaller one.
   */
  find(hasRoom: (load: NodeLoad) => boolean): number | undefined;
  /** Sets a load; the position after the last one adds a load. */
  set(place: number, load: NodeLoad): void;
};

/**
 * Builds a tree of minima: an entry contains the minimum of each amount of its two children, so that a subtree without room is skipped as a whole. If each
 * child lacks a different amount, the search enters the subtree and finds no room.
 */
export function indexLoads(): NodeLoads {
  const levels: NodeLoad[][] = [[]];
  const findBelow = (level: number, place: number, hasRoom: (load: NodeLoad) => boolean): number | undefined => {
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
        if (other !== undefined) entry = computeMinLoad(entry, other);
        at = Math.floor(at / 2);
      }
    },
  };
}

/** Returns the minimum of each amount. */
export function computeMinLoad(one: NodeLoad, other: NodeLoad): NodeLoad {
  return {
    cpuMilli: Math.min(one.cpuMilli, other.cpuMilli),
    memoryBytes: Math.min(one.memoryBytes, other.memoryBytes),
    gpus: Math.min(one.gpus, other.gpus),
  };
}
