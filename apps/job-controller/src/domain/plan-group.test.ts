import { describe, expect, it } from "vitest";
import {
  makeGrantedUnit,
  makePodFact,
  POLICY,
  makeReplica,
  makeReplicaSeen,
  makeSnapshot,
  makeSpec,
} from "../../test/samples.ts";
import type { JobSpec } from "./job.ts";
import { NEW_STATUS, type JobStatus } from "./job-status.ts";
import { findGroupAdvice, findGroupKind, planGroup } from "./plan-group.ts";
import { planJob } from "./plan-job.ts";
import type { GroupSpec } from "./pod-group.ts";
import type { Snapshot } from "./snapshot.ts";

const kind = { apiVersion: "groups/v1", fields: ["queue", "minResources"] } as const;
const gang = (more: Partial<JobSpec> = {}): JobSpec =>
  makeSpec({ group: { scheduler: "gangs", settings: {} }, ...more });
const there = (group: GroupSpec, apiVersion: string = kind.apiVersion) => ({
  groups: { kind, existing: [{ apiVersion, group }] },
});
const nothing = { groups: { kind, existing: [] } };
const completed = (...completedIndexes: number[]): JobStatus => ({
  ...NEW_STATUS,
  replicas: [
    {
      type: "worker",
      active: 0,
      ready: 0,
      succeeded: 0,
      failed: 0,
      restarts: 0,
      completedIndexes,
      counted: [],
      uncounted: [],
    },
  ],
});
const steps = (of: JobSpec, more: Partial<Snapshot>, status = NEW_STATUS, policy = POLICY) =>
  planGroup(makeSnapshot({ spec: of, status, ...more }), of, status, policy);

describe("the group of a job", () => {
  it.each<[title: string, spec: JobSpec, status: JobStatus, slots: Snapshot["replicas"], minMember: number]>([
    ["every pod", gang({ replicas: [makeReplica("worker", 2), makeReplica("ps", 1)] }), NEW_STATUS, [], 3],
    [
      "no pods of types that wait for others",
      gang({
        replicas: [
          makeReplica("worker", 2),
          makeReplica("launcher", 1, { dependsOn: [{ type: "worker", status: "Ready" }] }),
        ],
      }),
      NEW_STATUS,
      [],
      2,
    ],
    [
      "the minimum with which the gang starts",
      gang({ replicas: [makeReplica("worker", 4, { elastic: { minReplicas: 2, maxReplicas: 8 } })] }),
      NEW_STATUS,
      [],
      2,
    ],
    ["the number in the policy", gang({ minAvailable: 1 }), NEW_STATUS, [], 1],
    ["no more than the replicas", gang({ minAvailable: 9 }), NEW_STATUS, [], 2],
    [
      "finished pods that exist",
      gang(),
      completed(0),
      [makeReplicaSeen("worker", [makePodFact("worker-0"), undefined])],
      2,
    ],
    ["no finished pods that are gone", gang(), completed(0), [makeReplicaSeen("worker", [undefined, undefined])], 1],
    ["one pod at least", gang(), completed(0, 1), [makeReplicaSeen("worker", [undefined, undefined])], 1],
  ])("waits for %s", (_title, of, status, replicas, minMember) => {
    expect(steps(of, { ...nothing, replicas }, status)).toEqual([
      { kind: "sync-group", apiVersion: kind.apiVersion, group: { minMember }, because: "missing" },
    ]);
  });

  it("follows the spec, as far as its scheduler supports the fields", () => {
    const settings = { queue: "night", minResources: { cpu: "2", memory: "1Gi" }, scheduleTimeoutSeconds: 5 };
    const of = gang({ group: { scheduler: "gangs", settings } });
    const wanted = { ...settings, minMember: 2 };
    expect(steps(of, there({ minMember: 2, queue: "day", minResources: { memory: "1Gi", cpu: "2" } }))).toEqual([]);
    for (const stale of [{ minMember: 3 }, { minMember: 2, queue: "day", minResources: { cpu: "1" } }])
      expect(steps(of, there(stale))).toEqual([
        { kind: "sync-group", apiVersion: kind.apiVersion, group: wanted, because: "changed" },
      ]);
  });

  it("is the only one: a group of another kind, and an unneeded group, are deleted", () => {
    const other = there({ minMember: 2 }, "other/v1");
    const gone = { kind: "delete-group", apiVersion: "other/v1", because: "not-wanted" };
    expect(steps(gang(), other).map(({ kind: what }) => what)).toEqual(["delete-group", "sync-group"]);
    expect(steps(makeSpec(), other)).toEqual([gone]);
    expect(steps(gang(), other, NEW_STATUS, { ...POLICY, gangScheduling: false })).toEqual([gone]);
  });

  it("is not created, and pods have no mark, if the cluster serves no groups or the job requests none", () => {
    const unknown = { groups: { kind: undefined, existing: [] } };
    expect(steps(gang(), unknown)).toEqual([]);
    expect(findGroupKind(makeSnapshot({ spec: gang(), ...unknown }), POLICY)).toBeUndefined();
    expect(findGroupKind(makeSnapshot({ spec: makeSpec(), ...nothing }), POLICY)).toBeUndefined();
    expect(findGroupKind(makeSnapshot({ spec: gang(), ...nothing }), POLICY)).toBe(kind.apiVersion);
    expect(findGroupAdvice(makeSnapshot({ spec: gang(), ...unknown }), POLICY)).toMatch(
      /scheduler gangs .* no PodGroup/,
    );
    expect(findGroupAdvice(makeSnapshot({ spec: gang(), ...nothing }), POLICY)).toBeUndefined();
    expect(findGroupAdvice(makeSnapshot({ spec: makeSpec(), ...unknown }), POLICY)).toBeUndefined();
  });
});

describe("the group in the life of a job", () => {
  const doing = (more: Partial<Snapshot>) =>
    planJob(makeSnapshot({ spec: gang(), budget: 2, ...more }), POLICY).steps.map((step) => step.kind);
  const succeeded = {
    ...NEW_STATUS,
    conditions: [
      { type: "Succeeded", status: "True", reason: "", message: "", lastUpdateMs: 0, lastTransitionMs: 0 } as const,
    ],
  };

  it("is created after the grant and before the pods", () => {
    expect(doing({ ...nothing, units: [{ id: "x", state: "none" }] })).toEqual(["reserve"]);
    expect(doing({ ...nothing, units: [makeGrantedUnit("worker-0", "worker-1")] })).toEqual([
      "sync-group",
      "create-pods",
    ]);
  });

  it("is deleted with the pods when the job is suspended or over, and otherwise stays", () => {
    const group = there({ minMember: 2 });
    expect(doing({ ...group, spec: gang({ suspend: true }) })).toContain("delete-group");
    expect(doing({ ...group, status: succeeded })).toContain("delete-group");
    expect(doing({ ...group, status: succeeded, spec: gang({ cleanPodPolicy: "All" }) })).toContain("delete-group");
    expect(doing({ ...group, status: succeeded, spec: gang({ cleanPodPolicy: "None" }) })).not.toContain(
      "delete-group",
    );
    const running = { replicas: [makeReplicaSeen("worker", [makePodFact("worker-0"), makePodFact("worker-1")])] };
    expect(doing({ ...group, ...running })).toEqual([]);
  });
});
