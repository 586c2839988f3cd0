import { execFile, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import type { V1CustomResourceDefinition, V1Node } from "@kubernetes/client-node";
import { makeClient, connectNats, type Client } from "@muster/bus";
import { startDevCluster } from "@muster/devcluster";
import { makeKubeCalls, loadKube, type KubeCalls } from "@muster/kube";
import { JobService, NodeService, ReservationService } from "@muster/proto";
import { startTestNats, buildProcessEnv, until, makePatientClient } from "@muster/testkit";
import { parse } from "yaml";

const APPS = fileURLToPath(new URL("../../", import.meta.url));
const JOBS = new URL("../../../deploy/crds/muster.dev_jobs.yaml", import.meta.url);
/** The maximum of nodes of the elastic pool. */
export const MAX = 6;
/** A kind of owner that only the ledger knows. */
const OWNER_KIND = "lease";
const DEFINITIONS = { apiVersion: "apiextensions.k8s.io/v1", plural: "customresourcedefinitions" };

export type Replica = {
  readonly kill: () => Promise<void>;
  readonly stop: () => Promise<void>;
  readonly freeze: () => void;
  readonly resume: () => void;
};

/** A bus, a cluster whose nodes come from a small cloud, the watcher, the ledger, and as many scalers as a test starts. */
export type ElasticWorld = AsyncDisposable & {
  readonly calls: KubeCalls;
  readonly ledger: Client<typeof ReservationService>;
  readonly nodes: Client<typeof NodeService>;
  startScaler(): Promise<Replica>;
  /** Starts the service of jobs, with their definition. */
  startJobs(): Promise<Client<typeof JobService>>;
  /** Waits until the ledger knows that the pool may grow; earlier it refuses requests. */
  untilElastic(): Promise<unknown>;
  /** Requests machines of the elastic pool for an owner of this name, or parts with these requests; returns the id of its reservation. */
  reserve(name: string, size: number, requests?: Readonly<Record<string, number>>): Promise<string>;
  untilGranted(name: string): Promise<readonly string[]>;
  release(name: string, reservationId: string): Promise<void>;
  /** The output of `muster` for these arguments. */
  muster(...words: readonly string[]): Promise<string>;
  /** Sets the boot time of machines that are ordered from now on; undefined selects the usual time. */
  slowBoots(ms: number | undefined): Promise<void>;
  /** Delays the answers to orders of machines by this time; undefined ends the delay. */
  slowOrders(ms: number | undefined): Promise<void>;
  /** Returns names of the cloud's machines. */
  machines(): readonly string[];
  kubeNodes(): Promise<readonly string[]>;
};

/** Starts the world. `policy` has fields of the one pool, as in the file of pools. */
export async function openElasticWorld(policy: Readonly<Record<string, unknown>>): Promise<ElasticWorld> {
  await using starting = new AsyncDisposableStack();
  const directory = await mkdtemp(join(tmpdir(), "muster-elastic-"));
  starting.defer(() => rm(directory, { recursive: true, force: true }));
  const cluster = starting.use(
    await startDevCluster({
      directory,
      pools: [],
      simulated: true,
      machines: { types: [{ name: "small", cpu: "4", memory: "8Gi" }], bootMs: { from: 200, to: 400 }, endMs: 50 },
    }),
  );
  const { machines: cloud, kubeconfig } = cluster;
  if (cloud === undefined) throw new Error("the cluster has no cloud");
  const file = join(directory, "pools.yaml");
  const pool = {
    name: "elastic",
    provider: "cloud",
    max: MAX,
    instanceTypes: [{ name: "small", cpu: "4", memory: "8Gi" }],
    ...policy,
  };
  const provider = { kind: "local", url: cloud.url, tokenFile: cloud.tokenFile };
  await writeFile(file, JSON.stringify({ providers: { cloud: provider }, pools: [pool] }));

  const nats = starting.use(await startTestNats());
  const bus = starting.use(await connectNats({ url: nats.url, token: nats.token, name: "test" }));
  const calls = starting.use(makeKubeCalls(loadKube(kubeconfig)));
  let stack = starting;
  const start = async (app: string, more: Readonly<Record<string, string>> = {}): Promise<Replica> => {
    const child = spawn(process.execPath, [`${APPS}${app}/src/main.ts`], {
      env: {
        ...buildProcessEnv(),
        MUSTER_NATS_URL: nats.url,
        MUSTER_NATS_TOKEN: nats.token,
        MUSTER_KUBECONFIG: kubeconfig,
        MUSTER_LOG_LEVEL: process.env["MUSTER_LOG_LEVEL"] ?? "error",
        ...more,
      },
      stdio: ["ignore", "inherit", "inherit"],
    });
    await once(child, "spawn");
    stack.defer(() => ended(child, "SIGKILL"));
    return {
      kill: () => ended(child, "SIGKILL"),
      stop: () => ended(child, "SIGTERM"),
      freeze: () => void child.kill("SIGSTOP"),
      resume: () => void child.kill("SIGCONT"),
    };
  };
  await start("watcher");
  await start("reservation-manager");
  const ledger = makePatientClient(makeClient(bus, ReservationService));
  const owner = (name: string) => ({ kind: OWNER_KIND, id: name });
  const untilElastic = (): Promise<unknown> => {
    const isElastic = async (): Promise<boolean> => {
      const { pools } = await ledger.listPools({});
      return pools.some(({ elasticMax }) => elasticMax === MAX);
    };
    return until("the ledger knows that the pool grows", isElastic, { timeoutMs: 90_000 });
  };
  stack = starting.move();
  return {
    calls,
    ledger,
    nodes: makePatientClient(makeClient(bus, NodeService)),
    startScaler: () =>
      start("node-scaler", {
        NODE_SCALER_FILE: file,
        NODE_SCALER_LOCK_TTL_MS: "5000",
        NODE_SCALER_POOL_INTERVAL_MS: "700",
        NODE_SCALER_HEARTBEAT_INTERVAL_MS: "600",
        NODE_SCALER_CLIENT_TIMEOUT_MS: "590",
        NODE_SCALER_REAPER_INTERVAL_MS: "300",
        NODE_SCALER_SCAN_INTERVAL_MS: "1500",
      }),
    startJobs: async () => {
      await untilElastic();
      await calls.create(DEFINITIONS, parse(await readFile(JOBS, "utf8")) as V1CustomResourceDefinition);
      await start("job-controller");
      const jobs = makePatientClient(makeClient(bus, JobService));
      const answers = (): Promise<boolean> =>
        jobs.listJobs({}).then(
          () => true,
          () => false,
        );
      await until("a service of jobs answers", answers, { timeoutMs: 90_000 });
      return jobs;
    },
    untilElastic,
    reserve: async (name, size, requests) => {
      await untilElastic();
      const shared = requests && { requests };
      const needs = Array.from({ length: size }, (_, index) => ({ component: `c-${index}`, pool: "elastic", shared }));
      const reply = await ledger.reserve({ requestId: name, owner: owner(name), needs, wait: true });
      return reply.reservation?.id ?? "";
    },
    untilGranted: (name) =>
      until(
        `${name} has its machines`,
        async () => {
          const { reservation } = await ledger.getReservation({ owner: owner(name) });
          const machines = reservation?.machines.map(({ node }) => node) ?? [];
          return machines.length > 0 && machines;
        },
        { timeoutMs: 120_000 },
      ),
    release: async (name, reservationId) => {
      await ledger.unreserve({ requestId: `${name}-release`, owner: owner(name), reservationId });
    },
    muster: async (...words) => {
      const env = { ...buildProcessEnv(), MUSTER_NATS_URL: nats.url, MUSTER_NATS_TOKEN: nats.token };
      const { stdout } = await promisify(execFile)(process.execPath, [`${APPS}cli/src/main.ts`, ...words], { env });
      return stdout;
    },
    slowBoots: async (ms) => {
      if (ms === undefined) await cloud.remove();
      else await cloud.inject({ id: "slow", match: {}, fault: { do: "boot-delay", from: ms, to: ms } });
    },
    slowOrders: async (ms) => {
      if (ms === undefined) await cloud.remove();
      else await cloud.inject({ id: "late", match: { calls: ["create"] }, fault: { do: "delay", ms } });
    },
    machines: () => cloud.list().flatMap(({ nodeName, state }) => (state === "gone" ? [] : nodeName)),
    kubeNodes: async () => {
      const { items } = await calls.list<V1Node>({ apiVersion: "v1", plural: "nodes" });
      return items.map(({ metadata }) => metadata?.name ?? "");
    },
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

async function ended(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exit = once(child, "exit");
  child.kill(signal);
  await exit;
}
