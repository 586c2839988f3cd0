/** A map that forgets what was not asked for the longest once it has `most` entries. */
export type RecentMap<Value> = {
  get(key: string): Value | undefined;
  /** What is there, or what `make` gives, which is kept. */
  getOr(key: string, make: () => Value): Value;
  readonly size: number;
};

export function recentMap<Value>(most: number): RecentMap<Value> {
  // A Map keeps the order in which its keys were set.
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
      const oldest = known === undefined && values.size >= most ? values.keys().next().value : undefined;
      if (oldest !== undefined) values.delete(oldest);
      return touch(key, known ?? make());
    },
    get size() {
      return values.size;
    },
  };
}
