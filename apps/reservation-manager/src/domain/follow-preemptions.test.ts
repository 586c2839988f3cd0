import { expect, it } from "vitest";
import {
  nodeOf,
  amounts,
  ownerOf,
  partsOf,
  queueOf,
  requestOf,
  startRun,
  step,
  type Run,
} from "../../test/random-world.ts";
import { followPreemptions, type PreemptionNews } from "./follow-preemptions.ts";
import { emptyLedger } from "./ledger/ledger.ts";

const CPU = "a cpu";

/** Grants a borrower two jobs, then lets an owner preempt the second. */
function preempt(): Run {
  const run = startRun([nodeOf("n0", "a", { allocatable: amounts({ cpu: 100, pods: 100 }) })]);
  step(run, { kind: "queue", queue: queueOf("root", {}) });
  step(run, { kind: "queue", queue: queueOf("owner", { [CPU]: 10 }, { parent: "root", reclaim: "Any" }) });
  step(run, { kind: "queue", queue: queueOf("borrower", { [CPU]: 10 }, { parent: "root" }) });
  for (const [id, queue] of [
    ["p", "borrower"],
    ["q", "borrower"],
    ["x", "owner"],
  ] as const) {
    step(run, { kind: "wait", ms: 1000 });
    const needs = partsOf("a", { cpu: 10 });
    step(run, { kind: "reserve", request: requestOf(id, [], { owner: ownerOf(id, "job"), needs, queue }) });
  }
  step(run, { kind: "wait", ms: 4000 });
  return run;
}

function newsOf(run: Run): readonly PreemptionNews[] {
  return run.events.flatMap(followPreemptions(emptyLedger));
}

const PLANNED = { kind: "planned", reason: "RECLAIM" };

it("follows a preemption until the request that it was planned for has machines", () => {
  const run = preempt();
  step(run, { kind: "accept", owner: ownerOf("q", "job") });
  step(run, { kind: "wait", ms: 2000 });
  step(run, { kind: "requeue", owner: ownerOf("q", "job") });
  expect(newsOf(run)).toEqual([
    PLANNED,
    { kind: "accepted", reason: "RECLAIM" },
    { kind: "requeued", reason: "RECLAIM" },
    { kind: "served", reason: "RECLAIM", tookMs: 6000 },
  ]);
});

it("follows a preemption that is withdrawn, and one whose work ends permanently", () => {
  const withdrawn = preempt();
  step(withdrawn, { kind: "release", owner: ownerOf("x", "job") });
  expect(newsOf(withdrawn)).toEqual([PLANNED, { kind: "withdrawn", reason: "RECLAIM" }]);
  const ended = preempt();
  step(ended, { kind: "release", owner: ownerOf("q", "job") });
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
  step(run, { kind: "release", owner: ownerOf("q", "job") });
  expect(run.events.slice(before).flatMap(follow)).toEqual([
    { kind: "ended", reason: "RECLAIM" },
    { kind: "served", reason: "RECLAIM", tookMs: 4000 },
  ]);
});
