import { randomBytes } from "node:crypto";
import { mkdir, readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { client, connectNats } from "@muster/bus";
import { endLeftovers, machineNodesOf, machinesOf } from "@muster/devcluster";
import { throwFault } from "@muster/faults";
import { ReservationService } from "@muster/proto";
import { OPTIONAL, type ServiceName, STANDARD } from "@muster/repo/services";
import { refuseBesideAnother } from "./another-muster.ts";
import { type Child, serviceReady, startChild } from "./child.ts";
import { installDefinitions, installLeaseRole, jobsAreInstalled } from "./definitions.ts";
import { type Cloud, type Elastic, readCloud, readPoolsFile, writeMachinesFile, writePoolsFile } from "./elastic.ts";
import { onlyOne } from "./only-one.ts";
import { someNats, type NamedNats, type NatsVariables as Env, type StackNats } from "./stack-nats.ts";
import { ROOT } from "./root.ts";

export type StackOptions = {
  /** Everything the stack writes is kept here; emptied at start. */
  readonly directory: string;
  /** Use this cluster instead of an embedded one. */
  readonly kubeconfig?: string;
  /** Install the definitions of jobs there, too; the embedded cluster always has them. */
  readonly installDefinitions?: boolean;
  /** Use this NATS server instead of one of our own. Its buckets then belong to this stack: not for a server that another Muster uses. */
  readonly nats?: NamedNats;
  /** Nodes of the embedded cluster. */
  readonly pools: Readonly<Record<string, number>>;
  /** Pools of the embedded cluster that a node-scaler makes machines for. Without meaning where a cluster is named: nothing makes machines for that one here. */
  readonly elastic?: Elastic;
  /** File of the pools that a node-scaler makes nodes for on a cluster of the user's. */
  readonly poolsFile?: string;
  /** Replicas of each service; 1 where nothing is said. */
  readonly replicas?: Partial<Readonly<Record<ServiceName, number>>>;
  /** For the services, on top of what they need. */
  readonly env?: Readonly<Record<string, string>>;
  readonly baseEnv: Readonly<Record<string, string | undefined>>;
  readonly signal: AbortSignal;
  readonly onProgress: (line: string) => void;
};

/** A service that is kept running: when its process ends it is started again. */
export type Replica = {
  readonly service: ServiceName;
  readonly current: () => Child;
  /** host:port of /livez, /readyz and /metrics. */
  readonly address: () => string;
  /** SIGKILL; it is started again after so long, and the back-off of ends that nobody wanted does not grow. */
  readonly kill: (awayMs: number) => Promise<void>;
};

export type Stack = AsyncDisposable & {
  readonly natsUrl: string;
  /** For programs beside the services, with the rights of the command line. */
  readonly nats: StackNats["access"];
  readonly kubeconfig: string;
  readonly replicas: readonly Replica[];
  /** Resolves when NATS or the embedded cluster has ended by itself: nothing works without them, and what they held is gone. */
  readonly broken: Promise<string>;
  /** The embedded cluster's process; undefined with a cluster of the user's. */
  readonly cluster: Child | undefined;
  /** Where the machines of elastic pools come from; undefined without such pools. */
  readonly cloud: Cloud | undefined;
  /** Environment with which the CLI finds this stack. */
  readonly clientEnv: Readonly<Record<string, string | undefined>>;
};

/** File by which a directory of ours is recognised. */
const OURS = ".muster-local-stack";
const READY_TIMEOUT_MS = 60_000;
const POOLS_TIMEOUT_MS = 10_000;
const RESTART_MIN_MS = 500;
const RESTART_MAX_MS = 30_000;

/**
 * Starts NATS, the embedded cluster (unless a kubeconfig is named) and the services, each a process, and resolves when all are ready. Disposing ends them in the
 * reverse order; when this process dies in any other way, they end by themselves.
 */
export async function startStack(options: StackOptions): Promise<Stack> {
  await using starting = new AsyncDisposableStack();
  starting.use(await onlyOne(options.directory));
  await emptyDirectory(options.directory);

  if (options.kubeconfig !== undefined) await refuseBesideAnother(options.kubeconfig, options.signal);
  const broken = Promise.withResolvers<string>();
  const nats = await someNats(options, starting, broken.resolve);
  options.signal.throwIfAborted();
  const started = options.kubeconfig === undefined ? await startCluster(options, starting) : undefined;
  const { cluster, cloud } = started ?? {};
  void cluster?.exited.then((how) => {
    broken.resolve(`the embedded cluster ended (${how}); its log is ${join(options.directory, "logs/devcluster.log")}`);
  });
  const kubeconfig = options.kubeconfig ?? join(options.directory, "kubeconfig");

  const clientEnv = { ...options.baseEnv, ...nats.variablesOf("cli") };
  const common = {
    ...options.baseEnv,
    MUSTER_KUBECONFIG: kubeconfig,
    MUSTER_HTTP_ADDR: "127.0.0.1:0",
    PROVISION_KEY_FILE: await writeEngineKey(options.directory),
    // A process has no file system of its own: the embedded kubelet takes a relative path as below the pod's directory.
    ...(cluster === undefined ? {} : { SESSION_RESULT_FILE: "result.json" }),
    // Each node of the embedded cluster is in a pool.
    ...(cluster === undefined ? {} : forLargestPool(options.pools)),
    ...(options.elastic === undefined || cloud === undefined
      ? {}
      : await writePoolsFile(options.directory, options.elastic, cloud)),
    ...(options.poolsFile === undefined ? {} : { NODE_SCALER_FILE: options.poolsFile }),
  };
  const serviceEnv = (service: ServiceName): Env => ({ ...common, ...nats.variablesOf(service), ...options.env });
  const jobs = await defineJobs(options, kubeconfig);
  const services = STANDARD.filter((service) => jobs || service !== "job-controller");
  const scales = cloud !== undefined || options.poolsFile !== undefined;
  const names = scales ? [...services, OPTIONAL] : services;
  const replicas = await startServices(options, serviceEnv, names, starting);
  await poolsSeen(options, nats);
  await writeLocalFile(options.directory, { natsUrl: nats.url, ...nats.files, kubeconfig });

  const all = starting.move();
  return {
    natsUrl: nats.url,
    nats: nats.access,
    kubeconfig,
    cluster,
    cloud,
    broken: broken.promise,
    replicas,
    clientEnv,
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}

/** Empties our own directory; one that holds something else is not ours to empty. */
async function emptyDirectory(directory: string): Promise<void> {
  const found = await readdir(directory).catch((): string[] => []);
  if (found.length > 0 && !found.includes(OURS)) {
    throwFault({
      code: "invalid_request",
      field: "directory",
      reason: `${directory} holds files that are not Muster's`,
    });
  }
  // Pods of a stack that was killed together with its cluster still run, and the record of them is in here.
  await endAllLeftovers(directory);
  await rm(directory, { recursive: true, force: true });
  await mkdir(join(directory, "logs"), { recursive: true, mode: 0o700 });
  await writeFile(join(directory, OURS), "Emptied at each start of the local stack.\n");
}

/** Ends what runs on the embedded cluster's nodes, and on the machines of its cloud, when nobody else could. */
async function endAllLeftovers(directory: string): Promise<void> {
  const cluster = join(directory, "cluster");
  await endLeftovers(join(cluster, "nodes"));
  await endLeftovers(machineNodesOf(machinesOf(cluster)));
}

/** What the results of leases are signed with: a key of this stack only. */
async function writeEngineKey(directory: string): Promise<string> {
  const path = join(directory, "provision-engine.key");
  await writeFile(path, randomBytes(32).toString("hex"), { mode: 0o600 });
  return path;
}

async function startCluster(
  options: StackOptions,
  starting: AsyncDisposableStack,
): Promise<{ readonly cluster: Child; readonly cloud: Cloud | undefined }> {
  const { directory, elastic } = options;
  const machines = elastic === undefined ? [] : ["--machines", await writeMachinesFile(directory, elastic)];
  const pools = Object.entries(options.pools).map(([name, nodes]) => `${name}=${nodes}`);
  const child = startChild({
    name: "devcluster",
    entry: join(ROOT, "tools/devcluster/src/main.ts"),
    args: [
      "--directory",
      join(options.directory, "cluster"),
      "--kubeconfig",
      join(options.directory, "kubeconfig"),
      "--pools",
      pools.join(","),
      ...machines,
    ],
    env: options.baseEnv,
    logFile: join(options.directory, "logs/devcluster.log"),
  });
  starting.defer(async () => {
    await child.stop();
    // A cluster that was killed could not end the processes of its pods.
    await endAllLeftovers(directory);
  });
  const line = await child.line((text) => (text.includes('"kubeconfig"') ? text : undefined));
  const names = elastic?.pools.map(({ name, max }) => `${name}=0..${max}`) ?? [];
  options.onProgress(`embedded cluster with ${[...pools, ...names].join(", ")}`);
  return { cluster: child, cloud: readCloud(line) };
}

/** Where jobs run that name no pool, and containers that are leased. */
function forLargestPool(pools: Readonly<Record<string, number>>): Env {
  const [largest] = Object.entries(pools).sort(([, a], [, b]) => b - a);
  return largest === undefined ? {} : { JOB_DEFAULT_POOL: largest[0], PROVISION_CONTAINER_POOLS: largest[0] };
}

/** Whether the cluster knows jobs when this is done; it knows what the engine of leases needs, too. One of the user's is changed only when that was asked for. */
async function defineJobs(options: StackOptions, kubeconfig: string): Promise<boolean> {
  if (options.kubeconfig === undefined || options.installDefinitions === true) {
    const names = await installDefinitions(kubeconfig, join(ROOT, "deploy/crds"), options.signal);
    await installLeaseRole(kubeconfig, join(ROOT, "deploy/kubernetes/slices.yaml"), options.signal);
    options.onProgress(`definitions ${names.join(", ")} are installed`);
    return true;
  }
  if (await jobsAreInstalled(kubeconfig, options.signal)) return true;
  options.onProgress(
    "this cluster does not know jobs, so the job-controller is not started: give --install-definitions, or kubectl apply --server-side -f deploy/crds/muster.dev_jobs.yaml and start again",
  );
  return false;
}

async function startServices(
  options: StackOptions,
  env: (service: ServiceName) => Env,
  services: readonly ServiceName[],
  starting: AsyncDisposableStack,
): Promise<Replica[]> {
  const wanted = services.flatMap((service) =>
    Array.from({ length: options.replicas?.[service] ?? 1 }, (_, index) => ({ service, index })),
  );
  const replicas = await Promise.all(
    wanted.map(async ({ service, index }) => {
      const replica = keepRunning(options, service, `${service}-${index}`, env(service));
      starting.defer(replica.stop);
      await replica.ready;
      return replica;
    }),
  );
  options.onProgress(`services ${services.join(", ")} are ready`);
  return replicas;
}

/**
 * Waits until the ledger has heard of the nodes, so that the first session does not meet an empty world. A cluster of the user's may have no pools at all; that is
 * for the session to say.
 */
async function poolsSeen(options: StackOptions, nats: StackNats): Promise<void> {
  const elastic = Object.fromEntries(options.elastic?.pools.map(({ name, max }) => [name, max]) ?? []);
  const scaled = options.poolsFile === undefined ? {} : await readPoolsFile(options.poolsFile);
  const wanted = { ...(options.kubeconfig === undefined ? { ...options.pools, ...elastic } : {}), ...scaled };
  await using bus = await connectNats({ ...nats.access, name: "local-stack" });
  const ledger = client(bus, ReservationService);
  const end = performance.now() + POOLS_TIMEOUT_MS;
  for (;;) {
    const { pools } = await ledger.listPools({}, { timeoutMs: READY_TIMEOUT_MS, signal: options.signal });
    const seen = new Map(pools.map(({ name, capacity, elasticMax }) => [name, Math.max(capacity, elasticMax)]));
    const usable = [...seen.values()].every((machines) => machines > 0);
    const complete = usable && Object.entries(wanted).every(([pool, nodes]) => (seen.get(pool) ?? 0) >= nodes);
    if ((complete && seen.size > 0) || performance.now() > end) {
      const words = [...seen].map(([pool, machines]) => `${pool} (${machines})`).join(", ");
      options.onProgress(`pools: ${words === "" ? "none; label the nodes with pool=NAME" : words}`);
      return;
    }
    await sleep(50, undefined, { signal: options.signal });
  }
}

function keepRunning(
  options: StackOptions,
  service: ServiceName,
  name: string,
  env: Env,
): Replica & { ready: Promise<void>; stop: () => Promise<void> } {
  let stopping = false;
  let restartInMs = RESTART_MIN_MS;
  let address = "";
  let timer: NodeJS.Timeout | undefined;
  let awayMs: number | undefined;
  const logFile = join(options.directory, `logs/${name}.log`);
  const start = (): Child => {
    const startedMs = performance.now();
    const child = startChild({ name, entry: join(ROOT, `apps/${service}/src/main.ts`), env, logFile });
    void child.exited.then((how) => {
      if (stopping) return;
      if (performance.now() - startedMs > RESTART_MAX_MS) restartInMs = RESTART_MIN_MS;
      const inMs = awayMs ?? restartInMs;
      options.onProgress(`${name} ended (${how}); starting it again in ${inMs} ms, its log is ${logFile}`);
      timer = setTimeout(restart, inMs);
      if (awayMs === undefined) restartInMs = Math.min(restartInMs * 2, RESTART_MAX_MS);
      awayMs = undefined;
    });
    return child;
  };
  const becomeReady = async (child: Child): Promise<void> => {
    address = await serviceReady(child, { timeoutMs: READY_TIMEOUT_MS, signal: options.signal });
  };
  const restart = (): void => {
    timer = undefined;
    if (stopping) return;
    current = start();
    becomeReady(current).catch((error: unknown) => {
      options.onProgress(`${name}: ${error instanceof Error ? error.message : String(error)}`);
    });
  };
  let current = start();
  return {
    service,
    current: () => current,
    address: () => address,
    kill: async (ms) => {
      if (timer === undefined) {
        awayMs = ms;
        await current.kill();
        return;
      }
      clearTimeout(timer);
      timer = setTimeout(restart, ms);
    },
    ready: becomeReady(current),
    stop: async () => {
      stopping = true;
      clearTimeout(timer);
      await current.stop();
    },
  };
}

/** Tells the CLI where the stack is. */
async function writeLocalFile(
  directory: string,
  stack: StackNats["files"] & { readonly natsUrl: string; readonly kubeconfig: string },
): Promise<void> {
  const content = { ...stack, pid: process.pid };
  await writeFile(join(directory, "local.json"), JSON.stringify(content, undefined, 2), { mode: 0o600 });
}
