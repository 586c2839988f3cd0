import fc from "fast-check";
import { expect, it } from "vitest";
import { NaivePreemption } from "../../../test/naive-preempting-ledger.ts";
import { printEvents, printNaive, stepReal } from "../../../test/preemption-driver.ts";
import {
  changingRuns,
  buildOperation,
  quotaRuns,
  type PreemptionDraft,
  type PreemptionRun,
} from "../../../test/random-preemption.ts";
import { startRun } from "../../../test/random-world.ts";

/**
 * Number of random worlds. If unset, every run tests the same worlds. In about one world of 700, the ledger and the reference grant the requests of several
 * preemptions in different orders.
 */
const WORLDS = process.env["MUSTER_PREEMPTION_WORLDS"];

function play({ nodes, queues, drafts }: PreemptionRun): void {
  const run = startRun(nodes);
  const naive = new NaivePreemption(nodes);
  const all: readonly PreemptionDraft[] = [...queues.map((queue) => ({ kind: "put", queue }) as const), ...drafts];
  for (const [index, draft] of all.entries()) {
    const operation = buildOperation(draft, naive.world, index);
    if (operation === undefined) continue;
    const before = run.events.length;
    stepReal(run, operation);
    const { events } = naive.step(operation);
    // One pass of the ledger and of the reference visits requests in different orders.
    const [real, expected] = [printEvents(run.events.slice(before)), printNaive(events)].map((all) => [...all].sort());
    expect({ operation, decided: real }).toEqual({ operation, decided: expected });
  }
}

it.each([
  ["with plentiful machines", quotaRuns],
  ["that change, with plentiful machines", changingRuns],
])("preempts in queues %s as the reference does, which recomputes each formula", (_which, runs) => {
  fc.assert(fc.property(runs, play), WORLDS === undefined ? { numRuns: 150, seed: 2 } : { numRuns: Number(WORLDS) });
});
