import { appendFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { makeClient, type Client, connectNats, type NatsBus } from "@muster/bus";
import { type FaultyApi, type SimulatedNodes, startFaultyApi, startSimulatedNodes } from "@muster/devcluster";
import { makeKubeCalls, loadKube, type KubeCalls } from "@muster/kube";
import { type Stack, startStack } from "@muster/local";
import { buckets, JobService, muster, ReservationService, SessionService } from "@muster/proto";
import { openBucket, openView, makeProtoCodec, type View } from "@muster/store";
import { type ApiServerKind, type ApiServerProcess, startApiServerProcess } from "./api-server-process.ts";
import { startCollector } from "./collect-owned.ts";
import { CROWDED_AFTER_MS } from "./domain/judge-jobs.ts";
import { type JobObserver, startJobObserver } from "./job-observer.ts";
import { type NatsProcess, startNatsProcess } from "./nats-process.ts";
import { type RoomObserver, startRoomObserver } from "./room-observer.ts";
import { type QueueObserver, startQueueObserver } from "./queue-observer.ts";
import { type PodObserver, startPodObserver } from "./pod-observer.ts";

/** A new stack, with its observers and the controls for faults. */
export type World = AsyncDisposable & {
  readonly bus: NatsBus;
  readonly sessions: Client<typeof SessionService>;
  readonly jobService: Client<typeof JobService>;
  /** Client of the API server, past the injected faults. */
  readonly calls: KubeCalls;
  readonly jobs: JobObserver;
  readonly ledger: Client<typeof ReservationService>;
  /** The records of the session-controller. */
  readonly records: View<muster.session.v1.SessionRecord>;
  readonly pods: PodObserver;
  readonly room: RoomObserver;
  readonly queues: QueueObserver;
  readonly stack: Stack;
  readonly nats: NatsProcess;
  readonly api: ApiServerProcess;
  readonly faulty: FaultyApi;
  readonly nodes: SimulatedNodes;
  /** Directory of the services' logs. */
  readonly logs: string;
  /** Stops the services in order. The rest of the world stays, so that leftovers can be listed. */
  readonly stopServices: () => Promise<void>;
};

export type WorldOptions = {
  readonly directory: string;
  readonly seed: number;
  readonly apiServer: ApiServerKind;
  readonly pools: Readonly<Record<string, number>>;
  readonly replicas: number;
  readonly executors: number;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly signal: AbortSignal;
  readonly onProgress: (line: string) => void;
};

/** TTL of a lock. */
export const LOCK_TTL_MS = 1000;
/** An unacknowledged message is redelivered after this time. */
export const ACK_WAIT_MS = 2000;
const IMAGE_GRACE_MS = 3000;
const LEASE_EVERY_MS = 1000;
const POOLS_TIMEOUT_MS = 30_000;

export async function startWorld(options: WorldOptions): Promise<World> {
  const { directory, seed, pools, signal } = options;
  await using started = new AsyncDisposableStack();
  const nats = started.use(await startNatsProcess({ directory: join(directory, "nats"), env: options.env, signal }));
  const api = started.use(await startApiServerProcess(options.apiServer, join(directory, "api-server")));
  const pods = started.use(await startPodObserver(api.kubeconfig));
  const room = started.use(await startRoomObserver(api.kubeconfig));
  const nodes = started.use(
    await startSimulatedNodes({
      kubeconfig: api.kubeconfig,
      pools,
      leaseEveryMs: LEASE_EVERY_MS,
      onError: logNodeErrors(join(directory, "stack/logs/nodes.log")),
      ...(api.kubelet !== undefined && {
        access: { bearerToken: api.kubelet.token },
        certificate: api.kubelet.certificate,
      }),
    }),
  );
  const faulty = started.use(await startFaultyApi({ kubeconfig: api.kubeconfig, directory, seed }));
  signal.throwIfAborted();
  const stack = await startServices(options, { nats, faulty });
  let running = true;
  const stopServices = async (): Promise<void> => {
    if (!running) return;
    running = false;
    await stack[Symbol.asyncDispose]();
  };
  started.defer(stopServices);
  const bus = started.use(await connectNats({ url: nats.url, token: nats.token, name: "chaos" }));
  const ledger = makeClient(bus, ReservationService);
  await waitForPools(ledger, pools, signal);
  const bucket = await openBucket(bus.connection, {
    name: buckets.sessions,
    codec: makeProtoCodec(muster.session.v1.SessionRecord),
  });
  const records = started.use(await openView(bucket, { signal }));
  const sessions = makeClient(bus, SessionService);
  const jobService = makeClient(bus, JobService);
  const calls = started.use(makeKubeCalls(loadKube(api.kubeconfig)));
  const jobs = started.use(await startJobObserver(api.kubeconfig));
  const queues = started.use(await startQueueObserver(api.kubeconfig));
  // A real API server alone has no garbage collector.
  if (options.apiServer === "real") started.use(startCollector(calls));
  const logs = join(directory, "stack/logs");
  const all = started.move();
  const dispose = (): Promise<void> => all.disposeAsync();
  const parts = {
    bus,
    sessions,
    jobService,
    calls,
    jobs,
    ledger,
    records,
    pods,
    room,
    queues,
    stack,
    nats,
    api,
    faulty,
    nodes,
    logs,
    stopServices,
  };
  return { ...parts, [Symbol.asyncDispose]: dispose };
}

/** Logs errors of the simulated nodes beside the services' logs, for the stories. */
function logNodeErrors(file: string): (error: unknown, doing: string) => void {
  return (error, doing) => {
    const line = { level: "warn", time: new Date().toISOString(), msg: doing, error: String(error) };
    // The folder is missing before the services start and after the end, when the log is not needed.
    appendFile(file, `${JSON.stringify(line)}\n`).catch(() => undefined);
  };
}

function startServices(
  { directory, replicas, executors, env, signal, onProgress }: WorldOptions,
  { nats, faulty }: { readonly nats: NatsProcess; readonly faulty: FaultyApi },
): Promise<Stack> {
  return startStack({
    directory: join(directory, "stack"),
    kubeconfig: faulty.kubeconfig,
    nats: { url: nats.url, token: nats.token },
    installDefinitions: true,
    pools: {},
    replicas: {
      watcher: replicas,
      "reservation-manager": replicas,
      "session-controller": replicas,
      "job-controller": replicas,
    },
    env: {
      RESERVATION_LOCK_TTL_MS: String(LOCK_TTL_MS),
      SESSION_LOCK_TTL_MS: String(LOCK_TTL_MS),
      SESSION_SWEEP_MS: "1000",
      SESSION_LEAK_AGE_MS: "3000",
      SESSION_LOOK_AGAIN_MS: "200",
      SESSION_EXECUTORS: String(executors),
      WATCHER_START_GRACE_MS: String(IMAGE_GRACE_MS),
      JOB_LOCK_TTL_MS: String(LOCK_TTL_MS),
      JOB_SYNC_PERIOD_MS: "2000",
      JOB_REFRESH_MS: "1000",
      JOB_DISCOVER_MS: "2000",
      JOB_REQUEST_TIMEOUT_MS: "5000",
      JOB_REFUSED_RETRY_MS: "500",
      JOB_RESTART_BACKOFF_MS: "100",
      JOB_NODE_LOST_MS: "1000",
      JOB_REPLACEMENT_WAIT_MS: String(CROWDED_AFTER_MS),
    },
    // The services get only the variables that every process needs.
    baseEnv: Object.fromEntries(
      ["PATH", "HOME", "NODE_COMPILE_CACHE", "NODE_OPTIONS"].map((name) => [name, env[name]]),
    ),
    signal,
    onProgress,
  });
}

export async function waitForPools(
  ledger: World["ledger"],
  expected: Readonly<Record<string, number>>,
  signal: AbortSignal,
): Promise<void> {
  const end = performance.now() + POOLS_TIMEOUT_MS;
  for (;;) {
    const { pools } = await ledger.listPools({}, { signal, timeoutMs: POOLS_TIMEOUT_MS });
    const free = new Map(pools.map(({ name, available }) => [name, available]));
    if (Object.entries(expected).every(([name, nodes]) => free.get(name) === nodes)) return;
    if (performance.now() > end) throw new Error(`the ledger does not know all nodes after ${POOLS_TIMEOUT_MS} ms`);
    await sleep(50, undefined, { signal });
  }
}
