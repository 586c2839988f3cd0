import type { V1Pod } from "@kubernetes/client-node";
import { expect, it } from "vitest";
import type { KubeObject } from "@muster/kube";
import { until } from "@muster/testkit";
import { collectGarbage, PODS, type FailureWorld } from "./failure-world.ts";
import { findReason, buildReplicaType, makeSimulatedJob, listTrueConditions } from "./simulated-job.ts";

/** A pod with this gate becomes ready only at a command of the test, however slow the machine is. */
const READINESS_GATE = "muster.dev/test-gate";

/** The operations of users on jobs, and how jobs report their end. */
export function describeLivesOfJobs(world: () => FailureWorld): void {
  it("leaves nothing of a job that is deleted while its pods are created", async () => {
    const { create, pods, removeWhole, untilReturned, collectAgain } = withCollector(world());
    const job = await create(makeSimulatedJob("cut-short", { worker: buildReplicaType([], { replicas: 12 }) }));
    await until("the first pod is created", async () => (await pods("cut-short")).length > 0);
    await removeWhole("cut-short");
    await until("no pod is left", async () => {
      await collectAgain(job);
      return (await pods("cut-short")).length === 0;
    });
    await untilReturned(job);
  });

  it("runs a job that was recreated under its name immediately, without objects of the earlier one", async () => {
    const { create, untilRunning, untilCondition, untilReturned, removeWhole } = world();
    const first = await create(
      makeSimulatedJob("reborn", { worker: buildReplicaType(["--term-ms=1500"], { replicas: 2 }) }),
    );
    const before = await untilRunning("reborn-worker-0");
    await untilRunning("reborn-worker-1");
    const deleted = removeWhole("reborn");
    await until(
      "the first one is gone",
      async () => (await world().get("reborn"))?.metadata.uid !== first.metadata.uid,
    );
    const second = await create(
      makeSimulatedJob("reborn", { worker: buildReplicaType(["--run-ms=300"], { replicas: 2 }) }),
    );
    await deleted;
    const done = await untilCondition("reborn", "Succeeded");
    expect(done.metadata.uid).toBe(second.metadata.uid);
    expect(done.status).toMatchObject({ completions: "2/2", restarts: 0 });
    expect((await world().pod("reborn-worker-0"))?.metadata?.uid).not.toBe(before.metadata?.uid);
    await untilReturned(first);
    await untilReturned(second);
  });

  it("releases everything while it is suspended, and runs when it is resumed", async () => {
    const { create, pods, untilRunning, untilCondition, untilReturned, removeWhole } = world();
    const job = await create(makeSimulatedJob("paused", { worker: buildReplicaType([], { replicas: 2 }) }));
    const before = await untilRunning("paused-worker-0");
    const key = { kind: "Job", name: "paused" };
    await world().jobs.suspendJob({ requestId: "suspend", key, suspended: true });
    const paused = await untilCondition("paused", "Suspended");
    expect(listTrueConditions(paused)).not.toContain("Running");
    await untilReturned(job);
    expect(await pods("paused")).toEqual([]);
    await world().jobs.suspendJob({ requestId: "resume", key, suspended: false });
    await untilRunning("paused-worker-0", before.metadata?.uid);
    const resumed = await untilCondition("paused", "Running");
    expect(resumed.status).toMatchObject({ restarts: 0, completions: "0/2" });
    expect(findReason(resumed, "Suspended")).toBe("JobResumed");
    await removeWhole("paused");
    await untilReturned(job);
  });

  it("ignores a job that another controller runs", async () => {
    const { create, get, pods, heldBy, untilPasses } = world();
    const more = { runPolicy: { managedBy: "example.com/other" } };
    const job = await create(makeSimulatedJob("not-ours", { worker: buildReplicaType([]) }, more));
    await untilPasses(2);
    expect((await get("not-ours"))?.status).toBeUndefined();
    expect(await pods("not-ours")).toEqual([]);
    expect(await heldBy(job)).toBe(0);
  });

  it("follows the replicas of an elastic type up and down", async () => {
    const { create, patch, pods, pod, untilRunning, heldBy, removeWhole, untilReturned } = world();
    const elastic = { minReplicas: 1, maxReplicas: 4 };
    const job = await create(makeSimulatedJob("breath", { worker: buildReplicaType([], { replicas: 2, elastic }) }));
    const first = await untilRunning("breath-worker-0");
    await untilRunning("breath-worker-1");
    await patch("breath", { spec: { replicaSpecs: { worker: { replicas: 4 } } } });
    await untilRunning("breath-worker-3");
    await patch("breath", { spec: { replicaSpecs: { worker: { replicas: 1 } } } });
    await until("one pod is left", async () => (await pods("breath")).length === 1);
    await until("its machines are released", async () => (await heldBy(job)) === 1);
    expect((await pod("breath-worker-0"))?.metadata?.uid).toBe(first.metadata?.uid);
    await removeWhole("breath");
    await untilReturned(job);
  });

  it("ends at its deadline", async () => {
    const { create, untilCondition, pods, untilReturned } = world();
    const runPolicy = { activeDeadlineSeconds: 2, cleanPodPolicy: "All" };
    const job = await create(makeSimulatedJob("late", { worker: buildReplicaType([]) }, { runPolicy }));
    const failed = await untilCondition("late", "Failed");
    expect(findReason(failed, "Failed")).toBe("DeadlineExceeded");
    await until("its pod is gone", async () => (await pods("late")).length === 0);
    await untilReturned(job);
  });

  it("is deleted after its time to live, and not earlier because of a fast clock", async () => {
    const { create, get, patch, untilCondition, untilPasses } = world();
    const job = makeSimulatedJob("mayfly", { worker: buildReplicaType(["--run-ms=50"]) });
    await create(job);
    const done = await untilCondition("mayfly", "Succeeded");
    const ahead = new Date(Date.now() + 3_600_000).toISOString().replace(/\.\d{3}Z$/, "Z");
    await patch("mayfly", { status: { completionTime: ahead } }, "status");
    await patch("mayfly", { spec: { runPolicy: { ttlSecondsAfterFinished: 1 } } });
    await untilPasses(3);
    expect((await get("mayfly"))?.status?.completionTime).toBe(ahead);
    await patch("mayfly", { status: { completionTime: done.status?.completionTime } }, "status");
    await until("it is deleted", async () => (await get("mayfly")) === undefined);
    await collectGarbage(world(), done);
  });

  it.each([
    ["None", ["quick-0", "slow-0"], true],
    ["Running", ["quick-0"], false],
    ["All", [], false],
  ])("keeps by cleanPodPolicy %s of its pods %j", async (cleanPodPolicy, left, service) => {
    const name = `leaves-${cleanPodPolicy.toLowerCase()}`;
    const { create, calls, finish, pods, untilCondition, untilPasses, untilRunning } = world();
    const specs = { quick: buildReplicaType([]), slow: buildReplicaType([]) };
    const successPolicy = { rules: [{ allOf: [{ type: "quick" }] }] };
    await create(makeSimulatedJob(name, specs, { successPolicy, runPolicy: { cleanPodPolicy } }));
    await untilRunning(`${name}-slow-0`);
    await untilRunning(`${name}-quick-0`);
    const services = { apiVersion: "v1", plural: "services", namespace: "default" };
    await until("its service exists", async () => hasName(await calls.list(services), name));
    finish([`${name}-quick-0`]);
    const done = await untilCondition(name, "Succeeded");
    const names = async (): Promise<string[]> =>
      (await pods(name)).map(({ metadata }) => metadata?.name?.replace(`${name}-`, "") ?? "").sort();
    await until("the other pods are gone", async () => (await names()).join() === left.join());
    await untilPasses(2);
    expect(await names()).toEqual(left);
    expect(hasName(await calls.list(services), name)).toBe(service);
    await collectGarbage(world(), done);
  });

  it("starts a type only when its dependency is ready", async () => {
    const { create, calls, untilCondition, untilPod, pod, untilPasses } = world();
    const readinessGates = [{ conditionType: READINESS_GATE }];
    const containers = [{ name: "main", image: "none", command: ["simulate"] }];
    const specs = {
      server: { replicas: 1, pool: "plenty", template: { spec: { containers, readinessGates } } },
      client: buildReplicaType(["--run-ms=50"], { dependsOn: [{ type: "server", status: "Ready" }] }),
    };
    const successPolicy = { rules: [{ allOf: [{ type: "client" }] }] };
    await create(makeSimulatedJob("in-order", specs, { successPolicy }));
    const server = await untilPod("in-order-server-0", (each) => conditionOf(each, "ContainersReady") === "True");
    await untilPasses(2);
    expect(await pod("in-order-client-0")).toBeUndefined();
    const conditions = [...(server.status?.conditions ?? []), { type: READINESS_GATE, status: "True" }];
    const opened = { kind: "merge", body: { status: { conditions } } } as const;
    await calls.patch(PODS, "in-order-server-0", opened, { subresource: "status" });
    await untilCondition("in-order", "Succeeded");
  });

  it.each([
    ["one of a type", "any", [{ type: "worker", complete: "Any" }]],
    ["certain indexes", "indexes", [{ type: "other", indexes: [0] }]],
  ])("succeeds as soon as its success policy is met: %s", async (_title, name, allOf) => {
    const { create, untilCondition, untilReturned } = world();
    const specs = {
      worker: buildReplicaType(["--run-ms=600"], { replicas: 2 }),
      other: buildReplicaType(["--run-ms=600"]),
      idle: buildReplicaType([]),
    };
    const job = await create(makeSimulatedJob(`by-${name}`, specs, { successPolicy: { rules: [{ allOf }] } }));
    await untilCondition(`by-${name}`, "Succeeded");
    await untilReturned(job);
  });

  it.each([
    ["FailJob", { onExitCodes: { values: [42] } }, "FailurePolicy"],
    ["RestartJob", { onExitCodes: { operator: "NotIn", values: [1] } }, "BackoffLimitExceeded"],
  ])("follows a failure rule with the action %s", async (action, on, reason) => {
    const name = `rule-${action.toLowerCase()}`;
    const { create, untilCondition, untilReturned } = world();
    const specs = {
      worker: buildReplicaType(["--run-ms=50", "--exit=42"], { restartPolicy: "OnFailure" }),
      idle: buildReplicaType([]),
    };
    const never = { ...specs, worker: { ...specs.worker, restartPolicy: "ExitCode" } };
    const more = { failurePolicy: { rules: [{ action, ...on }] }, runPolicy: { backoffLimit: 1 } };
    const job = await create(makeSimulatedJob(name, never, more));
    const failed = await untilCondition(name, "Failed");
    expect(findReason(failed, "Failed")).toBe(reason);
    if (action === "RestartJob") expect(failed.status).toMatchObject({ attempt: 1, restarts: 1 });
    await untilReturned(job);
  });

  it("counts nothing for a pod whose condition a rule ignores", async () => {
    const { create, calls, finish, untilRunning, get, removeWhole } = world();
    const more = {
      failurePolicy: { rules: [{ action: "Ignore", onPodCondition: { type: "DiskTrouble" } }] },
      runPolicy: { backoffLimit: 0 },
    };
    await create(makeSimulatedJob("forgiven", { worker: buildReplicaType([]) }, more));
    const before = await untilRunning("forgiven-worker-0");
    const conditions = [...(before.status?.conditions ?? []), { type: "DiskTrouble", status: "True" }];
    await calls.patch(
      PODS,
      "forgiven-worker-0",
      { kind: "merge", body: { status: { conditions } } },
      { subresource: "status" },
    );
    finish(["forgiven-worker-0"], 9);
    await untilRunning("forgiven-worker-0", before.metadata?.uid);
    expect((await get("forgiven"))?.status).toMatchObject({ restarts: 0 });
    await removeWhole("forgiven");
  });

  it("reports once why a Kubeflow job is invalid", async () => {
    const { create, untilCondition, eventsOf } = world();
    const template = { spec: { containers: [{ name: "jax", image: "none", command: ["simulate"] }] } };
    const jaxReplicaSpecs = { Worker: { replicas: 1, template }, Oracle: { replicas: 1, template } };
    await create({
      apiVersion: "kubeflow.org/v1",
      kind: "JAXJob",
      metadata: { name: "odd" },
      spec: { jaxReplicaSpecs },
    });
    const failed = await untilCondition("odd", "Failed", "jaxjobs");
    expect(findReason(failed, "Failed")).toBe("InvalidSpec");
    expect(failed.status?.conditions?.at(-1)?.message).toContain("Oracle");
    expect(await eventsOf("odd")).not.toContain("SuccessfulCreatePod");
  });
}

/** Deletes later pods of a deleted job too, if the server has no garbage collector. */
function withCollector(
  world: FailureWorld,
): FailureWorld & { collectAgain: (job: Parameters<typeof collectGarbage>[1]) => Promise<void> } {
  return { ...world, collectAgain: (job) => collectGarbage(world, job) };
}

function hasName({ items }: { readonly items: readonly KubeObject[] }, name: string): boolean {
  return items.some(({ metadata }) => metadata?.name === name);
}

function conditionOf(pod: V1Pod, type: string): string | undefined {
  return pod.status?.conditions?.find((condition) => condition.type === type)?.status;
}
