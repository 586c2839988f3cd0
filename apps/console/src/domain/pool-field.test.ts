import fc from "fast-check";
import { expect, it } from "vitest";
import type { NodeRecord, Pool, Reservation } from "../adapters/messages.ts";
import { buildPoolField, HUES, machineAt, shapeField, type FieldGroup } from "./pool-field.ts";

// Builds a pool with the fields that the pool field reads.
const pool = (fields: Partial<Pool>): Pool =>
  ({ name: "gpu", available: 0, capacity: 0, held: 0, unusable: 0, unusableByReason: [], ...fields }) as Pool;
const holds = (id: string, nodes: readonly string[], of = "gpu", grantedAtMs = 5): Reservation =>
  ({
    owner: { kind: "session", id },
    grantedAtMs,
    machines: nodes.map((node) => ({ pool: of, node })),
  }) as unknown as Reservation;
const node = (name: string, phase: NodeRecord["phase"]): NodeRecord =>
  ({ name, phase, spec: { pool: "gpu" } }) as NodeRecord;
const shown = (groups: readonly FieldGroup[]) =>
  groups.map(({ use, label, count, nodes }) => `${count} ${use} ${label} [${nodes.join(" ")}]`);

it.each<[title: string, groups: readonly FieldGroup[], shown: readonly string[]]>([
  ["an empty pool", buildPoolField(pool({}), [], []), []],
  [
    "machines by their holders, whose names are in order",
    buildPoolField(pool({ held: 3, available: 2 }), [holds("b", ["n3"]), holds("a", ["n2", "n1"])], []),
    ["2 held session/a [n1 n2]", "1 held session/b [n3]", "2 free free []"],
  ],
  [
    "a machine that two share, once",
    buildPoolField(pool({ held: 1 }), [holds("b", ["n1"]), holds("a", ["n1"])], []),
    ["1 shared session/a, session/b [n1]"],
  ],
  [
    "a machine whose owner holds two parts, once",
    buildPoolField(pool({ held: 1 }), [holds("a", ["n1", "n1"])], []),
    ["1 held session/a [n1]"],
  ],
  ["only its own machines", buildPoolField(pool({ held: 0 }), [holds("a", ["n1"], "other")], []), []],
  [
    "holders whose reservations are not shown",
    buildPoolField(pool({ held: 3 }), [holds("a", ["n1"])], []),
    ["1 held session/a [n1]", "2 shared holder not shown []"],
  ],
  [
    "booting and free machines by their names as far as the scaler knows them",
    buildPoolField(
      pool({ available: 2 }),
      [],
      [node("n1", "AVAILABLE"), node("n2", "CREATING"), node("n3", "CLAIMED")],
    ),
    ["2 free free [n1]", "1 booting booting [n2]"],
  ],
  [
    "lost machines by their reasons",
    buildPoolField(
      pool({
        unusable: 3,
        unusableByReason: [
          { reason: "NOT_READY", count: 2 },
          { reason: "NEW", count: 1 },
        ],
      }),
      [],
      [],
    ),
    ["2 lost not ready []", "1 lost NEW []"],
  ],
])("shows %s", (_, groups, lines) => {
  expect(shown(groups)).toEqual(lines);
});

it("gives a holder the same colour in every pool", () => {
  const hue = (of: string) => buildPoolField(pool({ name: of, held: 1 }), [holds("a", ["n1"], of)], [])[0]?.hue;
  expect(hue("gpu")).toBe(hue("cpu"));
  expect(hue("gpu")).toBeLessThan(HUES);
});

const group = fc.record({ count: fc.integer({ min: 1, max: 40 }), nodes: fc.constant([]) });

it("draws each machine once, and finds it at its position", () => {
  fc.assert(
    fc.property(fc.array(group, { maxLength: 6 }), fc.integer({ min: 1, max: 30 }), (counts, columns) => {
      const groups = counts.map((each, index): FieldGroup => {
        return { ...each, use: "held", label: String(index), hue: 0, sinceMs: 0 };
      });
      const { rows, paths } = shapeField(groups, columns, 0.1);
      const drawn = paths.flatMap((path, index) =>
        [...path.matchAll(/M(\d+) (\d+)h/g)].map(([, x, y]) => ({ index, at: Number(y) * columns + Number(x) })),
      );
      const count = counts.reduce((sum, each) => sum + each.count, 0);
      expect(drawn.map(({ at }) => at)).toEqual(Array.from({ length: count }, (_, at) => at));
      for (const { index, at } of drawn) expect(machineAt(groups, at)?.group).toBe(groups[index]);
      expect(machineAt(groups, count)).toBeUndefined();
      expect(rows).toBe(Math.ceil(count / columns));
    }),
  );
});
