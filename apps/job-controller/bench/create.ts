import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { CoreV1Api, type V1Node, type V1Pod } from "@kubernetes/client-node";
import { client, connectNats } from "@muster/bus";
import { startApiServer } from "@muster/devcluster";
import { informer, kubeCalls, kubeClient, listWatch, loadKube, type KubeCalls } from "@muster/kube";
import { ReservationService } from "@muster/proto";
import { kubeApiServer, kubeAssets, natsServer, until } from "@muster/testkit";
import { parse } from "yaml";

const APPS = fileURLToPath(new URL("../../", import.meta.url));
const CRD = fileURLToPath(new URL("../../../deploy/crds/muster.dev_jobs.yaml", import.meta.url));
const JOBS = Number(process.env["BENCH_JOBS"] ?? 1000);
const PODS_A_JOB = 5;
const PODS = JOBS * PODS_A_JOB;
const IN_FLIGHT = 64;
const NAMESPACE = "default";
const NODES = { apiVersion: "v1", plural: "nodes" };
const POD_RESOURCE = { apiVersion: "v1", plural: "pods", namespace: NAMESPACE };
const WORKERS = process.env["BENCH_WORKERS"] ?? "64";
const LEASE = { apiVersion: "coordination.k8s.io/v1", plural: "leases", namespace: NAMESPACE };
const JOB_RESOURCE = { apiVersion: "muster.dev/v1", plural: "jobs", namespace: NAMESPACE };

/**
 * How fast pods of many gangs come to be: with machines reserved, services, budgets, events and status, beside a bare loop that creates the same pods with the official
 * client and the same number of requests in flight.
 */
export async function compareCreation(): Promise<void> {
  await using stack = new AsyncDisposableStack();
  const assets = kubeAssets();
  console.log(assets.found ? "a real kube-apiserver" : `the embedded API server (${assets.reason})`);
  const { kubeconfig } = stack.use(assets.found ? await kubeApiServer() : await embedded(stack));
  const calls = stack.use(kubeCalls(loadKube(kubeconfig), { mostInFlight: IN_FLIGHT }));
  const pods = stack.use(
    informer<V1Pod, string>({
      source: listWatch<V1Pod>(loadKube(kubeconfig), `/api/v1/namespaces/${NAMESPACE}/pods`),
      project: ({ metadata }) => metadata?.name ?? "",
    }),
  );
  await pods.synced;
  const start = await startLedger(stack, kubeconfig, calls);
  const gangs = await timeGangs(calls, start, () => pods.list().length);
  const sample = await calls.get<V1Pod>(POD_RESOURCE, pods.list()[0] ?? "");
  await deleteAll(calls, pods.list());
  await until("the pods are gone", () => pods.list().length === 0, { timeoutMs: 300_000 });
  const bareSeconds = await timeBare(kubeconfig, sample);
  const rate = (seconds: number): string => `${seconds.toFixed(1)} s, ${(PODS / seconds).toFixed(0)} pods a second`;
  console.log(`${JOBS} jobs of ${PODS_A_JOB} pods, ${IN_FLIGHT} requests in flight`);
  console.log(
    `  gangs, from the first job to the last pod: ${rate(gangs.seconds)}; jobs were submitted in ${gangs.submitSeconds.toFixed(1)} s`,
  );
  console.log(`  bare loop: ${rate(bareSeconds)}`);
  console.log(`  ratio ${(bareSeconds / gangs.seconds).toFixed(2)} (1: as fast as the bare loop)`);
  console.log(`  processor time of the controller: ${((gangs.cpuSeconds / PODS) * 1000).toFixed(2)} ms a pod`);
}

type Start = (app: string, env?: Readonly<Record<string, string>>) => Promise<ChildProcess>;

async function embedded(stack: AsyncDisposableStack): Promise<AsyncDisposable & { readonly kubeconfig: string }> {
  const directory = await mkdtemp(join(tmpdir(), "muster-bench-jobs-"));
  stack.defer(() => rm(directory, { recursive: true, force: true }));
  return startApiServer({ directory });
}

/** The bus, the machines, and who reserves them. */
async function startLedger(stack: AsyncDisposableStack, kubeconfig: string, calls: KubeCalls): Promise<Start> {
  await makeNodes(calls);
  const nats = stack.use(await natsServer());
  const start: Start = async (app, env = {}) => {
    const common = { MUSTER_NATS_URL: nats.url, MUSTER_NATS_TOKEN: nats.token, MUSTER_KUBECONFIG: kubeconfig };
    const child = await startApp(app, { ...common, MUSTER_LOG_LEVEL: "error", ...env });
    stack.defer(() => ended(child));
    return child;
  };
  await start("watcher");
  await start("reservation-manager");
  const bus = stack.use(await connectNats({ url: nats.url, token: nats.token, name: "bench" }));
  const ledger = client(bus, ReservationService);
  const known = async (): Promise<boolean> => {
    const { pools } = await ledger.listPools({});
    return pools.some(({ name, available }) => name === "pool" && (available ?? 0) >= PODS);
  };
  await until("the ledger knows every machine", () => known().catch(() => false), { timeoutMs: 180_000 });
  return start;
}

/** Submits jobs as fast as they are taken, while the controller makes their pods. */
async function timeGangs(
  calls: KubeCalls,
  start: Start,
  pods: () => number,
): Promise<{ seconds: number; submitSeconds: number; cpuSeconds: number }> {
  const definition = parse(await readFile(CRD, "utf8")) as object;
  await calls.create({ apiVersion: "apiextensions.k8s.io/v1", plural: "customresourcedefinitions" }, definition);
  const there = (work: Promise<unknown>): Promise<boolean> =>
    work.then(
      () => true,
      () => false,
    );
  await until("jobs are a resource", () => there(calls.list(JOB_RESOURCE)), { timeoutMs: 30_000 });
  const controller = await start("job-controller", { JOB_REQUESTS_IN_FLIGHT: String(IN_FLIGHT), JOB_WORKERS: WORKERS });
  await until("the controller leads", () => there(calls.get(LEASE, "muster-job-controller")), { timeoutMs: 60_000 });
  const cpuBefore = await cpuSeconds(controller);
  const startedMs = performance.now();
  await inFlight(JOBS, async (job) => {
    await calls.create(JOB_RESOURCE, manifest(job));
  });
  const submitSeconds = (performance.now() - startedMs) / 1000;
  await until("every pod is created", () => pods() >= PODS, { timeoutMs: 600_000, everyMs: 20 });
  const seconds = (performance.now() - startedMs) / 1000;
  const used = (await cpuSeconds(controller)) - cpuBefore;
  await ended(controller);
  return { seconds, submitSeconds, cpuSeconds: used };
}

async function timeBare(kubeconfig: string, sample: V1Pod): Promise<number> {
  const bare = kubeClient(loadKube(kubeconfig), CoreV1Api, { timeoutMs: 60_000 });
  const startedMs = performance.now();
  await inFlight(PODS, async (index) => {
    await bare.createNamespacedPod({ namespace: NAMESPACE, body: bareCopy(sample, index) });
  });
  return (performance.now() - startedMs) / 1000;
}

async function makeNodes(calls: KubeCalls): Promise<void> {
  await inFlight(PODS, async (index) => {
    const name = `node-${index}`;
    const node: V1Node = { apiVersion: "v1", kind: "Node", metadata: { name, labels: { pool: "pool" } } };
    await calls.create(NODES, node);
    const conditions = [{ type: "Ready", status: "True", reason: "KubeletReady", message: "" }];
    await calls.patch(NODES, name, { kind: "merge", body: { status: { conditions } } }, { subresource: "status" });
    // What an API server puts on a node until somebody has seen that it is ready.
    await calls.patch(NODES, name, { kind: "merge", body: { spec: { taints: null } } });
  });
}

function manifest(job: number): object {
  const template = { spec: { containers: [{ name: "main", image: "image", command: ["true"] }] } };
  return {
    apiVersion: "muster.dev/v1",
    kind: "Job",
    metadata: { name: `bench-${job}`, namespace: NAMESPACE },
    spec: { replicaSpecs: { worker: { replicas: PODS_A_JOB, pool: "pool", template } } },
  };
}

function bareCopy({ metadata, spec }: V1Pod, index: number): V1Pod {
  const { nodeName: _node, ...rest } = spec ?? { containers: [] };
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      name: `bare-${index}`,
      namespace: NAMESPACE,
      labels: metadata?.labels ?? {},
      annotations: metadata?.annotations ?? {},
    },
    spec: rest,
  };
}

async function deleteAll(calls: KubeCalls, names: readonly string[]): Promise<void> {
  await inFlight(names.length, async (index) => {
    await calls.delete(POD_RESOURCE, names[index] ?? "", { gracePeriodSeconds: 0 }).catch(() => undefined);
  });
}

async function inFlight(count: number, work: (index: number) => Promise<void>): Promise<void> {
  let next = 0;
  const lane = async (): Promise<void> => {
    for (let index = next++; index < count; index = next++) await work(index);
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, lane));
}

/** Of the process so far, user and system. */
async function cpuSeconds({ pid = 0 }: ChildProcess): Promise<number> {
  const fields = (await readFile(`/proc/${pid}/stat`, "utf8")).split(") ")[1]?.split(" ") ?? [];
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

async function startApp(app: string, env: Readonly<Record<string, string>>): Promise<ChildProcess> {
  const child = spawn(process.execPath, [`${APPS}${app}/src/main.ts`], {
    env: { PATH: process.env["PATH"], ...env },
    stdio: ["ignore", "inherit", "inherit"],
  });
  await once(child, "spawn");
  return child;
}

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exit = once(child, "exit");
  child.kill("SIGKILL");
  await exit;
}
