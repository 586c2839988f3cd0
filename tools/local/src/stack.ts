import { randomBytes } from "node:crypto";
import { mkdir, readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { makeClient, connectNats } from "@muster/bus";
import { endLeftovers, machineNodesOf, listPoolMachines } from "@muster/devcluster";
import { throwFault } from "@muster/faults";
import { ReservationService } from "@muster/proto";
import { OPTIONAL, type ServiceName, STANDARD } from "@muster/repo/services";
import { refuseBesideAnother } from "./another-muster.ts";
import { type Child, waitForService, startChild } from "./child.ts";
import { installDefinitions, installLeaseRole, areJobsInstalled } from "./definitions.ts";
import { type Cloud, type Elastic, readCloud, readPoolsFile, writeMachinesFile, writePoolsFile } from "./elastic.ts";
import { ensureOnlyOne } from "./ensure-only-one.ts";
import { prepareNats, type NamedNats, type NatsVariables as Env, type StackNats } from "./stack-nats.ts";
import { withLeanMemory } from "./lean-memory.ts";
import { ROOT } from "./root.ts";

export type StackOptions = {
  /** Directory for all files of the stack; emptied at start. */
  readonly directory: string;
  /** Use this cluster instead of an embedded one. */
  readonly kubeconfig?: string;
  /** Install the resource definitions in that cluster; the embedded cluster always has them. */
  readonly installDefinitions?: boolean;
  /** Use this NATS server instead of a new one. No other Muster may use it, because its buckets belong to this stack. */
  readonly nats?: NamedNats;
  /** Nodes of the embedded cluster. */
  readonly pools: Readonly<Record<string, number>>;
  /** Elastic pools of the embedded cluster. Ignored with `kubeconfig`. */
  readonly elastic?: Elastic;
  /** Pools file of a node-scaler for the user's cluster. */
  readonly poolsFile?: string;
  /** Replicas of each service; default 1. */
  readonly replicas?: Partial<Readonly<Record<ServiceName, number>>>;
  /** `host:port` of the HTTP API; default: a free port of 127.0.0.1. */
  readonly apiAddress?: string;
  /** Additional variables for the services. */
  readonly env?: Readonly<Record<string, string>>;
  /** Returns the program that the next start of a service runs; default: that of this repository. */
  readonly programOf?: (service: ServiceName) => string;
  readonly baseEnv: Readonly<Record<string, string | undefined>>;
  readonly signal: AbortSignal;
  readonly onProgress: (line: string) => void;
};

/** A replica of a service. Its process is restarted when it ends. */
export type Replica = {
  readonly service: ServiceName;
  readonly current: () => Child;
  /** host:port of /livez, /readyz and /metrics. */
  readonly address: () => string;
  /** Sends SIGKILL and restarts the process after `awayMs`. The back-off for crashes does not grow. */
  readonly kill: (awayMs: number) => Promise<void>;
};

export type Stack = AsyncDisposable & {
  readonly natsUrl: string;
  /** Access for programs other than the services, with the rights of the command line. */
  readonly nats: StackNats["access"];
  readonly kubeconfig: string;
  /** Address of the HTTP API, and the file with the token of its owner. */
  readonly api: { readonly url: string; readonly tokenFile: string };
  readonly replicas: readonly Replica[];
  /** Resolves when NATS or the embedded cluster has ended unexpectedly. The stack cannot continue: their state is lost. */
  readonly broken: Promise<string>;
  /** The process of the embedded cluster; undefined with the user's cluster. */
  readonly cluster: Child | undefined;
  /** The cloud that boots machines of elastic pools; undefined without such pools. */
  readonly cloud: Cloud | undefined;
  /** Variables with which the CLI finds this stack. */
  readonly clientEnv: Readonly<Record<string, string | undefined>>;
};

/** Marks a directory that a local stack may empty. */
const MARKER = ".muster-local-stack";
const READY_TIMEOUT_MS = 60_000;
const POOLS_TIMEOUT_MS = 10_000;
const RESTART_MIN_MS = 500;
const RESTART_MAX_MS = 30_000;

/**
 * Starts NATS, the embedded cluster (unless a kubeconfig is given) and the services, each as a process, and resolves when all are ready. Disposal stops them in
 * reverse order; when this process dies, they end by themselves.
 */
export async function startStack(options: StackOptions): Promise<Stack> {
  await using starting = new AsyncDisposableStack();
  starting.use(await ensureOnlyOne(options.directory));
  await emptyDirectory(options.directory);

  if (options.kubeconfig !== undefined) await refuseBesideAnother(options.kubeconfig, options.signal);
  const broken = Promise.withResolvers<string>();
  const nats = await prepareNats(options, starting, broken.resolve);
  options.signal.throwIfAborted();
  const started = options.kubeconfig === undefined ? await startCluster(options, starting) : undefined;
  const { cluster, cloud } = started ?? {};
  void cluster?.exited.then((how) => {
    broken.resolve(`the embedded cluster ended (${how}). Its log is ${join(options.directory, "logs/devcluster.log")}`);
  });
  const kubeconfig = options.kubeconfig ?? join(options.directory, "kubeconfig");

  const clientEnv = { ...options.baseEnv, ...nats.variablesOf("cli") };
  const common = {
    ...withLeanMemory(options.baseEnv),
    MUSTER_KUBECONFIG: kubeconfig,
    MUSTER_HTTP_ADDR: "127.0.0.1:0",
    PROVISION_KEY_FILE: await writeKey(options.directory, "provision-engine.key"),
    GATEWAY_ADDR: options.apiAddress ?? "127.0.0.1:0",
    GATEWAY_TOKEN_FILE: join(options.directory, "gateway.token"),
    GATEWAY_SESSION_KEY_FILE: await writeKey(options.directory, "gateway.session-keys"),
    // Pods of the embedded cluster share the file system of this machine: its kubelet resolves a relative path in the pod's directory.
    ...(cluster === undefined ? {} : { SESSION_RESULT_FILE: "result.json" }),
    ...(cluster === undefined ? {} : defaultsForLargestPool(options.pools)),
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
  const { replicas, apiUrl } = await startServices(options, serviceEnv, names, starting);
  await waitForPools(options, nats);
  await writeLocalFile(options.directory, { natsUrl: nats.url, ...nats.files, kubeconfig });

  const all = starting.move();
  return {
    natsUrl: nats.url,
    nats: nats.access,
    kubeconfig,
    api: { url: apiUrl, tokenFile: common.GATEWAY_TOKEN_FILE },
    cluster,
    cloud,
    broken: broken.promise,
    replicas,
    clientEnv,
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}

/** Empties the directory of an earlier stack. Throws where the directory holds other files. */
async function emptyDirectory(directory: string): Promise<void> {
  const found = await readdir(directory).catch((): string[] => []);
  if (found.length > 0 && !found.includes(MARKER)) {
    throwFault({
      code: "invalid_request",
      field: "directory",
      reason: `${directory} holds files that are not Muster's`,
    });
  }
  // Pods still run when a stack was killed together with its cluster; their records are in this directory.
  await endAllLeftovers(directory);
  await rm(directory, { recursive: true, force: true });
  await mkdir(join(directory, "logs"), { recursive: true, mode: 0o700 });
  await writeFile(join(directory, MARKER), "Emptied at each start of the local stack.\n");
}

/** Ends the pods that a killed cluster left on its nodes and on the machines of its cloud. */
async function endAllLeftovers(directory: string): Promise<void> {
  const cluster = join(directory, "cluster");
  await endLeftovers(join(cluster, "nodes"));
  await endLeftovers(machineNodesOf(listPoolMachines(cluster)));
}

/** Writes the key that signs the results of leases; each stack has its own. */
async function writeKey(directory: string, name: string): Promise<string> {
  const path = join(directory, name);
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
    // A killed cluster leaves the processes of its pods.
    await endAllLeftovers(directory);
  });
  const line = await child.line((text) => (text.includes('"kubeconfig"') ? text : undefined));
  const names = elastic?.pools.map(({ name, max }) => `${name}=0..${max}`) ?? [];
  options.onProgress(`embedded cluster started with the pools ${[...pools, ...names].join(", ")}`);
  return { cluster: child, cloud: readCloud(line) };
}

/** Makes the largest pool the default of jobs, and the pool of leased containers. */
function defaultsForLargestPool(pools: Readonly<Record<string, number>>): Env {
  const [largest] = Object.entries(pools).sort(([, a], [, b]) => b - a);
  return largest === undefined ? {} : { JOB_DEFAULT_POOL: largest[0], PROVISION_CONTAINER_POOLS: largest[0] };
}

/**
 * Installs the resource definitions and the role of leases; the user's cluster is changed only on request. Returns whether the cluster has the definition of
 * jobs.
 */
async function defineJobs(options: StackOptions, kubeconfig: string): Promise<boolean> {
  if (options.kubeconfig === undefined || options.installDefinitions === true) {
    const names = await installDefinitions(kubeconfig, join(ROOT, "deploy/crds"), options.signal);
    await installLeaseRole(kubeconfig, join(ROOT, "deploy/kubernetes/slices.yaml"), options.signal);
    options.onProgress(`resource definitions ${names.join(", ")} are installed`);
    return true;
  }
  if (await areJobsInstalled(kubeconfig, options.signal)) return true;
  options.onProgress(
    "This cluster has no definition of jobs, so the job-controller is not started. To install it, start with --install-definitions, " +
      "or run `kubectl apply --server-side -f deploy/crds/muster.dev_jobs.yaml` and start again.",
  );
  return false;
}

async function startServices(
  options: StackOptions,
  env: (service: ServiceName) => Env,
  services: readonly ServiceName[],
  starting: AsyncDisposableStack,
): Promise<{ readonly replicas: readonly Replica[]; readonly apiUrl: string }> {
  const names = services.flatMap((service) =>
    Array.from({ length: options.replicas?.[service] ?? 1 }, (_, index) => ({ service, index })),
  );
  let apiUrl = "";
  const replicas = await Promise.all(
    names.map(async ({ service, index }) => {
      const replica = keepRunning(options, service, `${service}-${index}`, env(service));
      starting.defer(replica.stop);
      if (service === "gateway") apiUrl = await replica.current().line(readApiUrl);
      await replica.ready;
      return replica;
    }),
  );
  options.onProgress(`services ${services.join(", ")} are ready`);
  return { replicas, apiUrl };
}

function readApiUrl(line: string): string | undefined {
  if (!line.includes('"serving the API"')) return undefined;
  return (JSON.parse(line) as { readonly url?: string }).url;
}

/** Waits until the ledger knows the nodes, so that the first session finds its pools. A user's cluster may have no pools; the session then reports it. */
async function waitForPools(options: StackOptions, nats: StackNats): Promise<void> {
  const elastic = Object.fromEntries(options.elastic?.pools.map(({ name, max }) => [name, max]) ?? []);
  const scaled = options.poolsFile === undefined ? {} : await readPoolsFile(options.poolsFile);
  const expected = { ...(options.kubeconfig === undefined ? { ...options.pools, ...elastic } : {}), ...scaled };
  await using bus = await connectNats({ ...nats.access, name: "local-stack" });
  const ledger = makeClient(bus, ReservationService);
  const end = performance.now() + POOLS_TIMEOUT_MS;
  for (;;) {
    const { pools } = await ledger.listPools({}, { timeoutMs: READY_TIMEOUT_MS, signal: options.signal });
    const seen = new Map(pools.map(({ name, capacity, elasticMax }) => [name, Math.max(capacity, elasticMax)]));
    const usable = [...seen.values()].every((machines) => machines > 0);
    const complete = usable && Object.entries(expected).every(([pool, nodes]) => (seen.get(pool) ?? 0) >= nodes);
    if ((complete && seen.size > 0) || performance.now() > end) {
      const list = [...seen].map(([pool, machines]) => `${pool} (${machines})`).join(", ");
      options.onProgress(list === "" ? "no pools: label the nodes with pool=NAME" : `machines of each pool: ${list}`);
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
    const entry = options.programOf?.(service) ?? join(ROOT, `apps/${service}/src/main.ts`);
    const child = startChild({ name, entry, env, logFile });
    void child.exited.then((how) => {
      if (stopping) return;
      if (performance.now() - startedMs > RESTART_MAX_MS) restartInMs = RESTART_MIN_MS;
      const inMs = awayMs ?? restartInMs;
      options.onProgress(`${name} ended (${how}) and restarts in ${inMs} ms. Its log is ${logFile}`);
      timer = setTimeout(restart, inMs);
      if (awayMs === undefined) restartInMs = Math.min(restartInMs * 2, RESTART_MAX_MS);
      awayMs = undefined;
    });
    return child;
  };
  const becomeReady = async (child: Child): Promise<void> => {
    address = await waitForService(child, { timeoutMs: READY_TIMEOUT_MS, signal: options.signal });
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

/** Writes the file by which the CLI finds the stack. */
async function writeLocalFile(
  directory: string,
  stack: StackNats["files"] & { readonly natsUrl: string; readonly kubeconfig: string },
): Promise<void> {
  const content = { ...stack, pid: process.pid };
  await writeFile(join(directory, "local.json"), JSON.stringify(content, undefined, 2), { mode: 0o600 });
}
