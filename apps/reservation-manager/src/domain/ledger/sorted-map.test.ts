import fc from "fast-check";
import { expect, it } from "vitest";
import { compareNumbers, SortedMap } from "./sorted-map.ts";

const changes = fc.array(
  fc.record({ remove: fc.boolean(), key: fc.integer({ min: 0, max: 60 }), value: fc.integer() }),
  { maxLength: 300 },
);

it("holds what a plain map holds, in key order, after any changes", () => {
  fc.assert(
    fc.property(changes, fc.integer({ min: -1, max: 61 }), (steps, probe) => {
      let sorted = SortedMap.empty<number, number>(compareNumbers);
      const plain = new Map<number, number>();
      for (const { remove, key, value } of steps) {
        if (remove) plain.delete(key);
        else plain.set(key, value);
        sorted = remove ? sorted.delete(key) : sorted.set(key, value);
      }
      const expected = [...plain].sort(([a], [b]) => a - b);
      expect([...sorted.entries()]).toEqual(expected);
      expect(sorted.size).toBe(plain.size);
      expect(sorted.first()).toEqual(expected[0]);
      expect(sorted.last()).toEqual(expected.at(-1));
      expect(sorted.get(probe)).toBe(plain.get(probe));
      expect(sorted.rank(probe)).toBe(expected.filter(([key]) => key < probe).length);
      expect(sorted.first(probe)).toEqual(expected.find(([key]) => key >= probe));
      expect([...sorted.entries(probe)]).toEqual(expected.filter(([key]) => key >= probe));
    }),
  );
});

it("is the same built at once as built one by one, and takes changes as well", () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.nat({ max: 60 }), fc.integer())), changes, (entries, steps) => {
      let sorted = SortedMap.from(compareNumbers, entries);
      const plain = new Map(entries);
      for (const { remove, key, value } of steps) {
        if (remove) plain.delete(key);
        else plain.set(key, value);
        sorted = remove ? sorted.delete(key) : sorted.set(key, value);
      }
      expect([...sorted.entries()]).toEqual([...plain].sort(([a], [b]) => a - b));
      expect(sorted.rank(61)).toBe(plain.size);
    }),
  );
});

it("leaves the older map as it was", () => {
  fc.assert(
    fc.property(changes, (steps) => {
      let sorted = SortedMap.empty<number, number>(compareNumbers);
      const versions: [SortedMap<number, number>, string][] = [];
      for (const { remove, key, value } of steps) {
        versions.push([sorted, JSON.stringify([...sorted.entries()])]);
        sorted = remove ? sorted.delete(key) : sorted.set(key, value);
      }
      for (const [version, text] of versions) expect(JSON.stringify([...version.entries()])).toBe(text);
    }),
    { numRuns: 20 },
  );
});

it("needs few comparisons to find a key, whatever the order of insertion", () => {
  let comparisons = 0;
  let sorted = SortedMap.empty<number, number>((a, b) => {
    comparisons += 1;
    return a - b;
  });
  for (let key = 0; key < 20_000; key += 1) sorted = sorted.set(key, key);
  for (let key = 0; key < 15_000; key += 1) sorted = sorted.delete(key);
  comparisons = 0;
  expect(sorted.get(19_999)).toBe(19_999);
  expect(sorted.get(15_000)).toBe(15_000);
  expect(comparisons).toBeLessThan(2 * 30);
});
