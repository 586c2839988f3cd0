/** An index from values to keys. */
export type KeyIndex<Kept> = {
  /** Throws the error of the index function. */
  check(kept: Kept): void;
  /** Replaces the value of the key; undefined: the key is not in the index. */
  move(key: string, before: Kept | undefined, after: Kept | undefined): void;
  keys(value: string): readonly string[];
};

/**
 * Creates an empty index, which recomputes values instead of storing them. A value with one key, the usual case, has no set, because a set needs more memory
 * than the rest.
 */
export function makeKeyIndex<Kept>(by: (kept: Kept) => readonly string[]): KeyIndex<Kept> {
  const found = new Map<string, string | Set<string>>();

  function add(value: string, key: string): void {
    const known = found.get(value);
    if (known === undefined) found.set(value, key);
    else if (typeof known !== "string") known.add(key);
    else if (known !== key) found.set(value, new Set([known, key]));
  }

  function remove(value: string, key: string): void {
    const known = found.get(value);
    if (known === key) found.delete(value);
    if (known === undefined || typeof known === "string") return;
    known.delete(key);
    const [only] = known;
    if (known.size <= 1 && only !== undefined) found.set(value, only);
  }

  return {
    check: (kept) => void by(kept),
    move: (key, before, after) => {
      const old = before === undefined ? [] : by(before);
      const now = after === undefined ? [] : by(after);
      for (const value of old) if (!now.includes(value)) remove(value, key);
      for (const value of now) if (!old.includes(value)) add(value, key);
    },
    keys: (value) => {
      const known = found.get(value);
      if (known === undefined) return [];
      return typeof known === "string" ? [known] : [...known];
    },
  };
}
