import { execFile } from "node:child_process";
import { promisify } from "node:util";
import type { V1Deployment, V1Node, V1Pod } from "@kubernetes/client-node";
import { isRetryable } from "@muster/faults";
import { loadKube } from "@muster/kube";
import { makeNkey } from "@muster/nats-server";
import { buildProcessEnv, until } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { buildJob, buildReplicaSet, buildSession } from "./installed-work.ts";
import { type InstalledWorld, installMuster, SYSTEM, WORK } from "./installed-world.ts";
import { LEASE_IMAGE } from "./lease-cases.ts";
import { openLeaseDisks } from "./lease-disks.ts";
import { storeEnv } from "./lease-programs.ts";
import { startLeaseRun, type LeaseRun } from "./lease-run.ts";
import { expectKept, type Request, type Seen, startSteadyRequests } from "./steady-requests.ts";

const real = process.env["MUSTER_E2E_KUBECONFIG"];
/** Shell commands that stop and start the kubelet of $NODE. */
const STOP = process.env["MUSTER_E2E_STOP_NODE"];
const START = process.env["MUSTER_E2E_START_NODE"];
const PATIENCE = { timeoutMs: 180_000, everyMs: 300 };
const LONG = { timeout: 600_000 };
/** Longer than a service takes to reconnect to NATS and regain its lead. */
const SETTLED_MS = 10_000;
const NODES_STOP =
  "continues all four when the kubelets of their nodes stop" +
  (STOP === undefined || START === undefined
    ? " (skipped: MUSTER_E2E_STOP_NODE and _START_NODE name no commands)"
    : "");

type Items<Kind> = { readonly items: readonly Kind[] };

describe.skipIf(real === undefined)("Muster, installed by its chart on the real cluster", LONG, () => {
  let world: InstalledWorld;
  /** The nodes that the tests divide into pools; all are in pool `workers` before and after. */
  let workers: readonly string[] = [];
  /** The node of the leased container, that of the session's worker, and that of the store, NATS and the slice. */
  const nodes = { busy: "", steady: "", other: "" };
  let leases: LeaseRun;
  const stack = new AsyncDisposableStack();

  const podsOf = async (where: string): Promise<readonly V1Pod[]> => {
    const { items } = await world.json<Items<V1Pod>>(`get pods ${where}`);
    return items.filter(({ metadata }) => metadata?.deletionTimestamp === undefined);
  };
  const drivers = (): Promise<readonly V1Pod[]> => podsOf(`-n ${WORK} -l muster.dev/component-kind=driver`);
  /** The single running pod; undefined before it runs. */
  const running = async (where: string): Promise<V1Pod | undefined> =>
    (await podsOf(where)).find(({ status }) => status?.phase === "Running");
  const jobPod = (): Promise<V1Pod | undefined> => running(`-n ${WORK} -l muster.dev/owner-kind=job`);
  const setPod = (): Promise<V1Pod | undefined> => running(`-n ${WORK} -l pod_id=kept`);
  const leasePods = async (): Promise<readonly V1Pod[]> => [
    ...(await podsOf("-A -l muster.dev/lease")),
    // Pods of the lease's user carry no label of Muster.
    ...(await podsOf(`-n muster-lease-${leases.idOf("kubernetes")}`)),
  ];
  const runningWork = async (): Promise<readonly (string | undefined)[]> =>
    [...(await podsOf(`-n ${WORK}`)), ...(await leasePods())]
      .filter(({ status }) => status?.phase === "Running")
      .map(({ metadata }) => metadata?.uid)
      .sort();
  /** Expects that the same pods run, and that every service reports them. */
  const expectAllRun = async (before: readonly (string | undefined)[]): Promise<void> => {
    expect(before).toHaveLength(7);
    const isReady = async (): Promise<boolean> => /READY/.test(await world.muster("get replica-set kept"));
    await until("the set is ready", isReady, PATIENCE);
    expect((await sessionOf(world)).phase).toBe("RUN");
    expect(await leases.phaseOf("container")).toBe("ACTIVE");
    expect(await runningWork()).toEqual(before);
  };
  const leasePod = (): Promise<V1Pod | undefined> => running(`-A -l muster.dev/lease=${leases.idOf("container")}`);
  const pool = (node: string, name: string): Promise<string> =>
    world.kubectl(`label node ${node} pool=${name} --overwrite`);

  beforeAll(async () => {
    const kubeconfig = real ?? "";
    const disks = stack.use(await openLeaseDisks(kubeconfig));
    const leaseEnv = {
      ...disks.env,
      ...storeEnv({ image: LEASE_IMAGE, hasDisk: true }),
      // Each node of this cluster is in a pool; the disks of leases are on nodes of these pools.
      PROVISION_CONTAINER_POOLS: "busy,drivers",
      // Users of slices connect from outside the cluster.
      PROVISION_KUBERNETES_URL: loadKube(kubeconfig).getCurrentCluster()?.server ?? "",
    };
    const valuesFile = process.env["MUSTER_E2E_VALUES"];
    world = stack.use(await installMuster({ kubeconfig, valuesFile, leaseEnv }));
    leases = stack.use(
      await startLeaseRun({
        kubeconfig,
        isRealCluster: true,
        pool: "leased",
        slicePool: "drivers",
        muster: world.muster,
      }),
    );
    const { items } = await world.json<Items<V1Node>>("get nodes -l pool=workers");
    workers = items.map(({ metadata }) => metadata?.name ?? "");
    expect(workers.length).toBeGreaterThanOrEqual(4);
    nodes.busy = disks.node;
    const others = await world.json<Items<V1Node>>("get nodes -l pool=drivers");
    nodes.other = others.items[0]?.metadata?.name ?? "";
    stack.defer(async () => {
      for (const node of workers) await pool(node, "workers");
      await pool(nodes.other, "drivers");
    });
    await givenWrongKey(world);
  }, 600_000);
  afterAll(() => stack.disposeAsync(), 600_000);

  it("runs a session, a job, a replica set and leases of each type", async () => {
    expect(await world.muster("doctor")).not.toMatch(/✗|FAIL/);
    // The last worker is the machine of the session's driver.
    const [steady = "", held = ""] = workers.filter((node) => node !== nodes.busy);
    Object.assign(nodes, { steady });
    await pool(nodes.busy, "busy");
    await pool(nodes.steady, "steady");
    await pool(held, "leased");
    const isKnown = async (): Promise<boolean> => (await world.muster("pools")).includes("leased");
    await until("the pool of the lease is known", isKnown, PATIENCE);
    await leases.order();
    await leases.replacePods();
    const { spec } = await until("the leased container runs", leasePod, PATIENCE);
    expect(spec?.nodeName, "it is on the node of its disk").toBe(nodes.busy);

    await world.muster(
      `run --detach ${await world.fileOf("session.json", buildSession("kept", "steady", undefined, "workers"))}`,
    );
    await world.kubectl("apply -f -", buildJob("kept", "busy"));
    await world.muster(`apply -f ${await world.fileOf("set.json", buildReplicaSet("kept", "busy"))} --wait`);
    await until("the session runs", async () => (await sessionOf(world)).phase === "RUN", PATIENCE);
    expect((await until("the job runs", jobPod, PATIENCE)).spec?.nodeName).toBe(nodes.busy);
    expect((await until("the set runs", setPod, PATIENCE)).spec?.nodeName).toBe(nodes.busy);
  });

  it("upgrades the services while the work runs, touches no pod of it, and refuses no request", async () => {
    const before = await runningWork();
    const services = async (): Promise<(string | undefined)[]> =>
      (await podsOf(`-n ${SYSTEM} -l app.kubernetes.io/name!=nats`))
        .filter((pod) => !isIntruder(pod))
        .map(({ metadata }) => metadata?.uid);
    const old = new Set(await services());
    expect(old.size).toBeGreaterThan(10);
    await using requests = await startSteadyRequests(world.nats, {
      prefix: "rolled",
      server: "steady",
      driver: "drivers",
    });
    await world.upgrade({ defaults: { podAnnotations: { "example.com/changed": "once" } } });
    await until("the pods of all services are new", async () => {
      const now = await services();
      return now.length > 1 && now.every((uid) => !old.has(uid));
    });
    const seen = await requests.end();
    expect(seen.away).toEqual([]);
    expect(seen.requests.filter(({ refused }) => refused !== undefined)).toEqual([]);
    expectKept(seen, await requests.existing());
    await expectAllRun(before);
  });

  it("upgrades the services and NATS while the work runs, touches no pod of it, and loses no request", async () => {
    const keyOfBackup = `-n ${SYSTEM} get secret muster-nats-nkeys -o jsonpath={.data.backup\\.nk}`;
    // Simulates an installation that is older than this user.
    await world.kubectl(
      `-n ${SYSTEM} patch secret muster-nats-nkeys --type json --patch [{"op":"remove","path":"/data/backup.nk"}]`,
    );
    expect(await world.kubectl(keyOfBackup)).toBe("");
    const before = await runningWork();
    const old = new Set((await podsOf(`-n ${SYSTEM}`)).map(({ metadata }) => metadata?.uid));
    await using requests = await startSteadyRequests(world.nats, {
      prefix: "moved",
      server: "steady",
      driver: "drivers",
    });
    await world.upgrade({
      defaults: { podAnnotations: { "example.com/changed": "yes" } },
      nats: { resources: { requests: { cpu: "201m" } } },
    });
    await until("all pods of all services and of NATS are new", async () => {
      const now = (await podsOf(`-n ${SYSTEM}`)).filter((pod) => !isIntruder(pod));
      return now.length > 1 && now.every(({ metadata }) => !old.has(metadata?.uid));
    });
    expect(await world.kubectl(keyOfBackup)).not.toBe("");
    expectHarmless(await requests.end(), await requests.existing());
    await expectAllRun(before);
  });

  it("continues the work after it is uninstalled and reinstalled", async () => {
    const before = await runningWork();
    const volume = `-n ${SYSTEM} get persistentvolumeclaim data-nats-0 -o jsonpath={.spec.volumeName}`;
    const claimed = await world.kubectl(volume);
    await world.uninstall();
    await until("NATS is gone", async () => (await podsOf(`-n ${SYSTEM}`)).every(isIntruder), PATIENCE);
    await world.install();
    expect(await world.kubectl(volume)).toBe(claimed);
    await expectAllRun(before);
  });

  it.skipIf(STOP === undefined || START === undefined)(NODES_STOP, async () => {
    const before = { job: await jobPod(), lease: await leasePod() };
    await pool(nodes.other, "busy");
    const stopped = [nodes.busy, nodes.steady];
    try {
      for (const node of stopped) await shell(STOP, node);
      const another = await until(
        "the job's member runs elsewhere",
        async () => {
          const pod = await jobPod();
          return pod?.metadata?.uid !== before.job?.metadata?.uid && pod;
        },
        PATIENCE,
      );
      expect(another.spec?.nodeName).toBe(nodes.other);
      await until(
        "the set's replica runs elsewhere",
        async () => (await setPod())?.spec?.nodeName === nodes.other,
        PATIENCE,
      );
      expect((await sessionOf(world)).phase).toBe("RUN");
      // The pods on the stopped nodes still run: the session ends although their kubelets report nothing.
      await end(world, await drivers());
      await until("the session is done", async () => (await sessionOf(world)).phase === "DONE", PATIENCE);
    } finally {
      for (const node of stopped) await shell(START, node);
    }
    await world.kubectl(`wait --for=condition=Ready --timeout=3m node ${stopped.join(" ")}`);
    await until("the leased container runs", leasePod, PATIENCE);
    expect(await leases.phaseOf("container")).toBe("ACTIVE");
  });

  it("ends the work and leaves no pod of it", async () => {
    if ((await sessionOf(world)).phase !== "DONE") await end(world, await drivers());
    await until("the session is done", async () => (await sessionOf(world)).phase === "DONE", PATIENCE);
    const member = await until("the job runs", jobPod, PATIENCE);
    await end(world, [member]);
    await world.kubectl(`-n ${WORK} wait --for=condition=Succeeded --timeout=3m jobs.muster.dev/kept`);
    await world.kubectl(`-n ${WORK} delete jobs.muster.dev kept --timeout=3m`);
    await world.muster("delete kept --force --wait");
    await leases.end();
    await until(
      "all pods are gone",
      async () => [...(await podsOf(`-n ${WORK}`)), ...(await leasePods())].length === 0,
      PATIENCE,
    );
  });

  it("logs whose key is wrong, is not ready, and retries with a back-off", async () => {
    const lines = await until(
      "the service has retried",
      async () => {
        const log = await world.kubectl(`-n ${SYSTEM} logs deployment/intruder`);
        const refusals = log.split("\n").filter((line) => /NATS refuses this service/.test(line));
        return refusals.length > 1 && refusals;
      },
      PATIENCE,
    );
    const times = lines.map((line) => Date.parse((JSON.parse(line) as { readonly time: string }).time));
    expect(times.every((time, at) => at === 0 || time - (times[at - 1] ?? 0) >= 500)).toBe(true);
    const [pod] = await podsOf(`-n ${SYSTEM} -l app=intruder`);
    expect(pod?.status?.containerStatuses?.map(({ ready, restartCount }) => [ready, restartCount])).toEqual([
      [false, 0],
    ]);
    await world.kubectl(`-n ${SYSTEM} delete deployment,secret intruder --cascade=foreground`);
  });

  it("leaves only the documented objects when it is uninstalled", async () => {
    await world.uninstall();
    const left = async (namespace: string): Promise<readonly string[]> => {
      const kinds = (await world.kubectl("api-resources --verbs=list --namespaced -o name")).trim().split("\n");
      const listed = kinds.filter((kind) => !/^(events|pods\.metrics)/.test(kind)).join(",");
      const found = await world.kubectl(`-n ${namespace} get ${listed} -o name`);
      return found
        .trim()
        .split("\n")
        .filter((name) => !/kube-root-ca|serviceaccount\/default/.test(name))
        .sort();
    };
    await until("the pods are gone", async () => (await podsOf(`-n ${SYSTEM}`)).length === 0, PATIENCE);
    expect((await left(SYSTEM)).filter((name) => !name.startsWith("persistentvolumeclaim/data-nats-"))).toEqual([
      "configmap/muster-nats-ca",
      "configmap/muster-nats-keys",
      "secret/muster-gateway-session",
      "secret/muster-nats-authority",
      "secret/muster-nats-nkeys",
      "secret/muster-nats-tls",
      "secret/muster-provision-engine",
    ]);
    expect(await left(WORK)).toEqual([]);
    const wide = await world.kubectl("get clusterroles,clusterrolebindings,validatingadmissionpolicies,crds -o name");
    const ours = wide.split("\n").filter((name) => /muster/.test(name));
    const definitions = ["jobs.muster.dev", "queues.muster.dev"];
    expect(ours).toEqual(definitions.map((name) => `customresourcedefinition.apiextensions.k8s.io/${name}`));
  });
});

async function sessionOf(world: InstalledWorld): Promise<{ readonly phase: string }> {
  return JSON.parse(await world.muster("get sessions kept -o json")) as { readonly phase: string };
}

/** Requests failed only while NATS was unreachable, and all of these may be retried. Every acknowledged object exists exactly once. */
function expectHarmless({ requests, away, acknowledged }: Seen, existing: Seen["acknowledged"]): void {
  expect(away).not.toEqual([]);
  const isHarmless = ({ startMs, endMs, refused }: Request): boolean =>
    refused === undefined ||
    (refused.fault !== undefined &&
      isRetryable(refused.fault) &&
      away.some(({ fromMs, toMs }) => endMs >= fromMs && startMs <= toMs + SETTLED_MS));
  expect(requests.filter((request) => !isHarmless(request))).toEqual([]);
  expectKept({ acknowledged }, existing);
}

/** Creates the file that these pods wait for to exit with 0. */
async function end(world: InstalledWorld, pods: readonly V1Pod[]): Promise<void> {
  for (const { metadata } of pods) {
    await world.kubectl(`-n ${WORK} exec ${metadata?.name ?? ""} -- touch /tmp/end`);
  }
}

/** Starts a watcher with a key that NATS does not know. */
async function givenWrongKey(world: InstalledWorld): Promise<void> {
  const { spec } = await world.json<V1Deployment>(`-n ${SYSTEM} get deployment watcher`);
  const text = JSON.stringify(spec?.template.spec).replaceAll("muster-nats-nkeys", "intruder");
  const metadata = { name: "intruder", namespace: SYSTEM };
  const stringData = { "watcher.nk": makeNkey().seed };
  await world.kubectl("apply -f -", { apiVersion: "v1", kind: "Secret", metadata, stringData });
  // A service of Muster uses no machine that could be granted as a whole.
  const labels = { app: "intruder", "app.kubernetes.io/part-of": "muster" };
  const template = { metadata: { labels }, spec: JSON.parse(text) as object };
  const deployment = { replicas: 1, selector: { matchLabels: labels }, template };
  await world.kubectl("apply -f -", { apiVersion: "apps/v1", kind: "Deployment", metadata, spec: deployment });
}

async function shell(command: string | undefined, node: string): Promise<void> {
  await promisify(execFile)("sh", ["-c", command ?? ""], { env: { ...buildProcessEnv(), NODE: node } });
}

function isIntruder({ metadata }: V1Pod): boolean {
  return metadata?.labels?.["app"] === "intruder";
}
