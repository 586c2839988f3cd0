/** Draws that depend only on the seed and their order. */
export type Random = {
  /** A whole number between both ends, inclusive. */
  readonly integer: (min: number, max: number) => number;
  readonly chance: (share: number) => boolean;
  readonly pick: <Item>(items: readonly [Item, ...Item[]]) => Item;
  /** A random key, in proportion to its weight. */
  readonly weighted: <Key extends string>(weights: Readonly<Record<Key, number>>) => Key;
  readonly shuffle: <Item>(items: readonly Item[]) => Item[];
};

/** Returns an independent source for each purpose: another draw for one purpose does not change the draws of another. */
export function makeRandom(seed: number, purpose: string): Random {
  let state = hash(`${seed}/${purpose}`);
  const next = (): number => {
    state = (state + 0x9e3779b9) >>> 0;
    return mix(state) / 2 ** 32;
  };
  const integer = (min: number, max: number): number => min + Math.floor(next() * (max - min + 1));
  return {
    integer,
    chance: (share) => next() < share,
    pick: (items) => items[integer(0, items.length - 1)] ?? items[0],
    weighted: (weights) => weighted(weights, next()),
    shuffle: (items) => {
      const left = [...items];
      return items.flatMap(() => left.splice(integer(0, left.length - 1), 1));
    },
  };
}

function weighted<Key extends string>(weights: Readonly<Record<Key, number>>, draw: number): Key {
  const keys = listKeys(weights);
  const total = keys.reduce((sum, key) => sum + weights[key], 0);
  let left = draw * total;
  const found = keys.find((key) => (left -= weights[key]) < 0) ?? keys.at(-1);
  if (found === undefined) throw new Error("nothing to draw from");
  return found;
}

function listKeys<Key extends string>(record: Readonly<Record<Key, unknown>>): Key[] {
  const isKey = (key: string): key is Key => key in record;
  return Object.keys(record).filter(isKey);
}

function hash(text: string): number {
  let value = 0x811c9dc5;
  for (const character of text) value = Math.imul(value ^ (character.codePointAt(0) ?? 0), 0x01000193);
  return mix(value >>> 0);
}

/** Hashes the bits, so that neighbouring numbers give unrelated results. */
function mix(value: number): number {
  let mixed = Math.imul(value ^ (value >>> 16), 0x85ebca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
  return (mixed ^ (mixed >>> 16)) >>> 0;
}
