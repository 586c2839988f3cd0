import { makeBell, takeTurns, type Bell } from "@muster/backoff";
import { client, consumeEvents, publishEvent } from "@muster/bus";
import { faultOf, describeFault, throwFault } from "@muster/faults";
import {
  annotations,
  bucketKeys,
  labels,
  muster,
  ReservationService,
  schedulingGates,
  streams,
  subjects,
} from "@muster/proto";
import type { Logger } from "@muster/service";
import {
  act,
  collect,
  explainWaiting,
  release,
  releaseReplacement,
  type ActDeps,
} from "@muster/session-controller/act";
import { readConfig } from "@muster/session-controller/config";
import { executeMessage } from "@muster/session-controller/execute-message";
import type { ExecutorDeps, Stored } from "@muster/session-controller/executor";
import { followViews, hearGrant, type HintDeps } from "@muster/session-controller/hints";
import {
  digestCodec,
  eventMessage,
  ownedReplacementOf,
  ownedReservationOf,
  podSeenOf,
  recordCodec,
} from "@muster/session-controller/messages";
import type { LogStore } from "@muster/session-controller/log-store";
import { occupancyOf, type Occupant } from "@muster/session-controller/occupancy";
import type { Pods } from "@muster/session-controller/pods";
import { podsFreshOf } from "@muster/session-controller/pods-fresh";
import type { RequestDeps } from "@muster/session-controller/requests";
import type { SessionDigest } from "@muster/session-controller/plan-sweep";
import { REPLACEMENT_KIND } from "@muster/session-controller/replacement-owner";
import type { SessionRecord } from "@muster/session-controller/session";
import { sweepForever, type SweepDeps } from "@muster/session-controller/sweep";
import { createWakeups, type Wakeups } from "@muster/session-controller/wakeups";
import { protoCodec, type Bucket, type View } from "@muster/store";
import { viewNodes, type Nodes } from "@muster/watch";
import { simBucket } from "../sim-bucket.ts";
import { simLead } from "../sim-lead.ts";
import { INSTALLATION, simPodLogs, simPods } from "../sim-pods.ts";
import { simLogStore } from "../sim-log-store.ts";
import { traceLogger, type World } from "../world.ts";
import type { Replica } from "./replica.ts";
import { openBucketView } from "./views.ts";

/** What users may ask this replica for, once it is ready. */
export type Desks = Map<Replica, RequestDeps>;

/** Lets a test plant a defect. */
export type Tamper = (deps: ExecutorDeps) => ExecutorDeps;

/** Sessions that may hold machines at once; machines are scarcer. */
const EXECUTORS = 12;
export const CONFIG = readConfig({ SESSION_EXECUTORS: String(EXECUTORS) });
const SWEEP_LOCK_TTL_MS = 10_000;
/** Far more than there are. */
const RESERVATIONS_MOST = 500;

/** What the parts of one replica share. */
type Parts = {
  readonly failures: ExecutorDeps["failures"];
  readonly world: World;
  readonly replica: Replica;
  readonly logger: Logger;
  readonly records: Bucket<SessionRecord>;
  readonly index: Index;
  readonly pods: View<muster.watch.v1.PodState>;
  readonly mark: View<muster.watch.v1.NodesComplete>;
  readonly nodes: Nodes;
  readonly livePods: Pods;
  readonly logStore: LogStore;
  readonly wakeups: Wakeups;
  readonly leftover: Bell;
  readonly reservations: ActDeps["reservations"];
  readonly load: (name: string) => Promise<Stored | undefined>;
  readonly enqueue: HintDeps["enqueue"];
};

type Index = View<SessionDigest & Occupant>;

/** The service as its own composition has it, with the world's simulated parts behind its ports. */
export async function runController(world: World, replica: Replica, desks: Desks, tamper: Tamper): Promise<void> {
  const { process, gone, stop, bus } = replica;
  const parts = await openParts(world, replica);
  const { logger } = parts;
  followViews(parts);
  await bus.listen(subjects.anyReservationGranted, ({ payload }) => hearGrant(parts, payload));
  const executor = tamper(executorDeps(parts));
  desks.set(replica, requestDeps(parts));
  for (const { signal } of [gone, stop]) signal.addEventListener("abort", () => desks.delete(replica));
  await using _consumer = await consumeEvents(
    bus,
    {
      stream: streams.sessionCommands.name,
      durable: "session-executors",
      subject: subjects.anyRunSession,
      maxInFlight: CONFIG.queue.inFlightMost,
      ackWaitMs: CONFIG.queue.ackWaitMs,
      area: "session",
      signal: stop.signal,
      onRetry: ({ subject, error, delayMs }) => {
        logger.warn({ subject, err: error, delayMs }, "session handed back after an error");
        if (faultOf(error) === undefined) world.defects.push(`${process.name}: ${subject}: ${describeError(error)}`);
      },
    },
    muster.session.v1.RunSession,
    (message, delivery) => executeMessage(executor, CONFIG, message, delivery, stop.signal),
  );
  const election = { ...world, lock: world.sweepLock, ttlMs: SWEEP_LOCK_TTL_MS };
  const deps = sweepDeps(parts);
  await simLead(election, process, stop.signal, (leadership) => sweepForever(deps, CONFIG.sweep, leadership.signal));
}

async function openParts(world: World, replica: Replica): Promise<Parts> {
  const { process, gone, bus } = replica;
  const records = simBucket(world.sessions, recordCodec, world);
  const { view: index } = await openBucketView(world, world.sessions, digestCodec, gone.signal);
  const podCodec = protoCodec(muster.watch.v1.PodState);
  const { view: pods } = await openBucketView(world, world.podStates, podCodec, gone.signal, "session.>");
  const stateCodec = protoCodec(muster.watch.v1.NodeState);
  const { view: states } = await openBucketView(world, world.nodeStates, stateCodec, gone.signal);
  const markCodec = protoCodec(muster.watch.v1.NodesComplete);
  const { view: mark } = await openBucketView(
    world,
    world.nodeStates,
    markCodec,
    gone.signal,
    bucketKeys.nodesComplete,
  );
  return {
    world,
    replica,
    mark,
    logger: traceLogger(world, process),
    records,
    index,
    pods,
    nodes: viewNodes({ states, marks: mark, lostAfterMs: CONFIG.machineLostMs }),
    livePods: simPods(world),
    logStore: simLogStore(world),
    failures: new Map(),
    wakeups: createWakeups(),
    leftover: makeBell(),
    reservations: client(bus, ReservationService),
    load: async (name) => {
      const entry = await records.get(name);
      return entry === undefined ? undefined : { record: entry.value, revision: entry.revision };
    },
    enqueue: async ({ name, uid }, messageId) => {
      await publishEvent(bus, subjects.runSession(name), muster.session.v1.RunSession, { name, uid }, { messageId });
    },
  };
}

function executorDeps(parts: Parts): ExecutorDeps {
  const { world, replica, logger, records, pods, livePods, wakeups, load, enqueue } = parts;
  const acting: ActDeps = {
    now: Date.now,
    reservations: parts.reservations,
    pods: livePods,
    load,
    podLogs: simPodLogs(world),
    logStore: parts.logStore,
    podPolicy: { ...CONFIG.kube, installation: INSTALLATION, keys: { labels, annotations, schedulingGates } },
    executorsMax: CONFIG.executorsMax,
    logBytesMax: CONFIG.logs.perContainerBytes,
    logPatienceMs: CONFIG.logs.patienceMs,
    resultPatienceMs: CONFIG.logs.resultPatienceMs,
    logTurns: takeTurns(CONFIG.logs.readAtOnce),
  };
  return {
    now: Date.now,
    monotonicMs: () => performance.now(),
    failures: parts.failures,
    suspects: takeTurns(1),
    executor: replica.process.name,
    logger,
    load,
    save: (record, revision) => records.update(record.name, record, revision),
    wake: (name) => wakeups.open(name),
    enqueue: (record) => enqueue(record, `${record.uid}-${crypto.randomUUID()}`),
    pods: (record) =>
      record.components.flatMap(({ pod }) => {
        const entry = pods.get(`session.${record.name}.${pod}`);
        return entry === undefined ? [] : [podSeenOf(entry.value)];
      }),
    podsFresh: podsFreshOf(pods, parts.mark, Date.now),
    nodesLost: (names, occupied) => parts.nodes.lostAmong(names, { nowMs: Date.now(), occupied }),
    nodesUsable: (names) => parts.nodes.usableAmong(names, Date.now()),
    listPods: (record) => livePods.ofSession(record),
    act: (record, step) => act(acting, record, step),
    collectLogs: (record, step, onRead, signal) => collect(acting, record, step, onRead, signal),
    announce: (record, from) => announceEvents(replica.bus, record, from),
    span: (_record, _phase, work) => work(),
  };
}

function sweepDeps(parts: Parts): SweepDeps {
  const { logger, records, index, livePods, leftover, reservations, load, enqueue } = parts;
  let changes = 0;
  index.onChange(() => {
    changes += 1;
  });
  return {
    now: Date.now,
    logger,
    rest: (ms, signal) => leftover.wait(ms, signal),
    listPods: () => livePods.ofAllSessions(),
    tellLeftAlone: () => undefined,
    listReservations: async () => {
      const page = await reservations.listReservations({ ownerKind: "session", limit: RESERVATIONS_MOST });
      return page.reservations.map(ownedReservationOf);
    },
    listReplacements: async () => {
      const page = await reservations.listReservations({ ownerKind: REPLACEMENT_KIND, limit: RESERVATIONS_MOST });
      return page.reservations.map(ownedReplacementOf);
    },
    sessions: () => index.entries().map(({ value }) => value),
    changes: () => changes,
    load,
    save: (record, revision) => records.update(record.name, record, revision),
    run: (name, uid) => enqueue({ name, uid }, `${uid}-${crypto.randomUUID()}`),
    deletePod: (pod, uid, force) => livePods.delete(pod, uid, { force }),
    release: (session, id) => release(reservations, session, id, crypto.randomUUID()),
    releaseReplacement: (ownerId, id) => releaseReplacement(reservations, ownerId, id),
    limitSessions: async () => {
      const limit = CONFIG.executorsMax;
      await reservations.limitConcurrency({ requestId: crypto.randomUUID(), ownerKind: "session", limit });
    },
    forget: ({ record, revision }) => records.delete(record.name, revision),
  };
}

function requestDeps(parts: Parts): RequestDeps {
  const { replica, logger, records, index, logStore, wakeups, reservations, load, enqueue } = parts;
  return {
    now: Date.now,
    newUid: () => crypto.randomUUID(),
    traceparent: () => "",
    load,
    create: (record) => records.create(record.name, record),
    save: (record, revision) => records.update(record.name, record, revision),
    occupancy: occupancyOf(index),
    explain: (record) => explainWaiting(reservations, record),
    enqueue: async (record, occasion) => {
      try {
        await enqueue(record, `${record.uid}-${occasion}`);
      } catch (error) {
        const fault = faultOf(error);
        if (fault === undefined) throw error;
        logger.warn({ session: record.name, reason: describeFault(fault) }, "left for the sweep to queue");
      }
    },
    announce: (record, from) => announceEvents(replica.bus, record, from),
    finished: () => undefined,
    namesAfter: (name) => index.entries().flatMap(({ key }) => (key > name ? [key] : [])),
    forget: ({ record, revision }) => records.delete(record.name, revision),
    wake: (name) => wakeups.follow(name),
    keptLog: (name, range) => logStore.read(name, range),
    liveLog: noLog,
    followedLog: noLog,
    sizeOf: () => 0,
  };
}

/** Nobody reads logs here. */
function noLog(): Promise<never> {
  return throwFault({ code: "not_found", kind: "log", id: "" });
}

function describeError(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}

async function announceEvents(bus: Replica["bus"], record: SessionRecord, from: number): Promise<void> {
  const { name, uid } = record;
  const type = muster.session.v1.SessionEventRecorded;
  for (const [index, event] of record.events.entries()) {
    if (index < from) continue;
    const message = { name, uid, event: eventMessage(event) };
    await publishEvent(bus, subjects.sessionEventRecorded(name), type, message, { messageId: `${uid}-${index}` });
  }
}
