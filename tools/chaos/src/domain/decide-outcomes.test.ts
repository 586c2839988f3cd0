import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { decideOutcomes, type FaultHits } from "./decide-outcomes.ts";
import {
  type SessionIntent,
  INTENTS,
  type Phase,
  planSessionShapes,
  type SessionShape,
} from "./plan-session-shapes.ts";

const QUIET: FaultHits = { nodeLost: false, disturbed: false };

function shape(
  intent: SessionIntent,
  changes: { readonly cancel?: Phase; readonly endless?: boolean } = {},
): SessionShape {
  const [any] = planSessionShapes(1, { sessions: 1, windowMs: 0, pools: {} });
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
  it.each<[string, SessionShape, FaultHits, string[]]>([
    ["a good session is DONE", shape("good"), QUIET, ["DONE"]],
    ["a good session is DONE despite faults", shape("good"), { nodeLost: false, disturbed: true }, ["DONE"]],
    [
      "a good session may fail when one of its machines was off",
      shape("good"),
      { nodeLost: true, disturbed: true },
      ["DONE", "ERROR COMPONENT_FAILED", "ERROR MACHINE_LOST"],
    ],
    ["a driver that fails is an ERROR", shape("driver-fails"), QUIET, ["ERROR COMPONENT_FAILED"]],
    ["a worker that fails is an ERROR", shape("worker-fails"), QUIET, ["ERROR COMPONENT_FAILED"]],
    ["a missing image is an ERROR", shape("image-missing"), QUIET, ["ERROR COMPONENT_FAILED"]],
    ["a session that is never ready times out", shape("never-ready"), QUIET, ["ERROR TIMEOUT"]],
    [
      "a timeout may be an INTERNAL_ERROR when there were faults",
      shape("time-limit"),
      { nodeLost: false, disturbed: true },
      ["ERROR TIMEOUT", "INTERNAL_ERROR"],
    ],
    ["a short queue limit may end the session", shape("queue-limit"), QUIET, ["DONE", "ERROR QUEUE_TIMEOUT"]],
    ["an unknown pool is an ERROR", shape("pool-unknown"), QUIET, ["ERROR POOL_UNKNOWN"]],
    ["a pool that is too small is an ERROR", shape("pool-too-small"), QUIET, ["ERROR POOL_CAPACITY"]],
    [
      "a session without pods loses none",
      shape("pool-unknown"),
      { nodeLost: true, disturbed: true },
      ["ERROR POOL_UNKNOWN"],
    ],
    ["a cancellation races with the end", shape("good", { cancel: "running" }), QUIET, ["CANCELLED", "DONE"]],
    [
      "a cancellation wins when the session is endless",
      shape("good", { cancel: "running", endless: true }),
      QUIET,
      ["CANCELLED"],
    ],
    ["a cancellation does not change a known outcome", shape("good", { cancel: "cleaning-up" }), QUIET, ["DONE"]],
  ])("%s", (_title, drawn, hits, outcomes) => {
    expect(decideOutcomes(drawn, hits).outcomes).toEqual(outcomes);
  });

  it("expects the result unless the machine with the log was off", () => {
    expect(decideOutcomes(shape("good"), QUIET).resultWhenDone).toBe("present");
    expect(decideOutcomes(shape("good"), { nodeLost: true, disturbed: true }).resultWhenDone).toBe("perhaps");
  });

  it("allows at least one outcome, and no fewer with faults", () => {
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
