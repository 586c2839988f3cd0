import { expect, it } from "vitest";
import {
  makeNode,
  makeOwner,
  policy,
  makeRequest,
  startRun,
  stepRun,
  type LedgerRun,
} from "../../../test/random-world.ts";
import { buildExplanation } from "./build-explanation.ts";
import { decideLimit } from "./decide-limit.ts";
import { decideReservation } from "./decide-reservation.ts";
import { findReservation } from "../ledger/ledger.ts";

const nodes = Array.from({ length: 6 }, (_, index) => makeNode(`a${index}`, "a"));

/** Submits these requests in order, each for one machine and with this limit. */
function runOf(limit: number, ...ids: readonly string[]): LedgerRun {
  const run = startRun(nodes);
  for (const id of ids) stepRun(run, { kind: "reserve", request: makeRequest(id, ["a"], { concurrencyLimit: limit }) });
  return run;
}

function granted(run: LedgerRun): string[] {
  const all = [...run.world.ledger.reservations.values()];
  return all.filter(({ grant }) => grant !== undefined).map(({ owner }) => owner.id);
}

it("grants waiting requests once a later request names a higher limit, before the request itself", () => {
  const run = runOf(1, "x", "y", "z");
  expect(granted(run)).toEqual(["ox"]);
  const verdict = stepRun(run, { kind: "reserve", request: makeRequest("w", ["a"], { concurrencyLimit: 3 }) });
  expect(granted(run)).toEqual(["ox", "oy", "oz"]);
  expect(verdict).toMatchObject({ kind: "queue", because: "CONCURRENCY_LIMIT" });
});

it("stops waiting requests once a later request names a lower limit, and revokes no granted machines", () => {
  const run = runOf(3, "x", "y", "z", "w");
  expect(granted(run)).toEqual(["ox", "oy", "oz"]);
  stepRun(run, { kind: "reserve", request: makeRequest("v", ["a"], { concurrencyLimit: 1 }) });
  expect(granted(run)).toEqual(["ox", "oy", "oz"]);
  for (const id of ["x", "y"]) stepRun(run, { kind: "release", owner: makeOwner(id) });
  expect(granted(run)).toEqual(["oz"]);
  stepRun(run, { kind: "release", owner: makeOwner("z") });
  expect(granted(run)).toEqual(["ow"]);
});

it("applies the limit of a repeated request, which may be granted by it", () => {
  const run = runOf(1, "x", "y");
  const again = stepRun(run, { kind: "reserve", request: makeRequest("y", ["a"], { concurrencyLimit: 2 }) });
  expect(again).toMatchObject({ kind: "answer", sequence: 2 });
  expect(granted(run)).toEqual(["ox", "oy"]);
});

it("removes the limit with 0, also for waiting requests", () => {
  const run = runOf(1, "x", "y", "z");
  stepRun(run, { kind: "limit", ownerKind: "session", limit: 0 });
  expect(granted(run)).toEqual(["ox", "oy", "oz"]);
  expect([...run.world.ledger.limits.keys()]).toEqual([]);
});

it("sets a limit without a new request, and for no other kind", () => {
  const run = runOf(1, "x", "y");
  stepRun(run, { kind: "limit", ownerKind: "job", limit: 2 });
  expect(granted(run)).toEqual(["ox"]);
  stepRun(run, { kind: "limit", ownerKind: "session", limit: 2 });
  expect(granted(run)).toEqual(["ox", "oy"]);
  expect(decideLimit({ ownerKind: "session", limit: 2 }, run.world.ledger, 0)).toMatchObject({ kind: "nothing" });
});

it("ignores the limit of a refused request", () => {
  const run = runOf(1, "x", "y");
  for (const request of [
    makeRequest("z", ["b"], { concurrencyLimit: 5 }),
    makeRequest("y", ["a", "a"], { concurrencyLimit: 5 }),
    makeRequest("z", ["a", "a", "a", "a", "a"], { concurrencyLimit: 5, wait: false }),
  ])
    expect(stepRun(run, { kind: "reserve", request })).toMatchObject({ kind: "refuse" });
  expect(granted(run)).toEqual(["ox"]);
});

it("grants more than the limit of one plan before it decides the request that named the limit", () => {
  const run = runOf(1, "x", "y", "z");
  const request = makeRequest("w", ["a"], { concurrencyLimit: 9 });
  const bounded = { ...policy, machinesPerPlan: 1 };
  const verdict = decideReservation(request, run.world, bounded, run.nowMs);
  expect(verdict).toMatchObject({
    kind: "limit",
    events: [
      { kind: "limited", limit: 9 },
      { kind: "granted", sequence: 2 },
    ],
  });
});

it("is the limit that an explanation names, whichever limit the request came with", () => {
  const run = runOf(1, "x", "y");
  stepRun(run, { kind: "limit", ownerKind: "session", limit: 0 });
  stepRun(run, { kind: "reserve", request: makeRequest("z", ["a"], { concurrencyLimit: 2 }) });
  const reservation = findReservation(run.world.ledger, makeOwner("z"));
  if (reservation === undefined) throw new Error("z has no reservation");
  const { because, concurrency, message } = buildExplanation(reservation, run.world, policy, run.nowMs);
  expect([because?.code, concurrency?.limit, concurrency?.granted]).toEqual(["CONCURRENCY_LIMIT", 2, 2]);
  expect(message).toContain("2 reservations of kind session are granted, and the limit is 2");
});
