/** A map that forgets the least recently used entry once it has `maxEntries`. */
type RecentMap<Value> = {
  get(key: string): Value | undefined;
  /** Returns the stored value; otherwise stores and returns the result of `make`. */
  getOr(key: string, make: () => Value): Value;
  readonly size: number;
};

export function makeRecentMap<Value>(maxEntries: number): RecentMap<Value> {
  // A Map iterates its keys in insertion order.
  const values = new Map<string, Value>();
  function touch(key: string, value: Value): Value {
    values.delete(key);
    values.set(key, value);
    return value;
  }
  return {
    get: (key) => {
      const value = values.get(key);
      return value === undefined ? undefined : touch(key, value);
    },
    getOr: (key, make) => {
      const known = values.get(key);
      const oldest = known === undefined && values.size >= maxEntries ? values.keys().next().value : undefined;
      if (oldest !== undefined) values.delete(oldest);
      return touch(key, known ?? make());
    },
    get size() {
      return values.size;
    },
  };
}
