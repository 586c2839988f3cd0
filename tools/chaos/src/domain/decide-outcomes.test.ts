import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { decideOutcomes, type Hits } from "./decide-outcomes.ts";
import { type Intent, INTENTS, type Phase, planShapes, type Shape } from "./plan-shapes.ts";

const QUIET: Hits = { nodeLost: false, disturbed: false };

function shape(intent: Intent, changes: { readonly cancel?: Phase; readonly endless?: boolean } = {}): Shape {
  const [any] = planShapes(1, { sessions: 1, windowMs: 0, pools: {} });
  const { cancel, endless } = changes;
  return {
    ...any!,
    intent,
    cancel: cancel === undefined ? undefined : { phase: cancel, afterMs: 0 },
    pods: any!.pods.map((pod) =>
      pod.kind === "driver" ? { ...pod, ends: endless ? undefined : { afterMs: 1, code: 0 } } : pod,
    ),
  };
}

describe("decideOutcomes", () => {
  it.each<[string, Shape, Hits, string[]]>([
    ["a good session is DONE", shape("good"), QUIET, ["DONE"]],
    ["also through faults", shape("good"), { nodeLost: false, disturbed: true }, ["DONE"]],
    [
      "and may fail when a machine of it was off",
      shape("good"),
      { nodeLost: true, disturbed: true },
      ["DONE", "ERROR COMPONENT_FAILED", "ERROR MACHINE_LOST"],
    ],
    ["a driver that fails is an ERROR", shape("driver-fails"), QUIET, ["ERROR COMPONENT_FAILED"]],
    ["a worker that fails is an ERROR", shape("worker-fails"), QUIET, ["ERROR COMPONENT_FAILED"]],
    ["an image that is missing is an ERROR", shape("image-missing"), QUIET, ["ERROR COMPONENT_FAILED"]],
    ["what is never ready runs out of time", shape("never-ready"), QUIET, ["ERROR TIMEOUT"]],
    [
      "and may blame the infrastructure when that was in trouble",
      shape("time-limit"),
      { nodeLost: false, disturbed: true },
      ["ERROR TIMEOUT", "INTERNAL_ERROR"],
    ],
    ["who waits not long may have to go", shape("queue-limit"), QUIET, ["DONE", "ERROR QUEUE_TIMEOUT"]],
    ["an unknown pool is said at once", shape("pool-unknown"), QUIET, ["ERROR POOL_UNKNOWN"]],
    ["a pool that is too small too", shape("pool-too-small"), QUIET, ["ERROR POOL_CAPACITY"]],
    [
      "a session without pods loses none",
      shape("pool-unknown"),
      { nodeLost: true, disturbed: true },
      ["ERROR POOL_UNKNOWN"],
    ],
    ["a cancellation races with the end", shape("good", { cancel: "running" }), QUIET, ["CANCELLED", "DONE"]],
    ["and wins when there is no other end", shape("good", { cancel: "running", endless: true }), QUIET, ["CANCELLED"]],
    ["but not once the outcome is known", shape("good", { cancel: "cleaning-up" }), QUIET, ["DONE"]],
  ])("%s", (_title, drawn, hits, outcomes) => {
    expect(decideOutcomes(drawn, hits).outcomes).toEqual(outcomes);
  });

  it("expects the result unless the machine that had the log was off", () => {
    expect(decideOutcomes(shape("good"), QUIET).resultWhenDone).toBe("present");
    expect(decideOutcomes(shape("good"), { nodeLost: true, disturbed: true }).resultWhenDone).toBe("perhaps");
  });

  it("leaves at least one outcome, and more the more has hit the session", () => {
    const intents = fc.constantFrom(...INTENTS);
    fc.assert(
      fc.property(intents, fc.boolean(), fc.boolean(), (intent, nodeLost, disturbed) => {
        const quiet = decideOutcomes(shape(intent), QUIET).outcomes;
        const hit = decideOutcomes(shape(intent), { nodeLost, disturbed }).outcomes;
        expect(quiet.length).toBeGreaterThan(0);
        for (const outcome of quiet) expect(hit).toContain(outcome);
      }),
    );
  });
});
