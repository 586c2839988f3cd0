import { expect, it } from "vitest";
import { buildLeaseExplanation, explanationRecord, type Explained } from "./build-explanation.ts";

const STYLE = { columns: 80, colours: false };

function explained(rest: Partial<Explained>): Explained {
  return {
    ...{ kind: "lease", name: "4-1", phase: "ACTIVE", sinceMs: 0, isOver: false },
    ...{ reason: { code: "ACTIVE", message: "it is complete", next: "" }, more: [] },
    ...{ reservation: undefined, scaling: undefined },
    ...rest,
  };
}

it("prints the reason of a lease, and the next step", () => {
  expect(buildLeaseExplanation(explained({}), 0, STYLE)).toEqual(["lease 4-1 ACTIVE", "  it is complete"]);
  const reason = { code: "CRASHED", message: "all of it is taken down: CRASHED", next: "order another one" };
  expect(buildLeaseExplanation(explained({ phase: "ENDED", reason }), 0, STYLE)).toEqual([
    "lease 4-1 ENDED: CRASHED",
    "  all of it is taken down: CRASHED",
    "next: order another one",
  ]);
});

it("prints what the engine could not ask", () => {
  const more = [{ code: "LEDGER_AWAY", message: "the ledger cannot be asked", next: "" }];
  expect(buildLeaseExplanation(explained({ more }), 0, STYLE).at(-1)).toBe("LEDGER_AWAY: the ledger cannot be asked");
});

it("has the same for programs", () => {
  const { reservation, scaling, ...record } = explanationRecord(explained({}));
  expect(record).toEqual({ lease: "4-1", phase: "ACTIVE", code: "ACTIVE", message: "it is complete", next: "" });
  expect([reservation, scaling]).toEqual([undefined, undefined]);
});
