import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { describeFault, planFaults, SERVICES } from "./plan-faults.ts";
import { planJobs } from "./plan-jobs.ts";
import { PHASES, planSessionShapes } from "./plan-session-shapes.ts";

const POOLS = { drivers: 4, workers: 8 };

function plan(seed: number, sessions = 40, faults = 40) {
  const windowMs = sessions * 100;
  const shapes = planSessionShapes(seed, { sessions, windowMs, pools: POOLS });
  const jobs = planJobs(seed, { jobs: sessions, windowMs, pools: POOLS });
  const policy = { faults, windowMs, replicas: 2, pools: POOLS, patienceMs: 2000 };
  return { shapes, jobs, faults: planFaults(seed, { shapes, jobs }, policy) };
}

describe("planFaults", () => {
  it("gives the same faults for the same seed", () => {
    fc.assert(
      fc.property(fc.nat(), (seed) => {
        expect(plan(seed)).toEqual(plan(seed));
      }),
    );
  });

  it("gives other faults for another seed", () => {
    expect(plan(1).faults).not.toEqual(plan(2).faults);
  });

  it("hits every service at every phase with forty faults", () => {
    fc.assert(
      fc.property(fc.nat(), (seed) => {
        const hit = new Set(
          plan(seed).faults.flatMap(({ trigger, action }) =>
            trigger.kind === "phase" && (action.kind === "kill" || action.kind === "freeze")
              ? [`${action.service} ${trigger.phase}`]
              : [],
          ),
        );
        for (const service of SERVICES) for (const phase of PHASES) expect(hit).toContain(`${service} ${phase}`);
      }),
    );
  });

  it("draws every action, and every replica, over enough seeds", () => {
    const all = Array.from({ length: 20 }, (_, seed) => plan(seed).faults).flat();
    expect(new Set(all.map(({ action }) => action.kind))).toEqual(
      new Set([
        "kill",
        "freeze",
        "kill-all",
        "freeze-all",
        "kill-nats",
        "freeze-nats",
        "api-away",
        "kill-api",
        "api-answers",
        "api-delays",
        "api-loses-answers",
        "api-drops-watches",
        "api-expires-watches",
        "kill-node",
        "delete-pod",
      ]),
    );
    expect(new Set(all.flatMap(({ action }) => (action.kind === "kill" ? [action.replica] : [])))).toEqual(
      new Set([0, 1]),
    );
  });

  it("waits only for existing sessions and jobs that pass through every phase, and hits only existing machines", () => {
    fc.assert(
      fc.property(fc.nat(), fc.integer({ min: 1, max: 40 }), (seed, sessions) => {
        const { shapes, jobs, faults } = plan(seed, sessions);
        const complete = new Set(["good", "driver-fails", "time-limit"]);
        const names = [
          ...shapes.filter(({ intent }) => complete.has(intent)),
          ...jobs.filter(({ intent, userAction }) => intent !== "pool-too-small" && userAction === undefined),
        ].map(({ name }) => name);
        for (const { trigger, action } of faults) {
          if (trigger.kind === "phase") expect(names).toContain(trigger.work);
          else expect(trigger.atMs).toBeLessThanOrEqual(sessions * 100);
          if (action.kind === "kill-node" && "node" in action.victim) {
            expect(action.victim.node).toMatch(/^(drivers-[0-3]|workers-[0-7])$/);
          }
        }
      }),
    );
  });

  it("spares the job-controller and the pods of jobs in a run without jobs", () => {
    const { shapes } = plan(1);
    const policy = { faults: 100, windowMs: 1000, replicas: 2, pools: POOLS, patienceMs: 2000 };
    const faults = planFaults(1, { shapes, jobs: [] }, policy);
    expect(faults.map(describeFault).join()).not.toMatch(/job-controller|a user deletes/);
  });

  it("describes every fault on one line", () => {
    for (const fault of plan(3).faults) expect(describeFault(fault)).toMatch(/^f\d\d {2}\S.*\S$/);
  });
});
