import { findCrowded, type CrowdedComponent, type PlaceLoad } from "@muster/resources";
import { describe, expect, it } from "vitest";
import { GANG, printStep, planSteps, makeStatus, makeDoneWorkers } from "../../test/planned-job.ts";
import {
  makeGrantedUnit,
  NOW_MS,
  makePodFact,
  POLICY,
  makeReplica,
  makeReplicaSeen,
  makeSnapshot,
  makeSpec,
} from "../../test/samples.ts";
import { listPlaces } from "./member-places.ts";
import { findCondition } from "./job-status.ts";
import { planJob } from "./plan-job.ts";
import type { Snapshot } from "./snapshot.ts";

const CONTAINER = { name: "main", image: "i", resources: { requests: { cpu: "2", memory: "1Gi" } } };
const WHOLE = makeSpec({ replicas: [makeReplica("worker", 2, { template: { spec: { containers: [CONTAINER] } } })] });
const TIMES = { nowMs: NOW_MS, waitMs: POLICY.replacementWaitMs };
const NODE = "node-worker-1";

const load = (cpu: number, more: Partial<PlaceLoad> = {}): PlaceLoad => ({
  allocatable: { cpu: 4000, memory: 2 ** 33, pods: 10 },
  foreign: { pods: 3, requests: { cpu }, examples: ["shop/web", "shop/api"] },
  shared: [],
  ...more,
});
const unbound = makePodFact("worker-1", {
  ...{ phase: "Pending", ready: false, node: undefined, pinned: NODE },
  trouble: { reason: "Unschedulable", message: "0/3 nodes are available" },
});
const job = {
  spec: WHOLE,
  units: [makeGrantedUnit("worker-0", "worker-1")],
  status: makeStatus(),
  pods: [makePodFact("worker-0"), unbound],
};
const crowdedOf = (more: Partial<typeof job>, one: PlaceLoad | undefined) =>
  findCrowded(listPlaces({ ...job, ...more }), (node) => (node === NODE ? one : load(4000)), new Map(), TIMES).crowded;

describe("a member whose machine has foreign pods", () => {
  it("is crowded out, and names the short resource and the pods", () => {
    expect(crowdedOf({}, load(2500))).toEqual([
      {
        component: "worker-1",
        node: NODE,
        resources: [{ resource: "cpu", requested: 2000, free: 1500 }],
        foreign: { pods: 3, examples: ["shop/web", "shop/api"] },
        ...{ sinceMs: NOW_MS, isLost: false },
      },
    ]);
  });

  it.each<[string, Partial<typeof job>, PlaceLoad | undefined]>([
    ["its pod fits beside them", {}, load(2000)],
    ["its pod runs there", { pods: [makePodFact("worker-0"), makePodFact("worker-1")] }, load(4000)],
    ["it has completed", { status: makeDoneWorkers(1) }, load(4000)],
    ["the size of the node is unknown", {}, undefined],
    ["they are gone", {}, load(0, { foreign: { pods: 0, requests: {}, examples: [] }, shared: [load(4000).foreign] })],
  ])("is not crowded out if %s", (_title, more, one) => {
    expect(crowdedOf(more, one)).toEqual([]);
  });

  it("counts pods of Muster in addition, and the number of pods", () => {
    const beside = load(1000, {
      allocatable: { cpu: 4000, memory: 2 ** 33, pods: 5 },
      shared: [{ pods: 2, requests: { cpu: 1500 } }],
    });
    expect(crowdedOf({}, beside)[0]?.resources).toEqual([
      { resource: "cpu", requested: 2000, free: 1500 },
      { resource: "pods", requested: 1, free: 0 },
    ]);
  });

  it("loses the machine after the wait, counted from its first observation", () => {
    const first = findCrowded(listPlaces(job), () => load(4000), new Map(), TIMES);
    const later = { ...TIMES, nowMs: NOW_MS + TIMES.waitMs };
    expect(findCrowded(listPlaces(job), () => load(4000), first.memory, later).crowded).toMatchObject([
      { sinceMs: NOW_MS, isLost: true },
    ]);
    const free = findCrowded(listPlaces(job), () => load(0), first.memory, later);
    expect(findCrowded(listPlaces(job), () => load(4000), free.memory, later).crowded).toMatchObject([
      { isLost: false },
    ]);
  });
});

describe("a job with a member that is crowded out", () => {
  const crowded = (isLost: boolean): CrowdedComponent => ({
    ...{ component: "worker-1", node: NODE, sinceMs: NOW_MS - 1000, isLost },
    resources: [{ resource: "cpu", requested: 2000, free: 1500 }],
    foreign: { pods: 3, examples: ["shop/web", "shop/api"] },
  });
  const world = (more: Partial<Snapshot>) => ({
    spec: WHOLE,
    budget: 2,
    replicas: [makeReplicaSeen("worker", [makePodFact("worker-0"), unbound])],
    ...more,
  });

  it("names the node, the short resource and the pods, and waits", () => {
    const early = planJob(makeSnapshot(world({})), POLICY).status;
    expect(findCondition(early, "PodsWaiting")?.message).toContain("0/3 nodes");
    const {
      status: after,
      steps,
      recheckInMs,
    } = planJob(makeSnapshot(world({ status: early, crowded: [crowded(false)] })), POLICY);
    expect(findCondition(after, "PodsWaiting")).toMatchObject({
      reason: "ForeignPods",
      message:
        "pod train-worker-1: Unschedulable: node node-worker-1 has no room for it: short of cpu (2 requested, 1500m free); " +
        "foreign pods there: shop/web, shop/api and 1 more",
    });
    expect(steps).toEqual([]);
    expect(recheckInMs).toBe(Math.min(POLICY.replacementWaitMs - 1000, POLICY.maxRecheckMs));
  });

  it("requests a replacement for it after the wait, and deletes its pod uncounted", () => {
    const { status: after, steps } = planJob(makeSnapshot(world({ crowded: [crowded(true)] })), POLICY);
    expect(steps.map(printStep)).toEqual(["reserve worker-1: machine-lost", "delete train-worker-1: machine-lost"]);
    expect(after).toMatchObject({ replaced: ["worker-1"], attempt: 0, replicas: [{ restarts: 0, failed: 0 }] });
    const replaced = { id: `${GANG}--worker-1`, state: "granted", nodes: new Map([["worker-1", "m"]]) } as const;
    const units = [makeGrantedUnit("worker-0", "worker-1"), replaced];
    const next = world({
      status: after,
      units,
      replicas: [makeReplicaSeen("worker", [makePodFact("worker-0"), undefined])],
    });
    expect(planSteps({ ...next, crowded: [crowded(true)] })).toEqual([expect.stringMatching(/^create worker-1 on m/)]);
  });
});
