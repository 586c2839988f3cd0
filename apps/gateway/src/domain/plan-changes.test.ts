import fc from "fast-check";
import { expect, it } from "vitest";
import { planChanges, type ItemChange, type Items } from "./plan-changes.ts";

const items: fc.Arbitrary<Items> = fc
  .dictionary(fc.constantFrom("a", "b", "c", "d"), fc.constantFrom("1", "2"))
  .map((record) => new Map(Object.entries(record)));

function apply(before: Items, changes: readonly ItemChange[]): Items {
  const after = new Map(before);
  for (const { kind, key, text } of changes) {
    if (kind === "deleted") after.delete(key);
    else after.set(key, text);
  }
  return after;
}

it("leads from one state to the next", () => {
  fc.assert(
    fc.property(items, items, (before, after) => {
      const reached = apply(before, planChanges(before, after));
      expect(Object.fromEntries(reached)).toEqual(Object.fromEntries(after));
    }),
  );
});

it("plans nothing between equal states", () => {
  fc.assert(
    fc.property(items, (state) => {
      expect(planChanges(state, new Map(state))).toEqual([]);
    }),
  );
});

it("reports added, modified and deleted items", () => {
  const before = new Map([
    ["gone", "1"],
    ["same", "1"],
    ["new", "1"],
  ]);
  const after = new Map([
    ["same", "1"],
    ["new", "2"],
    ["born", "1"],
  ]);
  expect(planChanges(before, after)).toEqual([
    { kind: "deleted", key: "gone", text: "1" },
    { kind: "modified", key: "new", text: "2" },
    { kind: "added", key: "born", text: "1" },
  ]);
});
