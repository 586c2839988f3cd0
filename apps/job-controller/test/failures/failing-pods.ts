import type { V1Pod, V1PodDisruptionBudget } from "@kubernetes/client-node";
import { toKubeFault } from "@muster/kube";
import { expect, it } from "vitest";
import { until } from "@muster/testkit";
import { BUDGETS, collectGarbage, PODS, unlessGone, type FailureWorld } from "./failure-world.ts";
import { findReason, buildReplicaType, makeSimulatedJob, listTrueConditions } from "./simulated-job.ts";

/** The outcomes of pods that end in unexpected ways. */
export function describeFailingPods(world: () => FailureWorld): void {
  it("recreates a pod that a client deleted under its index, and counts nothing", async () => {
    const { create, calls, untilRunning, untilPasses, get, removeWhole } = world();
    const job = await create(makeSimulatedJob("by-hand", { worker: buildReplicaType([], { replicas: 2 }) }));
    const before = await untilRunning("by-hand-worker-0");
    await untilRunning("by-hand-worker-1");
    await calls.delete(PODS, "by-hand-worker-0");
    const after = await untilRunning("by-hand-worker-0", before.metadata?.uid);
    expect(after.spec?.nodeName).toBe(before.spec?.nodeName);
    await untilPasses(2);
    expect((await get("by-hand"))?.status).toMatchObject({ restarts: 0 });
    expect(await world().pods("by-hand")).toHaveLength(2);
    await removeWhole("by-hand");
    await world().untilReturned(job);
  });

  it("records how pods ended that a client deletes immediately after their end", async () => {
    const { create, untilRunning, untilCondition, untilPasses, get, removeWhole } = world();
    const name = "seized";
    const job = await create(
      makeSimulatedJob(name, { worker: buildReplicaType([], { replicas: 6, restartPolicy: "OnFailure" }) }),
    );
    const names = Array.from({ length: 6 }, (_, index) => `${name}-worker-${index}`);
    await Promise.all(names.map((pod) => untilRunning(pod)));
    const [first = "", ...others] = names;
    const failed = await untilRunning(first);
    await endAndDelete(world(), first, 1);
    await untilRunning(first, failed.metadata?.uid);
    expect((await get(name))?.status).toMatchObject({ restarts: 1, completions: "0/6" });
    await Promise.all(others.map((pod) => endAndDelete(world(), pod, 0)));
    await until("five of six pods have succeeded", async () => (await get(name))?.status?.completions === "5/6");
    await untilPasses(2);
    expect((await world().pods(name)).map(({ metadata }) => metadata?.name)).toEqual([first]);
    await endAndDelete(world(), first, 0);
    expect((await untilCondition(name, "Succeeded")).status).toMatchObject({ restarts: 1, completions: "6/6" });
    await world().untilReturned(job);
    await removeWhole(name);
  });

  it("recreates an evicted pod that its budget does not protect under its index, and counts nothing", async () => {
    const { create, calls, untilRunning, untilPod, get, removeWhole } = world();
    const name = "let-go";
    const more = { runPolicy: { schedulingPolicy: { minAvailable: 1 } } };
    await create(makeSimulatedJob(name, { worker: buildReplicaType([], { replicas: 2 }) }, more));
    const before = await untilRunning(`${name}-worker-1`);
    await untilPod(`${name}-worker-0`, isReady);
    await untilPod(`${name}-worker-1`, isReady);
    const budget = await until("the job has its budget", () =>
      calls.get<V1PodDisruptionBudget>(BUDGETS, name).catch(unlessGone),
    );
    expect(budget).toMatchObject({ spec: { minAvailable: 1 } });
    await until("the eviction is accepted", async () => {
      // A server without controllers does not compute what a budget allows.
      const status = {
        disruptionsAllowed: 1,
        observedGeneration: 100,
        currentHealthy: 2,
        desiredHealthy: 1,
        expectedPods: 2,
      };
      await calls.patch(BUDGETS, name, { kind: "merge", body: { status } }, { subresource: "status" });
      return evict(world(), `${name}-worker-1`);
    });
    await untilRunning(`${name}-worker-1`, before.metadata?.uid);
    expect((await get(name))?.status).toMatchObject({ restarts: 0 });
    await removeWhole(name);
  });

  it("allows evictions of pods that a finished job has left, and recreates none of them", async () => {
    const { create, finish, untilRunning, untilCondition, untilPasses, untilReturned, pod } = world();
    const name = "left-behind";
    const specs = { quick: buildReplicaType([]), slow: buildReplicaType([]) };
    const rest = { successPolicy: { rules: [{ allOf: [{ type: "quick" }] }] }, runPolicy: { cleanPodPolicy: "None" } };
    const job = await create(makeSimulatedJob(name, specs, rest));
    await untilRunning(`${name}-slow-0`);
    await untilRunning(`${name}-quick-0`);
    finish([`${name}-quick-0`]);
    await untilCondition(name, "Succeeded");
    await until("the eviction is accepted", () => evict(world(), `${name}-slow-0`));
    await until("the pod is gone", async () => (await pod(`${name}-slow-0`)) === undefined);
    await untilReturned(job);
    await untilPasses(2);
    expect(await pod(`${name}-slow-0`)).toBeUndefined();
    expect(listTrueConditions((await world().get(name)) ?? job)).toContain("Succeeded");
    await collectGarbage(world(), job);
  });

  it("counts no eviction during or after the suspension of its job, and reruns no completed index afterwards", async () => {
    const { create, patch, finish, untilPod, untilRunning, untilPasses, untilReturned, pod, removeWhole } = world();
    const name = "paused-away";
    const specs = { quick: buildReplicaType(["--run-ms=50"]), slow: goingSlowly() };
    const job = await create(makeSimulatedJob(name, specs, { runPolicy: { backoffLimit: 0 } }));
    const slow = await untilRunning(`${name}-slow-0`);
    const completions = async (): Promise<unknown> => (await world().get(name))?.status?.completions;
    await until("an index is completed", async () => (await completions()) === "1/2");
    await patch(name, { spec: { runPolicy: { suspend: true } } });
    await untilPod(`${name}-slow-0`, ({ metadata }) => metadata?.deletionTimestamp !== undefined);
    await until("the running pod is evicted", () => evict(world(), `${name}-slow-0`));
    finish([`${name}-slow-0`], 143);
    await untilReturned(job);
    await until("the finished pod is evicted", () => evict(world(), `${name}-quick-0`));
    await until("the pod is gone", async () => (await pod(`${name}-quick-0`)) === undefined);
    await patch(name, { spec: { runPolicy: { suspend: false } } });
    await untilRunning(`${name}-slow-0`, slow.metadata?.uid);
    await untilPasses(2);
    expect(await pod(`${name}-quick-0`)).toBeUndefined();
    expect((await world().get(name))?.status).toMatchObject({ completions: "1/2", restarts: 0 });
    await removeWhole(name);
    await untilPod(`${name}-slow-0`, ({ metadata }) => metadata?.deletionTimestamp !== undefined);
    finish([`${name}-slow-0`], 143);
    await untilReturned(job);
  });

  it("protects the gang with a budget against evictions, and replaces a pod that was deleted by force", async () => {
    const { create, calls, untilRunning, get, removeWhole } = world();
    await create(makeSimulatedJob("evicted", { worker: buildReplicaType([], { replicas: 2 }) }));
    const before = await untilRunning("evicted-worker-1");
    await untilRunning("evicted-worker-0");
    const refused = await until("the budget refuses", async () => {
      const eviction = { apiVersion: "policy/v1", kind: "Eviction", metadata: { name: "evicted-worker-1" } };
      const query = { dryRun: "All" };
      const tried = calls.create(PODS, eviction, { subresource: "eviction", query });
      return tried.then(
        () => undefined,
        (error: unknown) => error,
      );
    });
    expect(refused).toMatchObject({ code: 429 });
    await calls.delete(PODS, "evicted-worker-1", { gracePeriodSeconds: 0 });
    await untilRunning("evicted-worker-1", before.metadata?.uid);
    expect((await get("evicted"))?.status).toMatchObject({ restarts: 0 });
    await removeWhole("evicted");
  });

  it.each([
    ["Never", ["--run-ms=50", "--exit=143"], {}, "PodFailed", 0],
    ["ExitCode", ["--run-ms=50", "--exit=1"], {}, "PermanentExitCode", 0],
    ["ExitCode", ["--run-ms=50", "--exit=137"], { runPolicy: { backoffLimit: 2 } }, "BackoffLimitExceeded", 3],
    [
      "ExitCode",
      ["--run-ms=50", "--exit=7"],
      { runPolicy: { backoffLimit: 1 }, exitCodes: { retryable: [7] } },
      "BackoffLimitExceeded",
      2,
    ],
    ["ExitCode", ["--run-ms=50", "--exit=139"], { exitCodes: { permanent: [139] } }, "PermanentExitCode", 0],
    ["OnFailure", ["--run-ms=50", "--exit=1"], { runPolicy: { backoffLimit: 1 } }, "BackoffLimitExceeded", 2],
  ])("ends by its restart policy %s after %s with %j as %s", async (restartPolicy, flags, more, reason, restarts) => {
    const name = `ends-${restartPolicy}-${flags[1]?.replace("--exit=", "") ?? ""}`.toLowerCase();
    const { create, untilCondition, untilReturned } = world();
    const job = await create(makeSimulatedJob(name, { worker: buildReplicaType(flags, { restartPolicy }) }, more));
    const failed = await untilCondition(name, "Failed");
    expect(findReason(failed, "Failed")).toBe(reason);
    expect(failed.status).toMatchObject({ restarts });
    await untilReturned(job);
  });

  it("counts restarts by the kubelet across recreated pods", async () => {
    const { create, calls, get, untilCondition } = world();
    const flags = ["--run-ms=100", "--exit=1"];
    const worker = buildReplicaType(flags, { restartPolicy: "OnFailure" });
    await create(makeSimulatedJob("worn-out", { worker }, { runPolicy: { backoffLimit: 2 } }));
    const removed = new Set<string | undefined>();
    // The kubelet may be faster than the test: each pod is deleted once its restart is counted, or with the job that it has ended.
    for (const total of [1, 2]) {
      const pod = await until("a pod has restarted, or the job has failed", async () => {
        const job = await get("worn-out");
        if (job !== undefined && findReason(job, "Failed") !== undefined) return "failed";
        const there = await world().pod("worn-out-worker-0");
        const isRestarted = (there?.status?.containerStatuses?.[0]?.restartCount ?? 0) >= 1;
        return isRestarted && !removed.has(there?.metadata?.uid) && there;
      });
      if (pod === "failed") break;
      await until("the restart is counted", async () => ((await get("worn-out"))?.status?.restarts ?? 0) >= total);
      removed.add(pod.metadata?.uid);
      await calls.delete(PODS, "worn-out-worker-0", { gracePeriodSeconds: 0 }).catch(unlessGone);
    }
    expect(removed.size).toBeGreaterThan(0);
    const failed = await untilCondition("worn-out", "Failed");
    expect(findReason(failed, "Failed")).toBe("BackoffLimitExceeded");
    // One pod fails twice before the kubelet delays it, and one pass may observe both failures: 3 or 4 restarts need two pods.
    expect([3, 4]).toContain(failed.status?.restarts);
  });

  it("remembers uncounted restarts, and ends a job that does nothing else", async () => {
    const { create, patch, get, untilCondition, untilReturned } = world();
    const name = "ignored";
    const worker = buildReplicaType(["--run-ms=50", "--exit=42"]);
    const failurePolicy = { rules: [{ action: "Ignore", onExitCodes: { values: [42] } }] };
    const job = await create(makeSimulatedJob(name, { worker }, { failurePolicy, runPolicy: { backoffLimit: 0 } }));
    const row = await until(
      "two of them are remembered",
      async () => {
        const [first] = (await get(name))?.status?.replicaStatuses?.["worker"]?.uncounted ?? [];
        return first !== undefined && first.times >= 2 && first;
      },
      { timeoutMs: 90_000 },
    );
    expect(row).toMatchObject({ index: 0, because: "failure-policy" });
    expect((await get(name))?.status).toMatchObject({ restarts: 0 });
    // The time is so early that the pause after it is over, if no pod exists at the moment.
    const many = { ...row, pod: "an-earlier-one", times: 20, at: "2020-01-01T00:00:00Z" };
    await patch(name, { status: { replicaStatuses: { worker: { uncounted: [many] } } } }, "status");
    const failed = await untilCondition(name, "Failed");
    expect(findReason(failed, "Failed")).toBe("UncountedRestartsExceeded");
    expect(failed.status?.message).toMatch(/^worker-0 ended 21 times/);
    expect(failed.status).toMatchObject({ restarts: 0 });
    await untilReturned(job);
  });

  it("never reruns a completed index, though its pod is deleted", async () => {
    const { create, calls, finish, untilPod, untilCondition, untilPasses, untilRunning, pod } = world();
    const specs = { quick: buildReplicaType(["--run-ms=50"]), slow: buildReplicaType([]) };
    await create(makeSimulatedJob("once-only", specs));
    await untilPod("once-only-quick-0", ({ status }) => status?.phase === "Succeeded");
    await until(
      "the index is known to be complete",
      async () => (await world().get("once-only"))?.status?.replicaStatuses?.["quick"]?.completedIndexes === "0",
    );
    await calls.delete(PODS, "once-only-quick-0").catch(unlessGone);
    await until("its pod is gone", async () => (await pod("once-only-quick-0")) === undefined);
    await untilPasses(2);
    expect(await pod("once-only-quick-0")).toBeUndefined();
    await untilRunning("once-only-slow-0");
    finish(["once-only-slow-0"]);
    await untilCondition("once-only", "Succeeded");
    expect(await pod("once-only-quick-0")).toBeUndefined();
  });

  it("gives a pod with a lost machine another machine, keeps its index and counts nothing", async () => {
    const { create, untilRunning, nodes, get, removeWhole, untilReturned } = world();
    const worker = buildReplicaType([], { replicas: 2, pool: "lossy", restartPolicy: "OnFailure" });
    const job = await create(makeSimulatedJob("bereft", { worker }, { runPolicy: { backoffLimit: 0 } }));
    const before = await untilRunning("bereft-worker-0");
    await untilRunning("bereft-worker-1");
    await nodes.delete(before.spec?.nodeName ?? "");
    const after = await untilRunning("bereft-worker-0", before.metadata?.uid);
    expect(after.spec?.nodeName).not.toBe(before.spec?.nodeName);
    expect((await get("bereft"))?.status).toMatchObject({ restarts: 0, replaced: ["worker-0"] });
    await removeWhole("bereft");
    await untilReturned(job);
  });

  it("removes a pod by force from a machine that is silent for too long", async () => {
    const { create, untilRunning, nodes, get, removeWhole, untilReturned } = world();
    const worker = buildReplicaType([], { replicas: 2, pool: "silent" });
    const job = await create(makeSimulatedJob("unheard", { worker }));
    const before = await untilRunning("unheard-worker-1");
    await untilRunning("unheard-worker-0");
    await nodes.kill(before.spec?.nodeName ?? "");
    const after = await untilRunning("unheard-worker-1", before.metadata?.uid);
    expect(after.spec?.nodeName).not.toBe(before.spec?.nodeName);
    expect((await get("unheard"))?.status).toMatchObject({ restarts: 0, replaced: ["worker-1"] });
    await removeWhole("unheard");
    await untilReturned(job);
  });
}

/** The pods ignore SIGTERM and end only at a command of the test; their grace period is longer than the test. */
function goingSlowly(): ReturnType<typeof buildReplicaType> {
  const containers = [{ name: "main", image: "none", command: ["simulate", "--ignore-term"] }];
  const spec = { containers, terminationGracePeriodSeconds: 600 };
  return { replicas: 1, pool: "plenty", template: { spec } };
}

function isReady({ status }: V1Pod): boolean {
  return status?.conditions?.some(({ type, status: is }) => type === "Ready" && is === "True") === true;
}

/** Returns whether the API server has accepted the eviction: a budget refuses with 429. */
function evict({ calls }: FailureWorld, name: string): Promise<boolean> {
  const eviction = { apiVersion: "policy/v1", kind: "Eviction", metadata: { name, namespace: "default" } };
  return calls.create(PODS, eviction, { subresource: "eviction" }).then(
    () => true,
    (error: unknown) => {
      if (toKubeFault(error)?.code !== "unavailable") throw error;
      return false;
    },
  );
}

/** Ends a pod with this code as its kubelet would, and deletes it immediately. */
async function endAndDelete({ calls }: FailureWorld, name: string, exitCode: number): Promise<void> {
  const at = new Date().toISOString();
  const state = { terminated: { exitCode, startedAt: at, finishedAt: at } };
  const containerStatuses = [{ name: "main", image: "none", imageID: "", ready: false, restartCount: 0, state }];
  const status = { phase: exitCode === 0 ? "Succeeded" : "Failed", containerStatuses };
  await calls.patch(PODS, name, { kind: "merge", body: { status } }, { subresource: "status" });
  await calls.delete(PODS, name, { gracePeriodSeconds: 0 });
}
