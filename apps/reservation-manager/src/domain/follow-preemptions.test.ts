import { expect, it } from "vitest";
import {
  makeNode,
  toAmounts,
  makeOwner,
  makeParts,
  makeQueue,
  makeRequest,
  startRun,
  stepRun,
  type LedgerRun,
} from "../../test/random-world.ts";
import { followPreemptions, type PreemptionNews } from "./follow-preemptions.ts";
import { emptyLedger } from "./ledger/ledger.ts";

const CPU = "a cpu";

/** Grants a borrower two jobs, then lets an owner preempt the second. */
function preempt(): LedgerRun {
  const run = startRun([makeNode("n0", "a", { allocatable: toAmounts({ cpu: 100, pods: 100 }) })]);
  stepRun(run, { kind: "queue", queue: makeQueue("root", {}) });
  stepRun(run, { kind: "queue", queue: makeQueue("owner", { [CPU]: 10 }, { parent: "root", reclaim: "Any" }) });
  stepRun(run, { kind: "queue", queue: makeQueue("borrower", { [CPU]: 10 }, { parent: "root" }) });
  for (const [id, queue] of [
    ["p", "borrower"],
    ["q", "borrower"],
    ["x", "owner"],
  ] as const) {
    stepRun(run, { kind: "wait", ms: 1000 });
    const needs = makeParts("a", { cpu: 10 });
    stepRun(run, { kind: "reserve", request: makeRequest(id, [], { owner: makeOwner(id, "job"), needs, queue }) });
  }
  stepRun(run, { kind: "wait", ms: 4000 });
  return run;
}

function newsOf(run: LedgerRun): readonly PreemptionNews[] {
  return run.events.flatMap(followPreemptions(emptyLedger));
}

const PLANNED = { kind: "planned", reason: "RECLAIM" };

it("follows a preemption until the request that it was planned for has machines", () => {
  const run = preempt();
  stepRun(run, { kind: "accept", owner: makeOwner("q", "job") });
  stepRun(run, { kind: "wait", ms: 2000 });
  stepRun(run, { kind: "requeue", owner: makeOwner("q", "job") });
  expect(newsOf(run)).toEqual([
    PLANNED,
    { kind: "accepted", reason: "RECLAIM" },
    { kind: "requeued", reason: "RECLAIM" },
    { kind: "served", reason: "RECLAIM", tookMs: 6000 },
  ]);
});

it("follows a preemption that is withdrawn, and one whose work ends permanently", () => {
  const withdrawn = preempt();
  stepRun(withdrawn, { kind: "release", owner: makeOwner("x", "job") });
  expect(newsOf(withdrawn)).toEqual([PLANNED, { kind: "withdrawn", reason: "RECLAIM" }]);
  const ended = preempt();
  stepRun(ended, { kind: "release", owner: makeOwner("q", "job") });
  expect(newsOf(ended)).toEqual([
    PLANNED,
    { kind: "ended", reason: "RECLAIM" },
    { kind: "served", reason: "RECLAIM", tookMs: 4000 },
  ]);
});

it("continues with the preemptions of a restored ledger", () => {
  const run = preempt();
  const follow = followPreemptions(run.world.ledger);
  const before = run.events.length;
  stepRun(run, { kind: "release", owner: makeOwner("q", "job") });
  expect(run.events.slice(before).flatMap(follow)).toEqual([
    { kind: "ended", reason: "RECLAIM" },
    { kind: "served", reason: "RECLAIM", tookMs: 4000 },
  ]);
});
