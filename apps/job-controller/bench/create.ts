import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { CoreV1Api, type V1Node, type V1Pod } from "@kubernetes/client-node";
import { client, connectNats, type Client } from "@muster/bus";
import { startApiServer } from "@muster/devcluster";
import { informer, kubeCalls, kubeClient, listWatch, loadKube, type KubeCalls, type KubeObject } from "@muster/kube";
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
  const { start, ledger } = await startLedger(stack, kubeconfig, calls);
  const definition = parse(await readFile(CRD, "utf8")) as object;
  await calls.create({ apiVersion: "apiextensions.k8s.io/v1", plural: "customresourcedefinitions" }, definition);
  await until("jobs are a resource", () => isThere(calls.list(JOB_RESOURCE)), { timeoutMs: 30_000 });
  const names = (): readonly string[] => pods.list();
  const meanwhile = await timeGangs(calls, start, () => names().length, "meanwhile");
  await clear(calls, ledger, names);
  const before = await timeGangs(calls, start, () => names().length, "before");
  const sample = await calls.get<V1Pod>(POD_RESOURCE, names()[0] ?? "");
  await clear(calls, ledger, names);
  const bareSeconds = await timeBare(kubeconfig, sample);
  console.log(`${JOBS} jobs of ${PODS_A_JOB} pods, ${IN_FLIGHT} requests in flight`);
  const line = (what: string, seconds: number): void => {
    const ratio = (bareSeconds / seconds).toFixed(2);
    console.log(
      `  ${what.padEnd(44)} ${seconds.toFixed(1).padStart(6)} s, ${(PODS / seconds).toFixed(0)} pods a second, ratio ${ratio}`,
    );
  };
  line("a bare loop of the official client", bareSeconds);
  line("jobs that are there when the controller leads", before.seconds);
  line("jobs, from the first submission", meanwhile.seconds);
  console.log(`  processor time of the controller: ${((before.cpuSeconds / PODS) * 1000).toFixed(2)} ms a pod`);
}

type Start = (app: string, env?: Readonly<Record<string, string>>) => Promise<ChildProcess>;

async function embedded(stack: AsyncDisposableStack): Promise<AsyncDisposable & { readonly kubeconfig: string }> {
  const directory = await mkdtemp(join(tmpdir(), "muster-bench-jobs-"));
  stack.defer(() => rm(directory, { recursive: true, force: true }));
  return startApiServer({ directory });
}

/** The bus, the machines, and who reserves them. */
async function startLedger(
  stack: AsyncDisposableStack,
  kubeconfig: string,
  calls: KubeCalls,
): Promise<{ start: Start; ledger: Client<typeof ReservationService> }> {
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
  return { start, ledger };
}

type Timed = { readonly seconds: number; readonly cpuSeconds: number };

/**
 * From the first submission to the last pod, or, with the jobs there before anybody runs them, from the moment at which the controller leads: what a new leader finds.
 */
async function timeGangs(
  calls: KubeCalls,
  start: Start,
  pods: () => number,
  submitted: "before" | "meanwhile",
): Promise<Timed> {
  const submit = (): Promise<void> =>
    inFlight(JOBS, async (job) => {
      await calls.create(JOB_RESOURCE, manifest(`${submitted}-${job}`));
    });
  if (submitted === "before") await submit();
  const controller = await start("job-controller", { JOB_REQUESTS_IN_FLIGHT: String(IN_FLIGHT), JOB_WORKERS: WORKERS });
  await until("the controller leads", () => isThere(calls.get(LEASE, "muster-job-controller")), {
    timeoutMs: 60_000,
    everyMs: 20,
  });
  const cpuBefore = await cpuSeconds(controller);
  const startedMs = performance.now();
  if (submitted === "meanwhile") await submit();
  await until("every pod is created", () => pods() >= PODS, { timeoutMs: 600_000, everyMs: 20 });
  const seconds = (performance.now() - startedMs) / 1000;
  const used = (await cpuSeconds(controller)) - cpuBefore;
  await ended(controller);
  return { seconds, cpuSeconds: used };
}

/** Jobs, pods and reservations go, so that the next measurement begins as this one did. */
async function clear(
  calls: KubeCalls,
  ledger: Client<typeof ReservationService>,
  pods: () => readonly string[],
): Promise<void> {
  const { items } = await calls.list<KubeObject>(JOB_RESOURCE);
  await inFlight(items.length, (index) => calls.delete(JOB_RESOURCE, items[index]?.metadata?.name ?? ""));
  await deleteAll(calls, pods());
  await until("the pods are gone", () => pods().length === 0, { timeoutMs: 300_000 });
  await calls.delete(LEASE, "muster-job-controller");
  for (;;) {
    const { reservations } = await ledger.listReservations({ ownerKind: "job" });
    if (reservations.length === 0) return;
    await inFlight(reservations.length, async (index) => {
      const { id = "", owner = null } = reservations[index] ?? {};
      await ledger.unreserve({ requestId: String(index), owner, reservationId: id });
    });
  }
}

function isThere(work: Promise<unknown>): Promise<boolean> {
  return work.then(
    () => true,
    () => false,
  );
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

function manifest(name: string): object {
  const template = { spec: { containers: [{ name: "main", image: "image", command: ["true"] }] } };
  return {
    apiVersion: "muster.dev/v1",
    kind: "Job",
    metadata: { name, namespace: NAMESPACE },
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
