import { FaultError } from "@muster/faults";
import { expect, it } from "vitest";
import { finishSteps, makePodsOwned, type PodsOwned } from "./pass-pods.ts";

type Steps = PodsOwned["steps"];
type Outcome = Awaited<Steps extends Map<string, infer Step> ? Step : never>;

/** The pods that a farm remembers after these steps. */
function ownedAfter(outcomes: readonly Outcome[]): PodsOwned {
  const steps: Steps = new Map(outcomes.map((outcome, at) => [`web-${at}`, Promise.resolve(outcome)]));
  const sets = { get: () => Promise.resolve(undefined) };
  return { ...makePodsOwned({ sets }, { name: "web", fence: 1, isHeld: () => true }), steps };
}

it("rethrows the defect of a step once all steps have ended", async () => {
  const error = new TypeError("a defect");
  const owned = ownedAfter([{ kind: "failed", error }, { kind: "done" }]);
  await expect(finishSteps({ now: () => 0 }, owned)).rejects.toBe(error);
  expect(owned.steps.size).toBe(0);
});

it("returns that a step has failed by a fault", async () => {
  const error = new FaultError({ code: "unavailable", dependency: "the API server", retryAfterMs: 1 });
  expect(await finishSteps({ now: () => 0 }, ownedAfter([{ kind: "failed", error }]))).toMatchObject({ failed: true });
});
