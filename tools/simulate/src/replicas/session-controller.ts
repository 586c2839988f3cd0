import { client, consumeEvents, publishEvent } from "@muster/bus";
import { faultOf, describeFault, throwFault } from "@muster/faults";
import { annotations, labels, muster, ReservationService, streams, subjects } from "@muster/proto";
import { act, explainWaiting, release, type ActDeps } from "@muster/session-controller/act";
import { readConfig } from "@muster/session-controller/config";
import { executeMessage } from "@muster/session-controller/execute-message";
import type { ExecutorDeps, Stored } from "@muster/session-controller/executor";
import { followViews, hearGrant, type HintDeps } from "@muster/session-controller/hints";
import {
  digestCodec,
  eventMessage,
  ownedReservationOf,
  podSeenOf,
  recordCodec,
} from "@muster/session-controller/messages";
import { occupancyOf } from "@muster/session-controller/occupancy";
import type { RequestDeps } from "@muster/session-controller/requests";
import type { SessionRecord } from "@muster/session-controller/session";
import { sweepForever, type SweepDeps } from "@muster/session-controller/sweep";
import { createBell, createWakeups } from "@muster/session-controller/wakeups";
import { protoCodec, type Bucket } from "@muster/store";
import { simLead } from "../sim-lead.ts";
import { simPodLogs, simPods } from "../sim-pods.ts";
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
export const CONFIG = { ...readConfig({ SESSION_EXECUTORS: String(EXECUTORS) }) };
const SWEEP_LOCK_TTL_MS = 10_000;

export async function runController(
  world: World,
  replica: Replica,
  desks: Desks,
  tamper: Tamper = (deps) => deps,
): Promise<void> {
  const { process, gone, stop, bus } = replica;
  const logger = traceLogger(world, process);
  const records = await openBucketView(world, world.sessions, recordCodec, gone.signal);
  const { view: index } = await openBucketView(world, world.sessions, digestCodec, gone.signal);
  const podCodec = protoCodec(muster.watch.v1.PodState);
  const { view: pods } = await openBucketView(world, world.podStates, podCodec, gone.signal, "session.>");
  const wakeups = createWakeups();
  const leftover = createBell();
  const load = (name: string): Promise<Stored | undefined> => loadRecord(records.bucket, name);
  const enqueue = async ({ name, uid }: Pick<SessionRecord, "name" | "uid">, messageId: string): Promise<void> => {
    await publishEvent(bus, subjects.runSession(name), muster.session.v1.RunSession, { name, uid }, { messageId });
  };
  const announce = (record: SessionRecord, from: number): Promise<void> => announceEvents(bus, record, from);
  const hints: HintDeps = { logger, wakeups, leftover, index, pods, load, enqueue };
  followViews(hints);
  await bus.listen(subjects.anyReservationGranted, ({ payload }) => hearGrant(hints, payload));
  const reservations = client(bus, ReservationService);
  const livePods = simPods(world);
  const logStore = simLogStore(world);
  const acting: ActDeps = {
    now: Date.now,
    reservations,
    pods: livePods,
    podLogs: simPodLogs(world),
    logStore,
    podPolicy: { ...CONFIG.kube, namespace: CONFIG.kube.namespace, keys: { labels, annotations } },
    executorsMost: CONFIG.executorsMost,
    logBytesMost: CONFIG.logs.perContainerBytes,
    logPatienceMs: CONFIG.logs.patienceMs,
  };
  const executor: ExecutorDeps = tamper({
    now: Date.now,
    monotonicMs: () => performance.now(),
    executor: process.name,
    logger,
    load,
    save: (record, revision) => records.bucket.update(record.name, record, revision),
    wake: (name) => wakeups.open(name),
    enqueue: (record) => enqueue(record, `${record.uid}-${crypto.randomUUID()}`),
    pods: (record) =>
      record.components.flatMap(({ pod }) => {
        const entry = pods.get(`session.${record.name}.${pod}`);
        return entry === undefined ? [] : [podSeenOf(entry.value)];
      }),
    listPods: (record) => livePods.ofSession(record.name),
    act: (record, step) => act(acting, record, step),
    announce,
    span: (_record, _phase, work) => work(),
  });
  const sweep: SweepDeps = {
    now: Date.now,
    logger,
    rest: (ms, signal) => leftover.wait(ms, signal),
    listPods: () => livePods.ofAllSessions(),
    listReservations: async () =>
      (await reservations.listReservations({ ownerKind: "session", limit: 500 })).reservations.map(ownedReservationOf),
    sessions: () => index.entries().map(({ value }) => value),
    load,
    save: (record, revision) => records.bucket.update(record.name, record, revision),
    run: (name, uid) => enqueue({ name, uid }, `${uid}-${crypto.randomUUID()}`),
    deletePod: (pod, uid) => livePods.delete(pod, uid),
    release: (session, id) => release(reservations, session, id, crypto.randomUUID()),
    forget: async ({ record, revision }) => {
      await records.bucket.delete(record.name, revision);
    },
  };
  desks.set(replica, {
    now: Date.now,
    newUid: () => crypto.randomUUID(),
    traceparent: () => "",
    load,
    create: (record) => records.bucket.create(record.name, record),
    save: executor.save,
    occupancy: occupancyOf(index),
    explain: (record) => explainWaiting(reservations, record),
    enqueue: async (record, occasion) => {
      await enqueue(record, `${record.uid}-${occasion}`).catch((error: unknown) => {
        const fault = faultOf(error);
        if (fault === undefined) throw error;
        logger.warn({ session: record.name, reason: describeFault(fault) }, "left for the sweep to queue");
      });
    },
    announce,
    namesAfter: (name) => index.entries().flatMap(({ key }) => (key > name ? [key] : [])),
    wake: (name) => wakeups.open(name),
    keptLog: (name, range) => logStore.read(name, range),
    liveLog: () => throwFault({ code: "not_found", kind: "log", id: "" }),
    sizeOf: () => 0,
  });
  gone.signal.addEventListener("abort", () => desks.delete(replica));
  stop.signal.addEventListener("abort", () => desks.delete(replica));
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
        if (faultOf(error) === undefined) world.defects.push(`${process.name}: ${subject}: ${String(error)}`);
      },
    },
    muster.session.v1.RunSession,
    (message, delivery) => executeMessage(executor, CONFIG, message, delivery, stop.signal),
  );
  const election = { ...world, lock: world.sweepLock, ttlMs: SWEEP_LOCK_TTL_MS };
  await simLead(election, process, stop.signal, (leadership) => sweepForever(sweep, CONFIG.sweep, leadership.signal));
}

async function loadRecord(records: Bucket<SessionRecord>, name: string): Promise<Stored | undefined> {
  const entry = await records.get(name);
  return entry === undefined ? undefined : { record: entry.value, revision: entry.revision };
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
