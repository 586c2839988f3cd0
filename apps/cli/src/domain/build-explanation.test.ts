import { expect, it } from "vitest";
import {
  buildLeaseExplanation,
  buildOwnerExplanation,
  explanationRecord,
  type Explained,
} from "./build-explanation.ts";
import { buildReservationTable } from "./build-views.ts";
import type { Reservation } from "./reservation.ts";

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

const SHARED = { cpu: "500m", memory: "1Gi" };
const HELD: Reservation = {
  ...{ id: "r-1", ownerKind: "job", ownerId: "train-1", state: "granted", priority: 0, because: undefined },
  needs: [
    { component: "ps-0", pool: "p", shared: SHARED },
    { component: "ps-1", pool: "p", shared: SHARED },
    { component: "worker-0", pool: "p" },
  ],
  machines: [
    { component: "ps-0", pool: "p", node: "a", shared: SHARED },
    { component: "ps-1", pool: "p", node: "a", shared: SHARED },
    { component: "worker-0", pool: "p", node: "b" },
  ],
  ...{ createdAtMs: 0, grantedAtMs: 0 },
};

it("shows which part of its machine a component holds", () => {
  const explanation = {
    ...{ reservation: HELD, code: "", message: "", pools: [] },
    ...{ place: { ahead: 0, byPriority: [] }, hold: undefined, concurrency: undefined },
  };
  expect(buildOwnerExplanation(explanation, undefined, 1000, STYLE)).toEqual([
    "job/train-1 granted for 1.0s: GRANTED",
    "  it holds 1 machine and 2 parts of machines",
    "",
    "COMPONENT  POOL  NODE  PART",
    "ps-0       p     a     500m cpu, 1Gi",
    "ps-1       p     a     500m cpu, 1Gi",
    "worker-0   p     b     whole",
  ]);
});

it("counts parts apart from machines in the list of reservations, and names each node once", () => {
  expect(buildReservationTable([HELD], 1000, STYLE)).toEqual([
    "ID   OWNER        STATE    MACHINES     PRIORITY  AGE   WHERE",
    "r-1  job/train-1  granted  1 + 2 parts  0         1.0s  a, b",
  ]);
});
