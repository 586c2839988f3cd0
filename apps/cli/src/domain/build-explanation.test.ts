import { expect, it } from "vitest";
import { buildLeaseExplanation, buildOwnerExplanation, buildExplanationRecord } from "./build-explanation.ts";
import type { ExplainedReservation } from "../adapters/explanation-messages.ts";
import { buildReservationTable } from "./build-views.ts";
import type { Reservation, ReservationExplanation } from "../adapters/reservation-messages.ts";

const STYLE = { columns: 80, colours: false };

const NO_ORDER = { requestsAhead: [], requestsAheadMore: 0, preempted: [], preemptedMore: 0, preemption: undefined };

function explained(rest: Partial<ExplainedReservation>): ExplainedReservation {
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

it("prints the observations that the engine could not make", () => {
  const more = [{ code: "LEDGER_AWAY", message: "the ledger cannot be asked", next: "" }];
  expect(buildLeaseExplanation(explained({ more }), 0, STYLE).at(-1)).toBe("LEDGER_AWAY: the ledger cannot be asked");
});

it("builds the explanation for programs", () => {
  const { reservation, scaling, ...record } = buildExplanationRecord(explained({}));
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
    ...NO_ORDER,
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

it("shows for whom a reservation must leave its machines, and by when", () => {
  const preemption = { beneficiary: "job/urgent-1", queue: "team-b", reason: "RECLAIM", deadlineMs: 30_000 };
  const preempted = { ...HELD, preemption: { ...preemption, accepted: false } };
  const text = "must leave for job/urgent-1 of queue team-b by 1970-01-01T00:00:30.000Z (RECLAIM)";
  expect(buildReservationTable([preempted], 1000, { ...STYLE, columns: 200 })[1]).toMatch(`a, b; ${text}`);
  const explanation = {
    ...{ reservation: preempted, code: "", message: "", pools: [] },
    ...{ place: { ahead: 0, byPriority: [] }, hold: undefined, concurrency: undefined },
    ...NO_ORDER,
  };
  expect(buildOwnerExplanation(explanation, undefined, 1000, STYLE).slice(0, 2)).toEqual([
    "job/train-1 granted for 1.0s: PREEMPTED",
    `  it ${text}`,
  ]);
});

it("shows the parts that do not fit, the short resource, and what is free of the pool", () => {
  const waiting: Reservation = {
    ...{ ...HELD, state: "waiting", machines: [], grantedAtMs: undefined },
    because: { code: "POOL_AVAILABILITY", pool: "p", requested: 3, parts: 2, available: 1, ahead: 0 },
  };
  const resources = [{ resource: "cpu", requested: "500m", free: "250m" }];
  const explanation: ReservationExplanation = {
    ...{ reservation: waiting, code: "POOL_AVAILABILITY", message: "cpu is short" },
    pools: [
      {
        ...{ pool: "p", requested: 3, available: 0, kept: 0, capacity: 2, held: 2, unusable: 0, elasticMax: 0 },
        ...{ nodes: undefined, elasticAtMs: undefined },
        parts: [{ part: SHARED, requested: 2, fitting: 1, shortage: { node: "b", placed: 1, resources } }],
        partsMore: 0,
        amounts: { free: { memory: "1Gi", cpu: "250m" }, allocatable: { memory: "8Gi", cpu: "2" } },
        ...{ unusableNodes: [], unusableMore: 0, holdersMore: 0 },
        holders: [{ owner: "job/other", machines: 3, parts: 3, sinceMs: 0 }],
      },
    ],
    ...{ place: { ahead: 0, byPriority: [] }, hold: undefined, concurrency: undefined },
    ...NO_ORDER,
  };
  expect(buildOwnerExplanation(explanation, undefined, 1000, STYLE).slice(2)).toEqual([
    "next: wait for the holders, end one of them, or enlarge the pool",
    "",
    "POOL  NEEDED       FREE  KEPT  CAPACITY  HELD  UNUSABLE",
    "p     1 + 2 parts  0     0     2         2     0",
    "",
    "POOL  PART           NEEDED  FIT  SHORT              BEST NODE",
    "p     500m cpu, 1Gi  2       1    cpu: 250m of 500m  b",
    "",
    "POOL  RESOURCE  FREE  TOTAL",
    "p     cpu       250m  2",
    "p     memory    1Gi   8Gi",
    "",
    "POOL  USED BY    MACHINES  SINCE  HOW",
    "p     job/other  3 parts   1.0s   holds",
    "",
    "queue: 0 requests ahead",
  ]);
  const [pool] = explanation.pools;
  const selecting = { ...explanation, pools: pool === undefined ? [] : [{ ...pool, nodes: "disk=ssd" }] };
  expect(buildOwnerExplanation(selecting, undefined, 1000, STYLE).slice(9, 13)).toEqual([
    "",
    "POOL          RESOURCE  FREE  TOTAL",
    "p (disk=ssd)  cpu       250m  2",
    "p (disk=ssd)  memory    1Gi   8Gi",
  ]);
  expect(buildReservationTable([waiting], 1000, { ...STYLE, columns: 120 }).at(-1)).toContain(
    "POOL_AVAILABILITY p: 1 + 2 parts needed, 1 fit",
  );
});
