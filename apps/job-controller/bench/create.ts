import { randomUUID } from "node:crypto";
import { fork, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { KubeConfig, V1Node, V1Pod } from "@kubernetes/client-node";
import { makeClient, connectNats, type Client } from "@muster/bus";
import { startApiServer } from "@muster/devcluster";
import { openInformer, makeKubeCalls, listWatch, loadKube, type KubeCalls, type KubeObject } from "@muster/kube";
import { buckets, ReservationService } from "@muster/proto";
import { jsonText, openBucket, type Bucket } from "@muster/store";
import { startKubeApiServer, findKubeAssets, startTestNats, selectSize, until } from "@muster/testkit";
import { parse } from "yaml";
import { computeCostsSince, readCosts, type Costs } from "./costs.ts";

const APPS = fileURLToPath(new URL("../../", import.meta.url));
const CRD = fileURLToPath(new URL("../../../deploy/crds/muster.dev_jobs.yaml", import.meta.url));
const BARE = fileURLToPath(new URL("bare.process.ts", import.meta.url));
const ROUNDS = Number(process.env["BENCH_ROUNDS"] ?? selectSize(3, 1));
const JOBS = Number(process.env["BENCH_JOBS"] ?? selectSize(1000, 20));
const PODS_A_JOB = 5;
const PODS = JOBS * PODS_A_JOB;
const IN_FLIGHT = 64;
const NAMESPACE = "default";
const NODES = { apiVersion: "v1", plural: "nodes" };
const POD_RESOURCE = { apiVersion: "v1", plural: "pods", namespace: NAMESPACE };
const SERVICES = { apiVersion: "v1", plural: "services", namespace: NAMESPACE };
const EVENTS = { apiVersion: "v1", plural: "events", namespace: NAMESPACE };
const BUDGETS = { apiVersion: "policy/v1", plural: "poddisruptionbudgets", namespace: NAMESPACE };
const WORKERS = process.env["BENCH_WORKERS"] ?? "64";
const LOCK = "job-controller";
const JOB_RESOURCE = { apiVersion: "muster.dev/v1", plural: "jobs", namespace: NAMESPACE };

/**
 * Measures how fast pods of many gangs are created: with machines reserved, services, budgets, events and status. A bare loop creates the same pods with the
 * official client and as many requests in flight. The ways take turns, and ratios compare the same round.
 */
export async function compareCreation(): Promise<void> {
  await using stack = new AsyncDisposableStack();
  const assets = findKubeAssets();
  console.log(assets.found ? "a real kube-apiserver" : `the embedded API server (${assets.reason})`);
  const { kubeconfig } = stack.use(assets.found ? await startKubeApiServer() : await embedded(stack));
  const config = loadKube(kubeconfig);
  const calls = stack.use(makeKubeCalls(config, { maxInFlight: IN_FLIGHT }));
  const pods = stack.use(
    openInformer<V1Pod, string>({
      source: listWatch<V1Pod>(config, `/api/v1/namespaces/${NAMESPACE}/pods`),
      project: ({ metadata }) => metadata?.name ?? "",
    }),
  );
  let podCount = 0;
  pods.onChange(({ before, after }) => {
    podCount += Number(after !== undefined) - Number(before !== undefined);
  });
  await pods.synced;
  const { start, ledger, locks } = await startLedger(stack, kubeconfig, calls);
  const definition = parse(await readFile(CRD, "utf8")) as object;
  await calls.create({ apiVersion: "apiextensions.k8s.io/v1", plural: "customresourcedefinitions" }, definition);
  await until("jobs are a resource", () => isThere(calls.list(JOB_RESOURCE)), { timeoutMs: 30_000 });
  const world = { config, kubeconfig, calls, start, locks, names: () => pods.list(), count: () => podCount };
  const results = new Map<Way, Timed[]>(WAYS.map((way) => [way, []]));
  const sample = await makeSample(world, ledger);
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const way of WAYS) {
      const timed = way === "bare" ? await timeBare(world, sample) : await timeGangs(world, way, round);
      results.get(way)?.push(timed);
      await clear(world, ledger);
    }
  }
  report(results);
}

const WAYS = ["bare", "before", "meanwhile"] as const;
/** On a shared machine, a burst lasts longer than the default maximum delay. */
const MAX_POSTPONE_MS = process.env["BENCH_POSTPONE_MOST_MS"] ?? "15000";
type Way = (typeof WAYS)[number];
const TITLES: Readonly<Record<Way, string>> = {
  bare: "a bare loop of the official client",
  before: "jobs that are there when the controller leads",
  meanwhile: "jobs, from the first submission",
};

function report(results: ReadonlyMap<Way, readonly Timed[]>): void {
  console.log(
    `${JOBS} jobs of ${PODS_A_JOB} pods, ${IN_FLIGHT} requests in flight; medians of ${ROUNDS} rounds in turns`,
  );
  const bare = results.get("bare") ?? [];
  for (const [way, rounds] of results) {
    const seconds = median(rounds.map((round) => round.seconds));
    const ratio = median(rounds.map((round, index) => (bare[index]?.seconds ?? NaN) / round.seconds));
    const pace = `${seconds.toFixed(1).padStart(6)} s ${(PODS / seconds).toFixed(0).padStart(6)} pods a second`;
    console.log(`${TITLES[way].padEnd(46)} ${pace}, ratio ${ratio.toFixed(2)}`);
    console.log(`  processor time, ms a pod: ${perPod(rounds, (round) => round.costs.cpuSeconds, 1000)}`);
    console.log(`  requests a pod:           ${perPod(rounds, (round) => round.costs.requests, 1)}`);
  }
}

function perPod(rounds: readonly Timed[], of: (round: Timed) => ReadonlyMap<string, number>, times: number): string {
  const names = new Set(rounds.flatMap((round) => [...of(round).keys()]));
  const each = [...names].map((name): [string, number] => [
    name,
    (median(rounds.map((round) => of(round).get(name) ?? 0)) / PODS) * times,
  ]);
  const sum = each.reduce((total, [, value]) => total + value, 0);
  const worthIt = each.filter(([, value]) => value >= 0.005).sort(([, one], [, other]) => other - one);
  return [`all ${sum.toFixed(2)}`, ...worthIt.map(([name, value]) => `${name} ${value.toFixed(2)}`)].join(", ");
}

function median(values: readonly number[]): number {
  return [...values].sort((one, other) => one - other)[Math.floor(values.length / 2)] ?? 0;
}

type World = {
  readonly config: KubeConfig;
  readonly kubeconfig: string;
  readonly calls: KubeCalls;
  readonly start: Start;
  readonly locks: Bucket<unknown>;
  readonly names: () => readonly string[];
  /** Counts the pods without a list, because it is called often. */
  readonly count: () => number;
};

type Start = (app: string, env?: Readonly<Record<string, string>>) => Promise<ChildProcess>;

async function embedded(stack: AsyncDisposableStack): Promise<AsyncDisposable & { readonly kubeconfig: string }> {
  const directory = await mkdtemp(join(tmpdir(), "muster-bench-jobs-"));
  stack.defer(() => rm(directory, { recursive: true, force: true }));
  return startApiServer({ directory });
}

/** Starts the bus, the machines, and the ledger that reserves them. */
async function startLedger(
  stack: AsyncDisposableStack,
  kubeconfig: string,
  calls: KubeCalls,
): Promise<{ start: Start; ledger: Client<typeof ReservationService>; locks: Bucket<unknown> }> {
  await makeNodes(calls);
  const nats = stack.use(await startTestNats());
  const start: Start = async (app, env = {}) => {
    const common = { MUSTER_NATS_URL: nats.url, MUSTER_NATS_TOKEN: nats.token, MUSTER_KUBECONFIG: kubeconfig };
    const child = await startApp(app, { ...common, MUSTER_LOG_LEVEL: "error", ...env });
    stack.defer(() => ended(child));
    return child;
  };
  await start("watcher");
  await start("reservation-manager");
  const bus = stack.use(await connectNats({ url: nats.url, token: nats.token, name: "bench" }));
  const ledger = makeClient(bus, ReservationService);
  const known = async (): Promise<boolean> => {
    const { pools } = await ledger.listPools({});
    return pools.some(({ name, available }) => name === "pool" && available >= PODS);
  };
  await until("the ledger knows every machine", () => known().catch(() => false), { timeoutMs: 180_000 });
  return { start, ledger, locks: await openBucket(bus.connection, { name: buckets.locks, codec: jsonText }) };
}

type Timed = { readonly seconds: number; readonly costs: Costs };

/**
 * Measures from the first submission to the last pod. For jobs that exist before any controller, it measures from the start of the lead, as a new leader would
 * find them.
 */
async function timeGangs(world: World, way: Exclude<Way, "bare">, round: number): Promise<Timed> {
  const { calls, config, count } = world;
  const submit = (): Promise<void> =>
    inFlight(JOBS, async (job) => {
      await calls.create(JOB_RESOURCE, manifest(`${way}-${round}-${job}`));
    });
  if (way === "before") await submit();
  const controller = await lead(world);
  const before = await readCosts(config);
  const startedMs = performance.now();
  if (way === "meanwhile") await submit();
  await until("every pod is created", () => count() >= PODS, { timeoutMs: 600_000, everyMs: 20 });
  const seconds = (performance.now() - startedMs) / 1000;
  const costs = computeCostsSince(before, await readCosts(config));
  await ended(controller);
  return { seconds, costs };
}

async function lead({ locks, start }: Pick<World, "locks" | "start">): Promise<ChildProcess> {
  const controller = await start("job-controller", {
    JOB_REQUESTS_IN_FLIGHT: String(IN_FLIGHT),
    JOB_WORKERS: WORKERS,
    JOB_POSTPONE_MOST_MS: MAX_POSTPONE_MS,
  });
  await until("the controller leads", async () => (await locks.get(LOCK)) !== undefined, {
    timeoutMs: 60_000,
    everyMs: 20,
  });
  return controller;
}

/** Returns a pod as the controller creates it. Its job also warms up every process. */
async function makeSample(world: World, ledger: Client<typeof ReservationService>): Promise<V1Pod> {
  const { calls, names } = world;
  const controller = await lead(world);
  await calls.create(JOB_RESOURCE, manifest("sample"));
  await until("its pods are created", () => names().length >= PODS_A_JOB, { timeoutMs: 60_000 });
  const sample = await calls.get<V1Pod>(POD_RESOURCE, names()[0] ?? "");
  await ended(controller);
  await clear(world, ledger);
  return bareCopy(sample);
}

/** Deletes all objects and reservations, so that the next measurement starts from the same state. */
async function clear({ calls, locks, names }: World, ledger: Client<typeof ReservationService>): Promise<void> {
  for (const resource of [JOB_RESOURCE, SERVICES, BUDGETS, EVENTS]) {
    const { items } = await calls.list<KubeObject>(resource);
    await inFlight(items.length, (index) => calls.delete(resource, items[index]?.metadata?.name ?? ""));
  }
  const pods = names();
  await inFlight(pods.length, (index) => calls.delete(POD_RESOURCE, pods[index] ?? "", { gracePeriodSeconds: 0 }));
  await until("the pods are gone", () => names().length === 0, { timeoutMs: 300_000 });
  const lock = await locks.get(LOCK);
  if (lock !== undefined) await locks.delete(LOCK, lock.revision);
  for (;;) {
    const { reservations } = await ledger.listReservations({ ownerKind: "job" });
    if (reservations.length === 0) return;
    await inFlight(reservations.length, async (index) => {
      const { id, owner } = reservations[index] ?? {};
      await ledger.unreserve({ requestId: randomUUID(), owner, reservationId: id });
    });
  }
}

function isThere(work: Promise<unknown>): Promise<boolean> {
  return work.then(
    () => true,
    () => false,
  );
}

async function timeBare({ config, kubeconfig }: World, sample: V1Pod): Promise<Timed> {
  const child = fork(BARE, [kubeconfig, String(PODS), String(IN_FLIGHT)]);
  await once(child, "message");
  const before = await readCosts(config);
  const startedMs = performance.now();
  child.send(sample);
  await once(child, "message");
  const seconds = (performance.now() - startedMs) / 1000;
  const costs = computeCostsSince(before, await readCosts(config));
  await ended(child);
  return { seconds, costs };
}

async function makeNodes(calls: KubeCalls): Promise<void> {
  await inFlight(PODS, async (index) => {
    const name = `node-${index}`;
    const node: V1Node = { apiVersion: "v1", kind: "Node", metadata: { name, labels: { pool: "pool" } } };
    await calls.create(NODES, node);
    const conditions = [{ type: "Ready", status: "True", reason: "KubeletReady", message: "" }];
    await calls.patch(NODES, name, { kind: "merge", body: { status: { conditions } } }, { subresource: "status" });
    // The taint that an API server adds to a node until a controller has seen that it is ready.
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

function bareCopy({ metadata, spec }: V1Pod): V1Pod {
  const { nodeName: _node, ...rest } = spec ?? { containers: [] };
  const { labels = {}, annotations = {}, ownerReferences = [] } = metadata ?? {};
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { namespace: NAMESPACE, labels, annotations, ownerReferences },
    spec: rest,
  };
}

async function inFlight(count: number, work: (index: number) => Promise<void>): Promise<void> {
  let next = 0;
  const lane = async (): Promise<void> => {
    for (let index = next++; index < count; index = next++) await work(index);
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, lane));
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
