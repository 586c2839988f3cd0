import { describe, expect, it } from "vitest";
import { askForCpu, explainRequest, startWithQueues } from "../../../test/queue-run.ts";
import {
  toAmounts,
  makeNode,
  makeOwner,
  policy,
  makeQueue,
  makeRequest,
  stepRun,
  type LedgerRun,
} from "../../../test/random-world.ts";
import type { ReservationRequest } from "./check-request.ts";
import { MAX_BENEFICIARIES, MAX_FIRST_PLACES, planPreemptions } from "./plan-preemptions.ts";
import { findReservation, type LedgerEvent } from "../ledger/ledger.ts";
import type { NodeFacts } from "../ledger/machines.ts";
import type { Queue } from "../ledger/queue.ts";
import { printShare } from "../ledger/share.ts";
import { evolveWorld } from "../ledger/world.ts";

const CPU = "a cpu";

function sized(name: string, cpu: number): NodeFacts {
  return makeNode(name, "a", { allocatable: toAmounts({ cpu, pods: 100 }) });
}

function worldOf(nodes: readonly NodeFacts[], ...queues: readonly Queue[]): LedgerRun {
  return startWithQueues(nodes, queues);
}

/** Requests one part for each of these cpu amounts. */
function ask(
  run: LedgerRun,
  id: string,
  cpu: number | readonly number[],
  more: Partial<ReservationRequest> = {},
): void {
  stepRun(run, { kind: "wait", ms: 1 });
  askForCpu(run, id, cpu, more);
}

/** Returns `NAME RULE` of each request ahead, with the shares where they decide. */
function ahead(run: LedgerRun, id: string): readonly string[] {
  return (explainRequest(run, id).requestsAhead?.listed ?? []).map(({ owner, rule, compared }) => {
    const shares = compared && `: ${printShare(compared.other.share)} < ${printShare(compared.own.share)}`;
    return `${owner.id.slice(1)} ${rule}${rule === "SHARE" ? shares : ""}`;
  });
}

describe("FRAGMENTED", () => {
  it.each<[title: string, asked: number | readonly number[], code: string]>([
    ["one part that fits on no machine, but into the free sum", 4, "FRAGMENTED"],
    ["two of three parts that fit", [2, 2, 2], "FRAGMENTED"],
    ["more than the free sum", 7, "POOL_AVAILABILITY"],
    ["parts that exceed the free sum together", [3, 4], "POOL_AVAILABILITY"],
  ])("%s: %s", (_title, asked, code) => {
    const run = worldOf([sized("n1", 8), sized("n2", 8)]);
    ask(run, "one", [5, 5]);
    ask(run, "x", asked);
    expect(explainRequest(run, "x").because).toMatchObject({ code, pool: "a" });
  });

  it("reports the sum and the machine that lacks least", () => {
    const run = worldOf([sized("n1", 8), sized("n2", 8)]);
    ask(run, "one", [5, 5]);
    ask(run, "x", 4);
    expect(explainRequest(run, "x").message).toBe(
      "the free amounts of pool a suffice in sum, but not on single machines: pool a has room for 0 of 1 part of a machine; needs 1 × (cpu 4m), 0 fit now; cpu is short: n1 has 3m free, the pool has 6m of 16m free",
    );
  });

  it("is not the reason if whole machines are needed, or if no machine is large enough", () => {
    const run = worldOf([sized("n1", 8), sized("n2", 8)]);
    ask(run, "one", [5, 5]);
    stepRun(run, { kind: "reserve", request: makeRequest("whole", ["a"], { owner: makeOwner("whole", "job") }) });
    expect(explainRequest(run, "whole").because?.code).toBe("POOL_AVAILABILITY");
    ask(run, "x", 6);
    stepRun(run, { kind: "node", facts: sized("n1", 5) });
    stepRun(run, { kind: "node", facts: sized("n2", 5) });
    expect(explainRequest(run, "x").because?.code).toBe("POOL_TOO_SMALL");
  });
});

const root = makeQueue("root", {});
const owner = makeQueue("owner", { [CPU]: 10 }, { parent: "root", reclaim: "Any" });
const borrower = makeQueue("borrower", { [CPU]: 10 }, { parent: "root" });

describe("a request that fits if nothing is kept for another one", () => {
  it.each([
    [5, "BEHIND_HIGHER_PRIORITY"],
    [0, "HELD_FOR_OLDER"],
  ])("is behind machines that are kept for a request of priority %s: %s", (priority, code) => {
    const run = worldOf([sized("n1", 10)]);
    ask(run, "p", 6);
    ask(run, "h", 8, { priority });
    stepRun(run, { kind: "wait", ms: policy.holdAfterMs + 1 });
    ask(run, "x", 2);
    expect(explainRequest(run, "x").because).toMatchObject({ code, pool: "a", available: 0 });
  });

  it.each([
    [5, "BEHIND_HIGHER_PRIORITY"],
    [0, "WAITING_FOR_QUOTA"],
  ])("is behind quota that is kept for a request of its queue of priority %s: %s", (priority, code) => {
    const run = worldOf([sized("n1", 100)], makeQueue("ai", { [CPU]: 10 }));
    ask(run, "p", 6, { queue: "ai" });
    ask(run, "h", 8, { queue: "ai", priority });
    stepRun(run, { kind: "wait", ms: policy.holdAfterMs + 1 });
    ask(run, "x", 2, { queue: "ai" });
    expect(explainRequest(run, "x").because).toMatchObject({
      code,
      queue: "ai",
      quota: { resource: "cpu", requested: 2 },
    });
  });

  it("is behind a beneficiary for which a borrower's work is preempted", () => {
    const run = worldOf([sized("n1", 100)], root, owner, borrower);
    for (const id of ["p", "q", "r", "s"]) ask(run, id, 5, { queue: "borrower" });
    ask(run, "x", 10, { queue: "owner" });
    stepRun(run, { kind: "accept", owner: makeOwner("s", "job") });
    stepRun(run, { kind: "requeue", owner: makeOwner("s", "job") });
    expect(explainRequest(run, "x").because?.code).toBe("WAITING_FOR_PREEMPTED");
    expect(explainRequest(run, "s")).toMatchObject({
      because: { code: "BEHIND_FAIR_SHARE", queue: "borrower" },
      message:
        "the machines or quota that it needs are kept for job ox of queue owner, which goes first: queue borrower would have to borrow more than owner",
    });
  });

  it("is behind a beneficiary of its queue with a higher priority", () => {
    const run = worldOf([sized("n1", 100)], makeQueue("ai", { [CPU]: 10 }, { withinQueue: "LowerPriority" }));
    for (const id of ["p", "q"]) ask(run, id, 5, { queue: "ai" });
    ask(run, "h", 10, { queue: "ai", priority: 7 });
    stepRun(run, { kind: "accept", owner: makeOwner("q", "job") });
    stepRun(run, { kind: "requeue", owner: makeOwner("q", "job") });
    expect(explainRequest(run, "q")).toMatchObject({
      because: { code: "BEHIND_HIGHER_PRIORITY", queue: "ai" },
      message:
        "the machines or quota that it needs are kept for job oh of queue ai, which goes first: its priority is 7, that of this request 0; 1 request ahead of it",
    });
  });
});

describe("precedence of requests", () => {
  it("is decided between queues by their shares with the requests, and within one by priority and age", () => {
    const run = worldOf(
      [sized("n1", 100)],
      makeQueue("root", { [CPU]: 10 }),
      makeQueue("a", {}, { parent: "root" }),
      makeQueue("b", {}, { parent: "root" }),
    );
    ask(run, "p", 6, { queue: "a" });
    ask(run, "q", 2, { queue: "b" });
    ask(run, "old", 3, { queue: "a" });
    ask(run, "x", 3, { queue: "a" });
    ask(run, "urgent", 3, { queue: "a", priority: 1 });
    ask(run, "y", 3, { queue: "b" });
    expect(ahead(run, "x")).toEqual(["y SHARE: 1/2 (0.5) < 9/10 (0.9)", "urgent PRIORITY", "old AGE"]);
    expect(ahead(run, "y")).toEqual([]);
  });

  it("is decided by the quota that suffices; queues of weight 0 that borrow come last", () => {
    const run = worldOf(
      [sized("n1", 100)],
      makeQueue("root", { [CPU]: 2 }),
      makeQueue("own", { [CPU]: 4 }, { parent: "root" }),
      makeQueue("borrows", {}, { parent: "root" }),
      makeQueue("scavenger", {}, { parent: "root", weightMilli: 0 }),
    );
    ask(run, "p", 6, { queue: "borrows" });
    ask(run, "z", 1, { queue: "scavenger", priority: 9 });
    ask(run, "y", 1, { queue: "borrows" });
    ask(run, "x", 1, { queue: "own" });
    expect(ahead(run, "z")).toEqual(["y WEIGHT", "x WEIGHT"]);
    expect(ahead(run, "y")).toEqual(["x QUOTA"]);
    expect(ahead(run, "x")).toEqual([]);
  });

  it("lists requests up to its limit, and counts the rest", () => {
    const run = worldOf([sized("n1", 1)]);
    for (let id = 0; id < 30; id += 1) ask(run, String(id), 1);
    expect(explainRequest(run, "29").requestsAhead?.listed).toHaveLength(20);
    expect(explainRequest(run, "29").requestsAhead?.more).toBe(8);
  });
});

describe("work that a request would preempt", () => {
  it("is not listed before its minimum run time is over, and is preempted then", () => {
    const run = worldOf([sized("n1", 100)], root, owner, { ...borrower, minRunTimeMs: 500 });
    ask(run, "p", 10, { queue: "borrower" });
    ask(run, "q", 10, { queue: "borrower" });
    ask(run, "x", 10, { queue: "owner" });
    expect(explainRequest(run, "x").preemption).toEqual({
      victims: { listed: [], more: 0 },
      againAtMs: 501,
      limit: undefined,
    });
    expect(explainRequest(run, "p").preemption).toBeUndefined();
  });

  it("reports the limit of concurrent beneficiaries, and the work that would be preempted", () => {
    const count = MAX_BENEFICIARIES + 1;
    const owning = (reclaim?: "Any") =>
      makeQueue("owner", { [CPU]: count }, { parent: "root", ...(reclaim && { reclaim }) });
    const run = worldOf([sized("n1", 1000)], root, owning(), makeQueue("borrower", {}, { parent: "root" }));
    for (let id = 0; id < count; id += 1) ask(run, `p${id}`, 1, { queue: "borrower" });
    for (let id = 0; id < count; id += 1) ask(run, `x${id}`, 1, { queue: "owner" });
    const sequenceOf = (id: string) => findReservation(run.world.ledger, makeOwner(id, "job"))?.sequence ?? 0;
    const preempted = Array.from({ length: MAX_BENEFICIARIES }, (_, id): LedgerEvent => {
      const [sequence, beneficiary] = [sequenceOf(`p${id}`), sequenceOf(`x${id}`)];
      return { kind: "preempted", sequence, beneficiary, reason: "RECLAIM", atMs: run.nowMs, deadlineMs: run.nowMs };
    });
    run.world = evolveWorld(run.world, preempted);
    stepRun(run, { kind: "queue", queue: owning("Any") });
    expect(planPreemptions(run.world, policy, run.nowMs)).toMatchObject({
      steps: [],
      limits: new Set(["MAX_BENEFICIARIES"]),
    });
    expect(explainRequest(run, `x${MAX_BENEFICIARIES}`).preemption).toMatchObject({
      victims: { listed: [{ owner: makeOwner(`p${MAX_BENEFICIARIES}`, "job"), reason: "RECLAIM" }] },
      limit: "MAX_BENEFICIARIES",
    });
  });

  it("reports that the first of equal requests preempt nothing, and that the requests behind them wait", () => {
    const owning = (reclaim?: "Any") =>
      makeQueue("owner", { [CPU]: 1 }, { parent: "root", ...(reclaim && { reclaim }) });
    const run = worldOf([sized("n1", 1000)], root, owning(), makeQueue("borrower", {}, { parent: "root" }));
    ask(run, "p", 1, { queue: "borrower" });
    for (let id = 0; id <= MAX_FIRST_PLACES; id += 1) ask(run, `x${id}`, 1, { queue: "owner" });
    const { sequence: preemptedFor = 0 } = findReservation(run.world.ledger, makeOwner("p", "job")) ?? {};
    const first = [...run.world.ledger.reservations.values()].slice(1, MAX_FIRST_PLACES + 1);
    const events = first.flatMap((reservation): LedgerEvent[] => [
      { kind: "released", sequence: reservation.sequence, atMs: 0 },
      { kind: "requested", reservation: { ...reservation, preemptedFor }, atMs: 0 },
    ]);
    run.world = evolveWorld(run.world, events);
    stepRun(run, { kind: "queue", queue: owning("Any") });
    expect(planPreemptions(run.world, policy, run.nowMs)).toMatchObject({
      steps: [],
      limits: new Set(["MAX_FIRST_PLACES"]),
    });
    expect(explainRequest(run, `x${MAX_FIRST_PLACES}`).preemption).toMatchObject({
      victims: { listed: [{ owner: makeOwner("p", "job"), reason: "RECLAIM" }] },
      limit: "MAX_FIRST_PLACES",
    });
    expect(explainRequest(run, "x0").preemption).toMatchObject({ victims: { listed: [] }, limit: undefined });
  });
});
