/** An index of leases by any number of keys. */
export type LeaseIndex = {
  /** Replaces the keys of the lease. */
  set(id: string, keys: readonly string[]): void;
  /** The first leases with the key, at most `max`, in the order of their arrival. */
  first(key: string, max: number): string[];
  count(key: string): number;
};

export function leaseIndex(): LeaseIndex {
  const keysOf = new Map<string, readonly string[]>();
  const idsOf = new Map<string, Set<string>>();
  return {
    set: (id, keys) => {
      const before = keysOf.get(id) ?? [];
      for (const key of before) {
        if (keys.includes(key)) continue;
        const ids = idsOf.get(key);
        ids?.delete(id);
        if (ids?.size === 0) idsOf.delete(key);
      }
      for (const key of keys) idsOf.set(key, (idsOf.get(key) ?? new Set<string>()).add(id));
      if (keys.length === 0) keysOf.delete(id);
      else keysOf.set(id, keys);
    },
    first: (key, max) => {
      const found: string[] = [];
      for (const id of idsOf.get(key) ?? []) {
        if (found.length >= max) break;
        found.push(id);
      }
      return found;
    },
    count: (key) => idsOf.get(key)?.size ?? 0,
  };
}
