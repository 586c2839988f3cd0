import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { buildJob } from "./build-job.ts";
import { USER_ACTIONS, JOB_INTENTS, type JobShape, countMembers, planJobs } from "./plan-jobs.ts";

const POLICY = { jobs: 100, windowMs: 10_000, pools: { drivers: 4, workers: 12 } };

describe("planJobs", () => {
  it("gives the same jobs for the same seed, and others for another", () => {
    expect(planJobs(5, POLICY)).toEqual(planJobs(5, POLICY));
    expect(planJobs(5, POLICY)).not.toEqual(planJobs(6, POLICY));
  });

  it("draws every intent, policy and user action over enough seeds", () => {
    const all = Array.from({ length: 10 }, (_, seed) => planJobs(seed, POLICY)).flat();
    expect(new Set(all.map(({ intent }) => intent))).toEqual(new Set(JOB_INTENTS));
    expect(new Set(all.flatMap(({ userAction }) => userAction?.kind ?? []))).toEqual(new Set(USER_ACTIONS));
    expect(new Set(all.map(({ cleanPodPolicy }) => cleanPodPolicy))).toEqual(new Set(["None", "Running", "All"]));
    const restarts = all.flatMap(({ types }) => types.map(({ restartPolicy }) => restartPolicy));
    expect(new Set(restarts)).toEqual(new Set(["Always", "OnFailure", "Never", "ExitCode"]));
    expect(all.some(({ ttlS }) => ttlS !== undefined)).toBe(true);
  });

  it("draws only jobs that fit into their pools, except those with intent pool-too-small", () => {
    fc.assert(
      fc.property(fc.nat(), (seed) => {
        for (const { intent, types } of planJobs(seed, POLICY)) {
          const needs = Map.groupBy(types, ({ pool }) => pool);
          const fits = Object.entries(POLICY.pools).every(
            ([pool, nodes]) => (needs.get(pool) ?? []).reduce((sum, { replicas }) => sum + replicas, 0) <= nodes,
          );
          expect(fits).toBe(intent !== "pool-too-small");
        }
      }),
      { numRuns: 20 },
    );
  });

  it("draws jobs that end by themselves or by their user, and keep no running pods", () => {
    const isEndless = ({ types, winner }: JobShape): boolean =>
      types.every(({ type, ends }) => ends === undefined || (winner !== undefined && type !== winner));
    for (const job of planJobs(7, { ...POLICY, jobs: 999 })) {
      if (job.intent === "pool-too-small") expect(["cancel", "delete"]).toContain(job.userAction?.kind);
      else if (isEndless(job)) expect(job.deadlineS).toBeDefined();
      if (job.cleanPodPolicy === "None") expect(job.types.every(({ ends }) => ends !== undefined)).toBe(true);
    }
  });
});

const JOB: JobShape = {
  name: "j007",
  intent: "good",
  submitAtMs: 0,
  submitTwice: false,
  types: [
    {
      type: "server",
      replicas: 1,
      pool: "drivers",
      restartPolicy: "Always",
      after: undefined,
      startMs: 1,
      readyMs: 2,
      ends: undefined,
      termMs: undefined,
      requests: undefined,
    },
    {
      type: "worker",
      replicas: 2,
      pool: "workers",
      restartPolicy: "ExitCode",
      after: "server",
      startMs: 0,
      readyMs: undefined,
      ends: { afterMs: 3, code: 4 },
      termMs: 5,
      requests: undefined,
    },
  ],
  winner: "worker",
  backoffLimit: 2,
  restartsAll: false,
  deadlineS: undefined,
  cleanPodPolicy: "All",
  ttlS: undefined,
  userAction: undefined,
  queue: "team-a",
};

describe("buildJob", () => {
  it("writes the behaviour of each pod into its command, and the shape into the spec", () => {
    const built = buildJob(JOB);
    const container = (command: readonly string[]): object => ({
      template: { spec: { containers: [{ name: "main", command }] } },
    });
    expect(built).toMatchObject({
      metadata: { name: "j007", labels: { "muster.dev/queue": "team-a" } },
      spec: {
        replicaSpecs: {
          server: {
            replicas: 1,
            pool: "drivers",
            restartPolicy: "Always",
            ...container(["simulate", "--start-ms=1", "--ready-ms=2", "--ignore-term"]),
          },
          worker: {
            dependsOn: [{ type: "server", status: "Ready" }],
            ...container(["simulate", "--start-ms=0", "--run-ms=3", "--exit=4", "--term-ms=5"]),
          },
        },
        runPolicy: { backoffLimit: 2, cleanPodPolicy: "All" },
        successPolicy: { rules: [{ allOf: [{ type: "worker" }] }] },
      },
    });
  });

  it("omits limits and rules that the shape lacks, and includes those that it has", () => {
    expect(JSON.stringify(buildJob(JOB))).not.toMatch(/activeDeadline|ttl|failurePolicy/);
    const limited = buildJob({ ...JOB, restartsAll: true, deadlineS: 3, ttlS: 2 });
    expect(limited).toMatchObject({
      spec: {
        runPolicy: { activeDeadlineSeconds: 3, ttlSecondsAfterFinished: 2 },
        failurePolicy: { rules: [{ action: "RestartJob", replicaTypes: ["flaky"], onExitCodes: { values: [42] } }] },
      },
    });
  });
});

describe("membersOf", () => {
  it("returns the members as in the labels of their pods", () => {
    expect(countMembers(JOB)).toEqual(["server-0", "worker-0", "worker-1"]);
  });
});
