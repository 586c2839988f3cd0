import fc from "fast-check";
import { expect, it } from "vitest";
import { applyEvent, makeWorld, runPass, type World } from "../../test/planned-world.ts";
import { POLICY, makeReplica, makeSpec } from "../../test/samples.ts";
import { isTrue, NEW_STATUS } from "./job-status.ts";
import { computeRestartPauseMs } from "./decide-restart.ts";

const TIMEOUT_MS = 60_000;
const SPEC = makeSpec({ replicas: [makeReplica("worker", 2)], group: { scheduler: "gangs", settings: {} } });

/** Generates a grant that ends in a ready timeout: the steps after which the controller dies, and whether one pod becomes ready. */
const lateStart = fc.record({ dies: fc.array(fc.nat(3), { maxLength: 6 }), oneRuns: fc.boolean() });

function all(world: World, kind: "pod-binds" | "pod-runs" | "pod-goes"): void {
  for (let which = world.pods.length - 1; which >= 0; which -= 1) applyEvent(world, { kind, which });
}

/** Runs passes on a stopped clock until a pass changes no object. `dies` has the steps after which each earlier pass crashes. */
function passes(world: World, dies: readonly number[]): void {
  for (const after of dies) {
    applyEvent(world, { kind: "crash-in-steps", after });
    all(world, "pod-goes");
  }
  for (let round = 0; round < 5; round += 1) {
    runPass(world);
    all(world, "pod-goes");
  }
}

it("releases a gang that is not ready in time, requests it again after a growing pause, and counts each timeout once, wherever the controller dies", () => {
  fc.assert(
    fc.property(fc.array(lateStart, { minLength: 1, maxLength: 6 }), (starts) => {
      const world = makeWorld({ of: SPEC, maxMachines: 2 });
      applyEvent(world, { kind: "queue", choice: { kind: "queue", name: "team-a" } });
      Object.assign(world, { units: new Map(), pods: [], status: NEW_STATUS });
      world.readyTimeoutMs = TIMEOUT_MS;
      starts.forEach(({ dies, oneRuns }, before) => {
        runPass(world);
        applyEvent(world, { kind: "grant" });
        runPass(world);
        all(world, "pod-binds");
        if (oneRuns) applyEvent(world, { kind: "pod-runs", which: 0 });
        applyEvent(world, { kind: "time", ms: TIMEOUT_MS });
        passes(world, dies);
        expect(world.status).toMatchObject({ readyTimeouts: before + 1, attemptsCounted: 0, regrouping: false });
        expect([[...world.units.keys()], world.pods]).toEqual([[], []]);
        expect(isTrue(world.status, "Requeued")).toBe(true);
        applyEvent(world, { kind: "time", ms: computeRestartPauseMs(before + 1, POLICY) - 1000 });
        passes(world, []);
        expect(world.units.size).toBe(0);
        applyEvent(world, { kind: "time", ms: 1000 });
      });
      runPass(world);
      applyEvent(world, { kind: "grant" });
      runPass(world);
      all(world, "pod-binds");
      all(world, "pod-runs");
      runPass(world);
      expect(world.status).toMatchObject({ hasBeenReady: true, readyTimeouts: 0, lastReadyTimeoutMs: undefined });
      expect([isTrue(world.status, "Requeued"), isTrue(world.status, "Running")]).toEqual([false, true]);
      applyEvent(world, { kind: "time", ms: TIMEOUT_MS });
      expect(runPass(world)).toEqual([]);
    }),
    { numRuns: 60 },
  );
});
