import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { buildSession } from "./build-session.ts";
import { INTENTS, PHASES, planSessionShapes } from "./plan-session-shapes.ts";

const POLICY = { sessions: 100, windowMs: 10_000, pools: { drivers: 4, workers: 8 } };

describe("planSessionShapes", () => {
  it("gives the same sessions for the same seed, and others for another", () => {
    expect(planSessionShapes(5, POLICY)).toEqual(planSessionShapes(5, POLICY));
    expect(planSessionShapes(5, POLICY)).not.toEqual(planSessionShapes(6, POLICY));
  });

  it("draws every intent, and cancellations in every phase, over enough seeds", () => {
    const all = Array.from({ length: 10 }, (_, seed) => planSessionShapes(seed, POLICY)).flat();
    expect(new Set(all.map(({ intent }) => intent))).toEqual(new Set(INTENTS));
    expect(new Set(all.flatMap(({ cancel }) => cancel?.phase ?? []))).toEqual(new Set(PHASES));
  });

  it("gives each session a unique name, one driver, one to five workers, and unique pod names", () => {
    fc.assert(
      fc.property(fc.nat(), (seed) => {
        const shapes = planSessionShapes(seed, POLICY);
        expect(new Set(shapes.map(({ name }) => name)).size).toBe(POLICY.sessions);
        for (const { intent, pods, submitAtMs } of shapes) {
          expect(pods.filter(({ kind }) => kind === "driver")).toHaveLength(1);
          expect(new Set(pods.map(({ name }) => name)).size).toBe(pods.length);
          expect(submitAtMs).toBeLessThanOrEqual(POLICY.windowMs);
          if (intent !== "pool-too-small") expect(pods.length).toBeLessThanOrEqual(6);
        }
      }),
      { numRuns: 20 },
    );
  });

  it("draws sessions that end by themselves, by their user, or by their time limit", () => {
    for (const { intent, pods, cancel } of planSessionShapes(7, { ...POLICY, sessions: 999 })) {
      const driver = pods.find(({ kind }) => kind === "driver");
      if (driver?.ends !== undefined) continue;
      const byOthers = ["worker-fails", "time-limit", "never-ready"].includes(intent);
      expect(byOthers || (cancel !== undefined && cancel.phase !== "cleaning-up")).toBe(true);
    }
  });
});

describe("buildSession", () => {
  it("writes the behaviour of the pod into its command", () => {
    const [shape] = planSessionShapes(1, POLICY);
    const [pod] = shape?.pods ?? [];
    if (shape === undefined || pod === undefined) throw new Error("nothing was drawn");
    const drawn = { ...pod, startMs: 1, readyMs: 2, ends: { afterMs: 3, code: 4 }, termMs: undefined };
    const built = buildSession({ ...shape, pods: [{ ...drawn, imageMissing: true, kind: "driver" }] });
    expect(built.components).toMatchObject([
      {
        command: [
          "simulate",
          "--start-ms=1",
          "--ready-ms=2",
          "--run-ms=3",
          "--exit=4",
          "--ignore-term",
          "--image-missing",
          '--print-at-end={"session":"s001"}',
        ],
        readyPort: 10_000,
      },
    ]);
  });

  it("omits flags for behaviour that the pod lacks", () => {
    const [shape] = planSessionShapes(1, POLICY);
    const pod = { ...shape!.pods[0]!, startMs: 0, readyMs: undefined, ends: undefined, termMs: 5, imageMissing: false };
    const built = buildSession({ ...shape!, pods: [{ ...pod, kind: "server" }] });
    expect(built.components).toMatchObject([{ command: ["simulate", "--start-ms=0", "--term-ms=5"], readyPort: 0 }]);
  });
});
