import type { V1Pod, V1PodDisruptionBudget, V1Service } from "@kubernetes/client-node";
import { isDeepStrictEqual } from "node:util";
import { expect, it } from "vitest";
import type { KubeObject, KubeResource } from "@muster/kube";
import { until } from "@muster/testkit";
import { BUDGETS, NAMESPACE, PODS, SERVICES, type FailureWorld } from "./failure-world.ts";
import { buildReplicaType, makeSimulatedJob, listTrueConditions } from "./simulated-job.ts";

const INDEX = "muster.dev/replica-index";
const GROUP = "muster.dev/group-name";
const CONFIG_MAPS: KubeResource = { apiVersion: "v1", plural: "configmaps", namespace: NAMESPACE };

/** The state of a job's objects after a client edits, deletes or creates them before the job. */
export function describeEditedObjects(world: () => FailureWorld): void {
  it.each([
    ["another pod's", "other", "1"],
    ["one beyond the replicas", "beyond", "7"],
    ["no number", "text", "x"],
    ["none", "none", null],
  ])("keeps a pod as the member of its name though its index label is changed to %s", async (_title, name, index) => {
    const { create, calls, finish, untilRunning, untilPasses, untilCondition, eventsOf } = world();
    const members = [`${name}-worker-0`, `${name}-worker-1`];
    await create(makeSimulatedJob(name, { worker: buildReplicaType([], { replicas: 2 }) }));
    const before = await Promise.all(members.map((each) => untilRunning(each)));
    const body = { metadata: { labels: { [INDEX]: index } } };
    await calls.patch(PODS, `${name}-worker-0`, { kind: "merge", body });
    await untilPasses(2);
    finish(members);
    const done = await untilCondition(name, "Succeeded");
    expect(done.status).toMatchObject({ completions: "2/2" });
    const after = await world().pods(name);
    expect(after.map(({ metadata }) => metadata?.uid).sort()).toEqual(
      before.map(({ metadata }) => metadata?.uid).sort(),
    );
    expect((await eventsOf(name)).filter((reason) => reason === "SuccessfulDeletePod")).toEqual([]);
  });

  it("releases a pod whose group label was removed, waits for its name, and keeps its machine", async () => {
    const { create, calls, untilRunning, untilPod, untilCondition, untilReturned, heldBy, untilPasses, pod } = world();
    const name = "set-free";
    const job = await create(makeSimulatedJob(name, { worker: buildReplicaType([], { replicas: 2 }) }));
    const before = await untilRunning(`${name}-worker-0`);
    await untilRunning(`${name}-worker-1`);
    await calls.patch(PODS, `${name}-worker-0`, { kind: "merge", body: { metadata: { labels: { [GROUP]: null } } } });
    await untilPod(`${name}-worker-0`, ({ metadata }) => (metadata?.ownerReferences ?? []).length === 0);
    await world().jobs.cancelJob({ requestId: name, key: { kind: "Job", name } });
    await untilCondition(name, "Failed");
    await until("the other pod is gone", async () => (await pod(`${name}-worker-1`)) === undefined);
    await untilPasses(2);
    expect((await pod(`${name}-worker-0`))?.metadata?.uid).toBe(before.metadata?.uid);
    expect(await heldBy(job)).toBe(1);
    await calls.delete(PODS, `${name}-worker-0`);
    await untilReturned(job);
  });

  it("adopts an orphan with its labels, and keeps only one of two pods of an index", async () => {
    const { create, calls, untilRunning, pods, removeWhole } = world();
    const name = "twins";
    await create(makeSimulatedJob(name, { worker: buildReplicaType([]) }));
    const own = await untilRunning(`${name}-worker-0`);
    const { metadata: { labels = {}, creationTimestamp = "" } = {}, spec } = own;
    // The oldest pod stays; the API server keeps whole seconds.
    await until("the other pod is younger", () => Date.now() >= new Date(creationTimestamp).getTime() + 2000);
    const twin: V1Pod = {
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name: `${name}-by-hand`, labels },
      spec: {
        containers: [{ name: "main", image: "none", command: ["simulate"] }],
        nodeSelector: { ...spec?.nodeSelector },
      },
    };
    await calls.create(PODS, twin);
    await until("one pod is left", async () => {
      const gone = (await world().pod(`${name}-by-hand`)) === undefined;
      return gone && (await pods(name)).length === 1;
    });
    expect((await pods(name))[0]?.metadata?.uid).toBe(own.metadata?.uid);
    await removeWhole(name);
  });

  it("ignores foreign pods with its names or labels, and continues once the name is free", async () => {
    const { create, calls, finish, untilRunning, pod, eventsOf, untilCondition } = world();
    const name = "crowded";
    const [byName, byLabel] = [`${name}-worker-0`, `${name}-foreign`];
    // The garbage collector would delete pods of an owner that does not exist.
    const other = await calls.create<KubeObject>(CONFIG_MAPS, { metadata: { name } });
    const owner = { apiVersion: "v1", kind: "ConfigMap", name, uid: other.metadata?.uid ?? "", controller: true };
    const foreign = (of: string, labels: Record<string, string>): V1Pod => ({
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name: of, labels, ownerReferences: [owner] },
      spec: { containers: [{ name: "main", image: "none", command: ["simulate"] }], schedulerName: "none" },
    });
    const labels = {
      [GROUP]: "muster.dev",
      "muster.dev/job-name": name,
      "muster.dev/replica-type": "worker",
      [INDEX]: "0",
    };
    await calls.create(PODS, foreign(byName, {}));
    await calls.create(PODS, foreign(byLabel, labels));
    await create(makeSimulatedJob(name, { worker: buildReplicaType([], { replicas: 2 }) }));
    await until("the event names the obstacle", async () => (await eventsOf(name)).includes("FailedCreatePod"));
    await untilCondition(name, "MachinesReserved");
    await calls.delete(PODS, byName, { gracePeriodSeconds: 0 });
    const members = [byName, `${name}-worker-1`];
    for (const member of members) await untilRunning(member);
    finish(members);
    await untilCondition(name, "Succeeded");
    expect((await pod(byLabel))?.metadata?.ownerReferences).toHaveLength(1);
    await calls.delete(PODS, byLabel, { gracePeriodSeconds: 0 });
    await calls.delete(CONFIG_MAPS, name);
  });

  it("recreates a deleted service and a deleted budget, and restores an edited budget", async () => {
    const { create, calls, untilRunning, removeWhole } = world();
    const name = "robbed";
    await create(makeSimulatedJob(name, { worker: buildReplicaType([], { replicas: 2 }) }));
    await untilRunning(`${name}-worker-0`);
    const service = (): Promise<V1Service> => calls.get<V1Service>(SERVICES, name);
    const budget = (): Promise<V1PodDisruptionBudget> => calls.get<V1PodDisruptionBudget>(BUDGETS, name);
    const serviceUid = (await until("the service exists", service)).metadata?.uid;
    const budgetUid = (await until("the budget exists", budget)).metadata?.uid;
    await calls.delete(SERVICES, name);
    await calls.delete(BUDGETS, name);
    await until("the service is recreated", async () => (await service()).metadata?.uid !== serviceUid);
    await until("the budget is recreated", async () => (await budget()).metadata?.uid !== budgetUid);
    await calls.patch(BUDGETS, name, { kind: "merge", body: { spec: { minAvailable: null, maxUnavailable: 1 } } });
    await until("the budget is restored", async () => (await budget()).spec?.minAvailable === 2);
    expect((await budget()).spec?.maxUnavailable).toBeUndefined();
    const selector = (await budget()).spec?.selector;
    await calls.patch(BUDGETS, name, {
      kind: "merge",
      body: { spec: { selector: { matchLabels: { app: "other" } } } },
    });
    await until("the selector is restored", async () => isDeepStrictEqual((await budget()).spec?.selector, selector));
    await removeWhole(name);
  });

  it("runs without a budget if another client has one of its name, and reports it", async () => {
    const { create, calls, finish, untilCondition, untilRunning, eventsOf } = world();
    const name = "unguarded";
    const foreign = {
      apiVersion: "policy/v1",
      kind: "PodDisruptionBudget",
      metadata: { name, namespace: NAMESPACE },
      spec: { minAvailable: 1, selector: { matchLabels: { app: "other" } } },
    };
    await calls.create(BUDGETS, foreign);
    await create(makeSimulatedJob(name, { worker: buildReplicaType([]) }));
    await untilCondition(name, "MachinesReserved");
    await untilRunning(`${name}-worker-0`);
    await until("an event reports it", async () => (await eventsOf(name)).includes("FailedCreatePdb"));
    finish([`${name}-worker-0`]);
    const done = await untilCondition(name, "Succeeded");
    expect(listTrueConditions(done)).toEqual(["Created", "Succeeded"]);
    const there = await calls.get<V1PodDisruptionBudget>(BUDGETS, name);
    expect(there.spec?.selector?.matchLabels).toEqual({ app: "other" });
    await calls.delete(BUDGETS, name);
  });
}
