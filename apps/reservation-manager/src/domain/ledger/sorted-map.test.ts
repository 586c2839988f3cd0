import fc from "fast-check";
import { expect, it } from "vitest";
import { compareNumbers, SortedMap, type Summaries } from "./sorted-map.ts";

const changes = fc.array(
  fc.record({ remove: fc.boolean(), key: fc.integer({ min: 0, max: 60 }), value: fc.integer() }),
  { maxLength: 300 },
);

it("equals a plain map, in key order, after any changes", () => {
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

it("equals a map that was built entry by entry, and accepts changes as well", () => {
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

it("leaves the older map unchanged", () => {
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

it("lists the changes since an earlier map, after any changes", () => {
  fc.assert(
    fc.property(changes, changes, (first, then) => {
      const applied = (map: SortedMap<number, number>, steps: typeof first): SortedMap<number, number> =>
        steps.reduce((all, { remove, key, value }) => (remove ? all.delete(key) : all.set(key, value)), map);
      const earlier = applied(SortedMap.empty<number, number>(compareNumbers), first);
      const later = applied(earlier, then);
      const keys = [...new Set([...earlier.keys(), ...later.keys()])].sort((a, b) => a - b);
      const expected = keys
        .map((key) => ({ before: earlier.get(key), after: later.get(key) }))
        .filter(({ before, after }) => before !== after);
      expect([...later.changesSince(earlier)]).toEqual(expected);
      expect([...later.changesSince(later)]).toEqual([]);
    }),
  );
});

it("compares few keys to list the changes of a large map", () => {
  let compared = 0;
  const counting = (a: number, b: number): number => {
    compared += 1;
    return compareNumbers(a, b);
  };
  const entries = Array.from({ length: 10_000 }, (_, key): [number, number] => [key, key]);
  const earlier = SortedMap.from(counting, entries);
  const later = earlier.set(5000, -1).delete(7).set(20_000, 1);
  compared = 0;
  expect([...later.changesSince(earlier)]).toEqual([{ before: 7 }, { before: 5000, after: -1 }, { after: 1 }]);
  expect(compared).toBeLessThan(200);
});

function largest(visited: number[] = []): Summaries<number, number> {
  const of = (value: number): number | undefined => {
    visited.push(value);
    return value < 0 ? undefined : value;
  };
  return { of, merge: Math.max, isCurrent: () => true, known: new WeakMap() };
}

it("summarises its values, and finds by summaries what a scan finds, after any changes", () => {
  fc.assert(
    fc.property(changes, fc.integer({ min: -1, max: 61 }), fc.integer(), (steps, from, least) => {
      const summaries = largest();
      let sorted = SortedMap.empty<number, number>(compareNumbers);
      for (const { remove, key, value } of steps) {
        sorted = remove ? sorted.delete(key) : sorted.set(key, value);
        const counted = [...sorted.values()].filter((each) => each >= 0);
        expect(sorted.summary(summaries)).toBe(counted.length === 0 ? undefined : Math.max(...counted));
        const first = [...sorted.entries()].flatMap(([each, of]) => (each <= from && of >= 0 ? [of] : []));
        expect(sorted.summary(summaries, from)).toBe(first.length === 0 ? undefined : Math.max(...first));
      }
      const expected = [...sorted.entries()].filter(([, value]) => value >= Math.max(0, least));
      const isPromising = (summary: number): boolean => summary >= least;
      expect([...sorted.search(summaries, isPromising)]).toEqual(expected);
      expect([...sorted.search(summaries, isPromising, from)]).toEqual(expected.filter(([key]) => key >= from));
      const rankOf = (summary: number): number | undefined => (isPromising(summary) ? summary : undefined);
      const found = [...sorted.searchBest(summaries, rankOf, (a, b) => b - a)];
      expect(found.sort(([a], [b]) => a - b)).toEqual(expected);
    }),
  );
});

it("finds the best values with few visits, and recomputes few summaries after a change", () => {
  const visited: number[] = [];
  const summaries = largest(visited);
  const entries = Array.from({ length: 10_000 }, (_, key): [number, number] => [key, (key * 7919) % 10_007]);
  const sorted = SortedMap.from(compareNumbers, entries);
  expect(sorted.summary(summaries)).toBe(Math.max(...entries.map(([, value]) => value)));
  visited.length = 0;
  const after = sorted.set(17, 20_000);
  let best = -1;
  let found = 0;
  for (const [, value] of after.searchBest(
    summaries,
    (summary) => (summary > best ? summary : undefined),
    (a, b) => b - a,
  )) {
    best = value;
    found += 1;
  }
  expect({ best, found }).toEqual({ best: 20_000, found: 1 });
  expect(visited.length).toBeLessThan(60);
});
