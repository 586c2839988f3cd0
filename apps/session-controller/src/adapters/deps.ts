import { randomUUID } from "node:crypto";
import { makeBell, takeTurns, type Bell } from "@muster/backoff";
import { client, publishEvent, type NatsBus } from "@muster/bus";
import { followLogs, loadServiceKube, type LogFollowers } from "@muster/kube";
import {
  annotations,
  bucketKeys,
  buckets,
  labels,
  muster,
  ReservationService,
  schedulingGates,
  streams,
  subjects,
} from "@muster/proto";
import { tellLeftAlone, type ServiceContext } from "@muster/service";
import {
  installationOf,
  openBucket,
  openView,
  protoCodec,
  type Bucket,
  type View,
  type ViewOptions,
} from "@muster/store";
import { traceparentOf } from "@muster/tracing";
import { viewNodes, type Nodes } from "@muster/watch";
import { describeFault, faultOf, throwFault } from "@muster/faults";
import { SESSIONS_BYTES, type Config } from "../config.ts";
import type { SessionRecord } from "../domain/session.ts";
import type { SessionDigest } from "../domain/plan-sweep.ts";
import { REPLACEMENT_KIND } from "../domain/replacement-owner.ts";
import type { ExecutorDeps, Stored } from "../executor.ts";
import type { RequestDeps } from "../requests.ts";
import type { SweepDeps } from "../sweep.ts";
import { createWakeups, type Wakeups } from "../wakeups.ts";
import { act, collect, explainWaiting, release, releaseReplacement, type ActDeps } from "./act.ts";
import { followViews, hearGrant, type HintDeps } from "./hints.ts";
import { openLogStore, type LogStore } from "./log-store.ts";
import {
  digestCodec,
  eventMessage,
  ownedReplacementOf,
  ownedReservationOf,
  podSeenOf,
  recordCodec,
  sessionBytes,
  sessionMessage,
} from "./messages.ts";
import { sessionMetrics, type SessionMetrics } from "./metrics.ts";
import { occupancyOf, type Occupant } from "./occupancy.ts";
import { kubePodLogs } from "./pod-logs.ts";
import { podsFreshOf } from "./pods-fresh.ts";
import { kubePods } from "./pods.ts";
import { inPass, tellPhase } from "./trace.ts";

/** Everything that the service's parts may touch, each part with its own verbs. Disposing stops following the buckets. */
export type Deps = AsyncDisposable & {
  readonly executor: ExecutorDeps;
  readonly requests: RequestDeps;
  readonly sweep: SweepDeps;
  readonly metrics: SessionMetrics;
  /** What is not as fresh as it should be; undefined when all is well. */
  readonly staleness: () => string | undefined;
};

type Records = Bucket<SessionRecord>;
/** What of each session is kept in memory; the rest is read when it is needed. */
type Index = View<SessionDigest & Occupant>;
type PodStates = View<muster.watch.v1.PodState>;

const STALE_MS = 30_000;
/** Sessions expire, so that a full bucket has room again after a while. */
const FULL_RETRY_MS = 1000;
const RESERVATIONS_PAGE = 500;
/** A user who follows a session has a stream for each of its components; one who is gone is noticed by his silence. */
const FOLLOW_LIMITS = { streamsMost: 512, idleMs: 30_000 };

/** Opens what the service lives on; the one place that knows what stands behind each verb. */
export async function openDeps(context: ServiceContext<Config>, bus: NatsBus): Promise<Deps> {
  const { config, logger, signal } = context;
  const { connection } = bus;
  for (const stream of [streams.events, streams.sessionCommands, streams.dead]) await bus.ensureStream(stream);
  const installation = await installationOf(connection);
  const records = await openRecords(connection);
  const podStates = await openBucket(connection, { name: buckets.pods, codec: protoCodec(muster.watch.v1.PodState) });
  const logStore = await openLogStore(connection, config.logs.totalBytes);
  const metrics = sessionMetrics();
  const digests = await openBucket(connection, {
    name: buckets.sessions,
    codec: digestCodec,
    onDecodeError: (error) => {
      metrics.unreadable();
      logger.error({ err: error }, "a stored session cannot be read; nothing of it is touched");
    },
  });
  const onProblem = (error: unknown, retryInMs: number): void =>
    logger.warn({ err: error, retryInMs }, "following sessions or pods is interrupted");
  const index = await openView(digests, { signal, onProblem });
  const pods = await openView(podStates, { filter: "session.>", signal, onProblem });
  const { mark, states } = await openNodeViews(connection, { signal, onProblem });
  const wakeups = createWakeups();
  const leftover = makeBell();
  const failures = new Map<string, number>();
  const hints: HintDeps = {
    logger,
    wakeups,
    leftover,
    index,
    pods,
    failures,
    load: (name) => load(records, name),
    enqueue: (record, messageId) => enqueue(bus, record, messageId),
  };
  followViews(hints);
  const grants = await bus.listen(subjects.anyReservationGranted, ({ payload }) => {
    hearGrant(hints, payload);
  });
  const acting = actDeps(context, bus, { records, logStore, installation });
  const logFollowers = followLogs(
    ({ pod, container }, end) => acting.podLogs.follow(pod, container, end),
    FOLLOW_LIMITS,
  );
  const world: World = {
    context,
    bus,
    metrics,
    records,
    index,
    occupancy: occupancyOf(index),
    pods,
    mark,
    nodes: viewNodes({ states, marks: mark, lostAfterMs: config.machineLostMs }),
    wakeups,
    leftover,
    logStore,
    logFollowers,
    acting,
    failures,
    installation,
  };
  return {
    executor: executorDeps(world),
    requests: requestDeps(world),
    sweep: sweepDeps(world),
    metrics,
    staleness: () => {
      const ageMs = Math.max(index.ageMs(), pods.ageMs());
      return ageMs > STALE_MS ? `sessions or pods were last current ${ageMs} ms ago` : undefined;
    },
    [Symbol.asyncDispose]: async () => {
      logFollowers[Symbol.dispose]();
      await grants[Symbol.asyncDispose]();
      await Promise.all([index, pods, mark, states].map((view) => view[Symbol.asyncDispose]()));
    },
  };
}

function openRecords(connection: NatsBus["connection"]): Promise<Records> {
  return openBucket(connection, {
    name: buckets.sessions,
    codec: recordCodec,
    maxBytes: SESSIONS_BYTES,
    fullRetryAfterMs: FULL_RETRY_MS,
  });
}

/** The nodes as the watchers publish them, and the mark with which these confirm that they see the cluster. */
async function openNodeViews(
  connection: NatsBus["connection"],
  options: Pick<ViewOptions, "signal" | "onProblem">,
): Promise<{ readonly mark: World["mark"]; readonly states: View<muster.watch.v1.NodeState> }> {
  const { NodeState, NodesComplete } = muster.watch.v1;
  const marks = await openBucket(connection, { name: buckets.nodes, codec: protoCodec(NodesComplete) });
  const states = await openBucket(connection, { name: buckets.nodes, codec: protoCodec(NodeState) });
  return {
    mark: await openView(marks, { filter: bucketKeys.nodesComplete, ...options }),
    states: await openView(states, options),
  };
}

type World = {
  readonly context: ServiceContext<Config>;
  readonly bus: NatsBus;
  readonly metrics: SessionMetrics;
  readonly records: Records;
  readonly index: Index;
  readonly occupancy: RequestDeps["occupancy"];
  readonly pods: PodStates;
  /** With which the watchers confirm that they see the cluster. */
  readonly mark: View<muster.watch.v1.NodesComplete>;
  readonly nodes: Nodes;
  readonly wakeups: Wakeups;
  /** Rings when a pod is seen whose session is over. */
  readonly leftover: Bell;
  readonly logStore: LogStore;
  readonly logFollowers: LogFollowers;
  readonly acting: ActDeps;
  readonly failures: ExecutorDeps["failures"];
  /** Id of ours. */
  readonly installation: string;
};

function actDeps(
  context: ServiceContext<Config>,
  bus: NatsBus,
  { records, logStore, installation }: Pick<World, "records" | "logStore" | "installation">,
): ActDeps {
  const { config } = context;
  const kube = loadServiceKube(context, config.kube.kubeconfig);
  const { namespace, poolLabel, imageDefault, resultFile } = config.kube;
  return {
    now: () => Date.now(),
    reservations: client(bus, ReservationService),
    pods: kubePods(kube, namespace, installation),
    load: (name) => load(records, name),
    podLogs: kubePodLogs(kube, namespace),
    logStore,
    podPolicy: {
      namespace,
      installation,
      poolLabel,
      imageDefault,
      resultFile,
      keys: { labels, annotations, schedulingGates },
    },
    executorsMax: config.executorsMax,
    logBytesMax: config.logs.perContainerBytes,
    logPatienceMs: config.logs.patienceMs,
    resultPatienceMs: config.logs.resultPatienceMs,
    logTurns: takeTurns(config.logs.readAtOnce),
  };
}

function executorDeps(world: World): ExecutorDeps {
  const { context, bus, pods, mark, nodes, wakeups, acting } = world;
  return {
    now: acting.now,
    monotonicMs: () => performance.now(),
    executor: context.instance,
    logger: context.logger,
    load: (name) => load(world.records, name),
    save: (record, revision) => world.records.update(record.name, record, revision),
    wake: (name) => wakeups.open(name),
    // Under an id of its own: the stream may remember an earlier message for the session.
    enqueue: (record) => enqueue(bus, record, `${record.uid}-${randomUUID()}`),
    pods: (record) =>
      record.components.flatMap(({ pod }) => {
        const entry = pods.get(`session.${record.name}.${pod}`);
        return entry === undefined ? [] : [podSeenOf(entry.value)];
      }),
    podsFresh: podsFreshOf(pods, mark, acting.now),
    nodesLost: (names, occupied) => nodes.lostAmong(names, { nowMs: acting.now(), occupied }),
    nodesUsable: (names) => nodes.usableAmong(names, acting.now()),
    listPods: (record) => acting.pods.ofSession(record),
    act: (record, step) => act(acting, record, step),
    collectLogs: (record, step, onRead, signal) => collect(acting, record, step, onRead, signal),
    announce: async (record, from, newFrom) => {
      await announce(bus, record, from);
      // After a take-over every event is published again, and only those of this executor are counted.
      tellPhases(world.metrics, record, Math.max(from, newFrom));
    },
    failures: world.failures,
    suspects: takeTurns(1),
    span: inPass,
  };
}

function requestDeps(world: World): RequestDeps {
  const { context, bus, records, index, wakeups, logStore, acting } = world;
  return {
    now: acting.now,
    newUid: () => randomUUID(),
    traceparent: () => traceparentOf(),
    load: (name) => load(records, name),
    create: (record) => records.create(record.name, record),
    save: (record, revision) => records.update(record.name, record, revision),
    finished: world.metrics.finished,
    occupancy: world.occupancy,
    explain: (record) => explainWaiting(acting.reservations, record),
    enqueue: async (record, occasion) => {
      try {
        await enqueue(bus, record, `${record.uid}-${occasion}`);
      } catch (error) {
        const fault = faultOf(error);
        if (fault === undefined) throw error;
        context.logger.warn({ session: record.name, reason: describeFault(fault) }, "left for the sweep to queue");
      }
    },
    announce: (record, from) => announce(bus, record, from),
    forget: forgetter(world),
    namesAfter: (name) => index.entries().flatMap(({ key }) => (key > name ? [key] : [])),
    wake: (name) => wakeups.follow(name),
    keptLog: (name, range) => logStore.read(name, range),
    followedLog: async (log, range, waitMs, signal) =>
      (await world.logFollowers.read(log, range, waitMs, signal)).bytes,
    liveLog: ({ pod, container }, range, signal) => acting.podLogs.readRange(pod, container, range, signal),
    sizeOf: ({ record, revision }) => sessionBytes(sessionMessage(record, revision)),
  };
}

function sweepDeps(world: World): SweepDeps {
  const { context, bus, records, index, acting } = world;
  let changes = 0;
  index.onChange(() => {
    changes += 1;
  });
  return {
    now: acting.now,
    logger: context.logger,
    rest: (ms, signal) => world.leftover.wait(ms, signal),
    listPods: () => acting.pods.ofAllSessions(),
    listReservations: async () => (await listReservations(acting.reservations, "session")).map(ownedReservationOf),
    listReplacements: async () =>
      (await listReservations(acting.reservations, REPLACEMENT_KIND)).map(ownedReplacementOf),
    sessions: () => index.entries().map(({ value }) => value),
    changes: () => changes,
    load: (name) => load(records, name),
    save: (record, revision) => records.update(record.name, record, revision),
    // Each time under another id: what the stream remembers of an earlier message must not keep a lost session from coming back.
    run: (name, uid) => enqueue(bus, { name, uid }, `${uid}-${randomUUID()}`),
    deletePod: (pod, uid, force) => acting.pods.delete(pod, uid, { force }),
    release: (session, reservationId) => release(acting.reservations, session, reservationId, randomUUID()),
    releaseReplacement: (ownerId, reservationId) => releaseReplacement(acting.reservations, ownerId, reservationId),
    limitSessions: async () => {
      const limit = context.config.executorsMax;
      await acting.reservations.limitConcurrency({ requestId: randomUUID(), ownerKind: "session", limit });
    },
    tellLeftAlone: tellLeftAlone(context.logger, { what: "session", own: world.installation }),
    forget: forgetter(world),
  };
}

function forgetter({ records, logStore }: World): SweepDeps["forget"] {
  return async ({ record, revision }) => {
    for (const { pod } of record.components) await logStore.forget(record.name, pod);
    await records.delete(record.name, revision);
  };
}

/** A record whose bytes do not decode is a fault, so that it stops nobody who looks at other sessions too. */
async function load(records: Records, name: string): Promise<Stored | undefined> {
  try {
    const entry = await records.get(name);
    return entry === undefined ? undefined : { record: entry.value, revision: entry.revision };
  } catch (error) {
    if (faultOf(error) !== undefined) throw error;
    return throwFault({ code: "internal", operation: `reading session ${name}` }, { cause: error });
  }
}

/** A session that is queued already is not queued twice; the stream sees to that. */
async function enqueue(
  bus: NatsBus,
  { name, uid }: { readonly name: string; readonly uid: string },
  messageId: string,
): Promise<void> {
  await publishEvent(bus, subjects.runSession(name), muster.session.v1.RunSession, { name, uid }, { messageId });
}

async function announce(bus: NatsBus, record: SessionRecord, from: number): Promise<void> {
  const { name, uid } = record;
  const type = muster.session.v1.SessionEventRecorded;
  for (const [index, event] of record.events.entries()) {
    if (index < from) continue;
    const message = { name, uid, event: eventMessage(event) };
    await publishEvent(bus, subjects.sessionEventRecorded(name), type, message, { messageId: `${uid}-${index}` });
  }
}

function tellPhases(metrics: SessionMetrics, record: SessionRecord, from: number): void {
  for (const { kind, atMs } of record.events.slice(from)) {
    if (kind === "ACCEPT") tellPhase(record, "queue", "QUEUE", atMs);
    if (kind !== record.verdict?.kind) continue;
    tellPhase(record, "run", "RUN", atMs);
    metrics.finished(record);
  }
}

async function listReservations(
  reservations: ActDeps["reservations"],
  ownerKind: string,
): Promise<muster.reservation.v1.Reservation.$Properties[]> {
  const found: muster.reservation.v1.Reservation.$Properties[] = [];
  let next = "";
  do {
    const page = await reservations.listReservations({ ownerKind, limit: RESERVATIONS_PAGE, continue: next });
    found.push(...page.reservations);
    next = page.continue;
  } while (next !== "");
  return found;
}
