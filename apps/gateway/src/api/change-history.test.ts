import fc from "fast-check";
import { expect, it } from "vitest";
import type { Items } from "../domain/plan-changes.ts";
import { changeHistory } from "./change-history.ts";

const state: fc.Arbitrary<Items> = fc
  .dictionary(fc.constantFrom("a", "b", "c"), fc.constantFrom("1", "22"))
  .map((record) => new Map(Object.entries(record)));

it("gives a reader the changes from any of its numbers, or reports that it cannot", () => {
  const limits = fc.record({ maxChanges: fc.nat(8), maxCharacters: fc.nat(12) });
  fc.assert(
    fc.property(fc.array(state, { minLength: 1, maxLength: 8 }), limits, (states, limit) => {
      const history = changeHistory(limit);
      const seen: [number, Items][] = [[0, new Map()]];
      for (const next of states) {
        history.advance(next);
        seen.push([history.last, next]);
      }
      for (const [number, from] of seen) {
        const changes = history.after(number);
        if (changes === undefined) continue;
        const reached = new Map(from);
        for (const { kind, key, text } of changes) {
          if (kind === "deleted") reached.delete(key);
          else reached.set(key, text);
        }
        expect(Object.fromEntries(reached)).toEqual(Object.fromEntries(history.items));
      }
      expect(history.after(history.last)).toEqual([]);
      expect(history.after(history.last + 1)).toBeUndefined();
    }),
  );
});

it("drops the oldest changes beyond its limits", () => {
  const history = changeHistory({ maxChanges: 2, maxCharacters: 5 });
  const numbers = (from: number) => history.after(from)?.map(({ number }) => number);
  history.advance(new Map([["a", "1"]]));
  history.advance(new Map([["a", "2"]]));
  history.advance(new Map([["a", "3"]]));
  expect([numbers(0), numbers(1), numbers(2)]).toEqual([undefined, [2, 3], [3]]);
  history.advance(new Map([["a", "12345"]]));
  expect([numbers(2), numbers(3)]).toEqual([undefined, [4]]);
  history.advance(new Map([["a", "123456"]]));
  expect([numbers(4), numbers(5)]).toEqual([undefined, []]);
});
