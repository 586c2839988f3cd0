import { MemoryWorld } from "@muster/bus";
import type { SessionShape } from "@muster/chaos/plan-shapes";
import { makeRandom, type Random } from "@muster/chaos/random";
import { buckets, streams } from "@muster/proto";
import type { Logger } from "@muster/service";
import { Cluster } from "./cluster.ts";
import { makeKubelets, type Kubelets } from "./kubelets.ts";
import { makeNetwork, type Network } from "./network.ts";
import { replaceClock } from "./replace-clock.ts";
import type { BusWorld } from "./sim-bus.ts";
import { makeBucketWorld, type BucketWorld } from "./sim-bucket.ts";
import type { LockWorld } from "./sim-leader-election.ts";
import type { LogWorld } from "./sim-log.ts";
import { makeTrace, type Trace } from "./trace.ts";
import { VirtualTime } from "./virtual-time.ts";
import type { Process } from "./task-queue.ts";
import { makeFaultRisks, type FaultRisks } from "./fault-risks.ts";

/** The object of one run of a lease in the cluster. */
export type LeaseObject = {
  readonly uid: string;
  readonly lease: string;
  readonly run: number;
  readonly createdMs: number;
};

export type LeaseObjects = {
  /** Created objects by lease and run. */
  readonly made: Map<string, LeaseObject>;
  uids: number;
  /** Called for each new object. */
  readonly onMake: ((object: LeaseObject) => void)[];
};

/** Simulated environment of the replicas. */
export type World = {
  readonly time: VirtualTime;
  readonly startMs: number;
  /** Random source for code without a separate one. */
  readonly random: Random;
  /** Random source for the wall clocks of processes. */
  readonly clocks: Random;
  readonly weather: FaultRisks;
  readonly network: Network;
  readonly trace: Trace;
  readonly bus: BusWorld;
  readonly sessions: BucketWorld;
  readonly podStates: BucketWorld;
  readonly nodeStates: BucketWorld;
  readonly queueStates: BucketWorld;
  readonly ledger: LogWorld;
  readonly ledgerLock: LockWorld;
  readonly sessionLock: LockWorld;
  readonly leases: BucketWorld;
  readonly leaseLock: LockWorld;
  readonly leaseObjects: LeaseObjects;
  readonly cluster: Cluster;
  readonly kubelets: Kubelets;
  readonly shapes: ReadonlyMap<string, SessionShape>;
  /** Kept logs by session, pod and container. */
  readonly keptLogs: Map<string, Uint8Array>;
  /** Errors that are not faults, and log lines of level error. */
  readonly defects: string[];
};

const START_MS = Date.UTC(2030, 0, 1);

export function makeWorld(seed: number, shapes: readonly SessionShape[]): World {
  const time = new VirtualTime(START_MS);
  const random = makeRandom(seed, "world");
  replaceClock(time, makeRandom(seed, "node"));
  const trace = makeTrace(() => time.nowMs, START_MS);
  const weather = makeFaultRisks(makeRandom(seed, "weather"));
  const network = makeNetwork(time, weather, trace);
  const memory = new MemoryWorld({
    now: () => time.nowMs,
    after: (ms, run) => {
      const task = time.after(ms, undefined, run);
      return () => {
        task.over = true;
      };
    },
  });
  const cluster = new Cluster(time, trace);
  const byName = new Map(shapes.map((shape) => [shape.name, shape]));
  const holdersCheckClock = random.chance(0.5);
  const lock = (name: string): LockWorld => ({ name, token: 0, holder: undefined, renewedAtMs: 0, holdersCheckClock });
  return {
    time,
    startMs: START_MS,
    random,
    clocks: makeRandom(seed, "clocks"),
    weather,
    network,
    trace,
    bus: { time, weather, network, trace, memory, responders: new Map(), listeners: new Set() },
    sessions: makeBucketWorld(buckets.sessions),
    podStates: makeBucketWorld(buckets.pods),
    nodeStates: makeBucketWorld(buckets.nodes),
    queueStates: makeBucketWorld(buckets.queues),
    ledger: { entries: [], fenced: true, snapshot: undefined, snapshotEveryEntries: Infinity, onEntry: [] },
    ledgerLock: lock("reservation-manager"),
    sessionLock: lock("session-controller"),
    leases: makeBucketWorld(buckets.leases),
    leaseLock: lock("provision-engine"),
    leaseObjects: { made: new Map(), uids: 0, onMake: [] },
    cluster,
    kubelets: makeKubelets(time, weather, cluster, byName),
    shapes: byName,
    keptLogs: new Map(),
    defects: [],
  };
}

/** Buckets that processes watch. */
export function listWatchedBuckets({
  sessions,
  podStates,
  nodeStates,
  queueStates,
  leases,
}: World): readonly BucketWorld[] {
  return [sessions, podStates, nodeStates, queueStates, leases];
}

/** Streams of the messages between services. */
export const STREAMS = [streams.events, streams.dead] as const;

/** Writes the log of one process into the trace. Errors count as defects. */
export function makeTraceLogger({ trace, defects }: World, process: Process): Logger {
  const writeLog = (level: string) => (fields: object, message: string) => {
    trace.note(process.name, `${level} ${message} ${formatFields(fields)}`);
    if (level === "error") defects.push(`${process.name}: ${message} ${formatFields(fields)}`);
  };
  const logger: Logger = {
    debug: () => undefined,
    info: writeLog("info"),
    warn: writeLog("warn"),
    error: writeLog("error"),
    child: () => logger,
  };
  return logger;
}

function formatFields(fields: object): string {
  return JSON.stringify(fields, (_key, value: unknown) => {
    if (typeof value === "bigint") return String(value);
    return value instanceof Error ? value.message : value;
  });
}
