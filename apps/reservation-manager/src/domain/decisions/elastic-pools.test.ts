import { describe, expect, it } from "vitest";
import {
  makeNode,
  makeOwner,
  policy,
  makeRequest,
  scaleTo,
  startRun,
  stepRun,
  type LedgerRun,
} from "../../../test/random-world.ts";
import { buildExplanation } from "./build-explanation.ts";
import { findHold } from "./find-hold.ts";
import { getReservation, findReservation } from "../ledger/ledger.ts";
import type { Operation } from "../../../test/random-world.ts";

const reserve = (id: string, machines: number): Operation => {
  return {
    kind: "reserve",
    request: makeRequest(
      id,
      Array.from({ length: machines }, () => "a"),
    ),
  };
};

function runOf(...operations: readonly Operation[]): LedgerRun {
  const run = startRun();
  for (const operation of operations) stepRun(run, operation);
  return run;
}

function refusal(run: LedgerRun, id: string, machines: number): unknown {
  const verdict = stepRun(run, reserve(id, machines));
  return verdict?.kind === "refuse" ? verdict.fault : verdict?.kind;
}

function holdOf(run: LedgerRun): string | undefined {
  const hold = findHold(run.world, policy, run.nowMs);
  return hold && getReservation(run.world.ledger, hold.place.sequence).owner.id;
}

function isGranted(run: LedgerRun, id: string): boolean | undefined {
  const reservation = findReservation(run.world.ledger, makeOwner(id));
  return reservation && reservation.grant !== undefined;
}

describe("a pool that is scaled", () => {
  it("exists without a node, and takes requests up to its maximum size", () => {
    const run = runOf(scaleTo("a", 3));
    expect(run.world.machines.pools.get("a")).toMatchObject({ name: "a", held: 0, scaling: { max: 3 } });
    expect(refusal(run, "x", 3)).toBe("queue");
    expect(refusal(run, "y", 4)).toEqual({ code: "pool_capacity", pool: "a", requested: 4, capacity: 3 });
  });

  it("is as large as its live nodes when those exceed its maximum", () => {
    const run = runOf(
      scaleTo("a", 1),
      ...[1, 2].map((n): Operation => ({ kind: "node", facts: makeNode(`a${n}`, "a") })),
    );
    expect(refusal(run, "x", 3)).toMatchObject({ code: "pool_capacity", capacity: 2 });
    expect(refusal(run, "x", 2)).toBe("grant");
  });

  it("refuses requests if its maximum is 0, with another fault than for an unknown pool", () => {
    const run = runOf(scaleTo("a", 0));
    expect(refusal(run, "x", 1)).toMatchObject({ code: "pool_capacity", capacity: 0 });
    stepRun(run, scaleTo("a"));
    expect(refusal(run, "x", 1)).toMatchObject({ code: "pool_unknown", pool: "a" });
  });

  it("grants waiting requests once the nodes exist, and not before", () => {
    const run = runOf(scaleTo("a", 2), reserve("x", 2), { kind: "node", facts: makeNode("a1", "a") });
    expect(isGranted(run, "x")).toBe(false);
    stepRun(run, { kind: "node", facts: makeNode("a2", "a") });
    expect(isGranted(run, "x")).toBe(true);
  });

  it("keeps requests waiting when it is no longer scaled, and grants them if nodes appear anyway", () => {
    const run = runOf(scaleTo("a", 2), reserve("x", 2), scaleTo("a"));
    expect(run.world.machines.pools.get("a")).toBeUndefined();
    expect(isGranted(run, "x")).toBe(false);
    for (const name of ["a1", "a2"]) stepRun(run, { kind: "node", facts: makeNode(name, "a") });
    expect(isGranted(run, "x")).toBe(true);
  });
});

describe("machines are kept", () => {
  /** One of two machines of the pool is free, and a request for three machines is overdue. */
  const overdue = (...more: readonly Operation[]): LedgerRun =>
    runOf(
      scaleTo("a", 3),
      { kind: "node", facts: makeNode("a1", "a") },
      reserve("h", 1),
      reserve("large", 3),
      { kind: "wait", ms: policy.holdAfterMs + 1 },
      ...more,
      { kind: "node", facts: makeNode("a2", "a") },
      reserve("small", 1),
    );

  it("for a request that is larger than its pool is, but not than its maximum", () => {
    const run = overdue();
    expect([holdOf(run), isGranted(run, "small")]).toEqual(["olarge", false]);
    stepRun(run, { kind: "release", owner: makeOwner("h") });
    stepRun(run, { kind: "node", facts: makeNode("a3", "a") });
    expect([isGranted(run, "large"), isGranted(run, "small")]).toEqual([true, false]);
  });

  it("for no request while the provider cannot supply its nodes", () => {
    const run = overdue(scaleTo("a", 3, true));
    expect([holdOf(run), isGranted(run, "small")]).toEqual([undefined, true]);
    stepRun(run, scaleTo("a", 3));
    expect(holdOf(run)).toBe("olarge");
  });

  it("for no request once its pool is no longer scaled", () => {
    const run = overdue(scaleTo("a"));
    expect([holdOf(run), isGranted(run, "small")]).toEqual([undefined, true]);
  });
});

it("reports how many of the needed machines exist, and the maximum of the pool", () => {
  const run = runOf(scaleTo("a", 8), { kind: "node", facts: makeNode("a1", "a") }, reserve("x", 4));
  const reservation = getReservation(run.world.ledger, 1);
  const { message, pools } = buildExplanation(reservation, run.world, policy, run.nowMs);
  expect(message).toBe("pool a has 1 of 4 machines; it may grow to 8");
  expect(pools).toMatchObject([{ pool: "a", available: 1, capacity: 1, elasticMax: 8 }]);
});
