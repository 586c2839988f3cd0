import { setTimeout as sleep } from "node:timers/promises";
import { randomUUID } from "node:crypto";
import type { KubeConfig } from "@kubernetes/client-node";
import { makeBell, takeTurns, type Bell } from "@muster/backoff";
import { makeClient, type NatsBus } from "@muster/bus";
import {
  followLogs,
  makeKubeCalls,
  loadServiceKube,
  openPodDefaults,
  type FollowedPodDefaults,
  type KubeCalls,
  type LogFollowers,
} from "@muster/kube";
import {
  annotations,
  bucketKeys,
  buckets,
  labels,
  muster,
  ReservationService,
  schedulingGates,
  streams,
} from "@muster/proto";
import { reportForeignObjects, type ReadyCheck, type ServiceContext } from "@muster/service";
import { readInstallationId, openBucket, openView, makeProtoCodec, type View, type ViewOptions } from "@muster/store";
import { getTraceparent } from "@muster/tracing";
import { openCrowding, viewNodes, type Nodes } from "@muster/watch";
import { makeExplainCalls } from "@muster/ledger-client";
import type { Config } from "../config.ts";
import type { SessionDigest } from "../domain/plan-sweep.ts";
import type { SessionRecord } from "../domain/session.ts";
import { makeFollowers, type SessionFollowers } from "../followers.ts";
import type { RequestDeps } from "../requests.ts";
import type { LeadDeps } from "../lead-sessions.ts";
import type { HintReceivers } from "../sessions.ts";
import type { SweepDeps } from "../sweep.ts";
import {
  performStep,
  askMachinesOf,
  collectSessionLogs,
  checkMachines,
  explainWaiting,
  listOwned,
  makeSessionLedger,
  type ActDeps,
} from "./act.ts";
import { publishSessionEvents } from "./announce.ts";
import { followGrants, followViews } from "./hints.ts";
import { openLogStore, type LogStore } from "./log-store.ts";
import { toPodSeen } from "./messages.ts";
import { makeSessionMetrics, type SessionMetrics } from "./metrics.ts";
import { buildOccupancy } from "./occupancy.ts";
import { makePodLogs } from "./pod-logs.ts";
import { arePodsFresh } from "./pods-fresh.ts";
import { makePods } from "./pods.ts";
import { openQueues, type SessionQueues } from "./queues.ts";
import {
  formatNames,
  loadAllRecords,
  openIndex,
  openRecords,
  type SessionIndex,
  type SessionRecords,
} from "./records.ts";
import { makeSessionNames } from "./session-names.ts";
import { buildPassSpan, recordPhase } from "./trace.ts";

/** All dependencies of the service, by part. Disposal stops the views of the buckets. */
export type Deps = AsyncDisposable &
  LeadDeps & {
    readonly requests: RequestDeps;
    readonly metrics: SessionMetrics;
    /** Describes outdated views; undefined if every view is fresh. */
    readonly staleness: ReadyCheck;
  };

type PodStates = View<muster.watch.v1.PodState>;

const STALE_MS = 30_000;
/** Maximum wait for the first list of the defaults that admission adds to pods. */
const DEFAULTS_WAIT_MS = 2000;
/** Maximum concurrent calls to the API server, and their timeout. */
const CALLS = { maxInFlight: 64, timeoutMs: 10_000 };
/** Maximum number of follow streams, one per component; idle streams are closed. */
const FOLLOW_LIMITS = { maxStreams: 512, idleMs: 30_000 };

/** Opens the dependencies of the service; only this function knows their implementations. */
export async function openDeps(context: ServiceContext<Config>, bus: NatsBus): Promise<Deps> {
  const { config, logger, signal } = context;
  const { connection } = bus;
  await bus.ensureStream(streams.events);
  const installation = await readInstallationId(connection);
  const records = await openRecords(connection);
  const podCodec = makeProtoCodec(muster.watch.v1.PodState);
  const podStates = await openBucket(connection, { name: buckets.pods, codec: podCodec });
  const logStore = await openLogStore(connection, config.logs.totalBytes);
  const metrics = makeSessionMetrics();
  const onProblem = (error: unknown, retryInMs: number): void =>
    logger.warn({ err: error, retryInMs }, "the watch of sessions or pods was interrupted");
  const { index, unreadable } = await openIndex(context, bus, { records, metrics, onProblem });
  const pods = await openView(podStates, { filter: "session.>", signal, onProblem });
  const { mark, states } = await openNodeViews(connection, { signal, onProblem });
  const followers = makeFollowers();
  const leftover = makeBell();
  let led: HintReceivers | undefined;
  const hints = { followers, leftover, index, pods, led: () => led };
  followViews(hints);
  const grants = await followGrants(bus, hints);
  const kube = loadServiceKube(context, config.kube.kubeconfig);
  const calls = makeKubeCalls(kube, CALLS);
  const podDefaults = await followPodDefaults(kube, context, onProblem);
  const queues = await followQueues(context, connection, { kube, calls, led: () => led, onProblem });
  const ofActs = actDeps(context, bus, { kube, calls, records, logStore, installation });
  const acting = { ...ofActs, podDefaults: podDefaults.current, chooseQueue: queues.choose };
  const logFollowers = followLogs(
    ({ namespace, pod, container }, end) => acting.logsIn(namespace).follow(pod, container, end),
    FOLLOW_LIMITS,
  );
  const world: World = {
    context,
    bus,
    metrics,
    records,
    index,
    occupancy: buildOccupancy(index),
    pods,
    mark,
    nodes: viewNodes({ states, marks: mark, lostAfterMs: config.machineLostMs }),
    followers,
    leftover,
    logStore,
    logFollowers,
    acting,
    installation,
  };
  const stopObserving = metrics.observeRunning(() => led?.sessions.size ?? 0);
  return {
    sessions: sessionDeps(world),
    requests: requestDeps(world, queues, () => led && { token: led.token, executor: context.instance }),
    sweep: sweepDeps(world),
    leading: (now) => {
      led = now;
    },
    metrics,
    staleness: () => {
      const ageMs = Math.max(index.ageMs(), pods.ageMs());
      if (ageMs > STALE_MS) return `sessions or pods were last current ${ageMs} ms ago`;
      return unreadable.size === 0 ? undefined : { note: `stored and not readable: ${formatNames(unreadable)}` };
    },
    [Symbol.asyncDispose]: async () => {
      stopObserving();
      logFollowers[Symbol.dispose]();
      for (const each of [grants, podDefaults, calls]) await each[Symbol.asyncDispose]();
      await Promise.all([index, pods, mark, states, queues].map((each) => each[Symbol.asyncDispose]()));
    },
  };
}

/** Follows the requests that admission adds to pods. The service starts even if the API server does not answer. */
async function followPodDefaults(
  kube: KubeConfig,
  { config, logger }: Pick<ServiceContext<Config>, "config" | "logger">,
  onError: Required<ViewOptions>["onProblem"],
): Promise<FollowedPodDefaults> {
  const onUnserved = (path: string): void =>
    logger.info({ path }, "the API server does not serve a resource that adds requests to pods");
  const { namespace, sessionNamespaces } = config.kube;
  const ofOne = sessionNamespaces === "own" ? { namespace } : {};
  const followed = openPodDefaults(kube, { ...ofOne, onError, onUnserved });
  await Promise.race([followed.synced, sleep(DEFAULTS_WAIT_MS)]);
  return { ...followed, current: (of = namespace) => followed.current(of) };
}

/** Follows the queues. A change schedules a pass over the sessions without a usable queue. */
async function followQueues(
  { config, logger, signal }: ServiceContext<Config>,
  connection: NatsBus["connection"],
  {
    kube,
    calls,
    led,
    onProblem,
  }: Pick<Parameters<typeof openQueues>[0], "kube" | "calls" | "onProblem"> & {
    readonly led: () => HintReceivers | undefined;
  },
): Promise<SessionQueues> {
  const bucket = await openBucket(connection, {
    name: buckets.queues,
    codec: makeProtoCodec(muster.reservation.v1.Queue),
  });
  const view = await openView(bucket, { signal, onProblem });
  const changed = (): void => {
    for (const name of led()?.sessions.unqueued() ?? []) led()?.queue.add(name);
  };
  const onRefused = (problem: string): void => logger.warn({ rights: "queues.muster.dev" }, problem);
  const following = { kube, calls, queues: view, changed, onProblem, onRefused };
  const queues = openQueues({ ...following, ...config.kube });
  await Promise.race([queues.synced, sleep(DEFAULTS_WAIT_MS)]);
  return {
    ...queues,
    [Symbol.asyncDispose]: async () => {
      await queues[Symbol.asyncDispose]();
      await view[Symbol.asyncDispose]();
    },
  };
}

/** Opens the views of the nodes and of the mark with which watchers confirm that they observe the cluster. */
async function openNodeViews(
  connection: NatsBus["connection"],
  options: Pick<ViewOptions, "signal" | "onProblem">,
): Promise<{ readonly mark: World["mark"]; readonly states: View<muster.watch.v1.NodeState> }> {
  const { NodeState, NodesComplete } = muster.watch.v1;
  const marks = await openBucket(connection, { name: buckets.nodes, codec: makeProtoCodec(NodesComplete) });
  const states = await openBucket(connection, { name: buckets.nodes, codec: makeProtoCodec(NodeState) });
  return {
    mark: await openView(marks, { filter: bucketKeys.nodesComplete, ...options }),
    states: await openView(states, options),
  };
}

type World = {
  readonly context: ServiceContext<Config>;
  readonly bus: NatsBus;
  readonly metrics: SessionMetrics;
  readonly records: SessionRecords;
  readonly index: SessionIndex;
  readonly occupancy: RequestDeps["occupancy"];
  readonly pods: PodStates;
  /** The view of the mark with which watchers confirm that they observe the cluster. */
  readonly mark: View<muster.watch.v1.NodesComplete>;
  readonly nodes: Nodes;
  readonly followers: SessionFollowers;
  /** Rings when a pod of a finished session is observed. */
  readonly leftover: Bell;
  readonly logStore: LogStore;
  readonly logFollowers: LogFollowers;
  readonly acting: ActDeps;
  /** Id of this installation. */
  readonly installation: string;
};

function actDeps(
  context: ServiceContext<Config>,
  bus: NatsBus,
  {
    kube,
    calls,
    records,
    logStore,
    installation,
  }: Pick<World, "records" | "logStore" | "installation"> & { readonly kube: KubeConfig; readonly calls: KubeCalls },
): Omit<ActDeps, "chooseQueue"> {
  const { config } = context;
  const { namespace, poolLabel, imageDefault, resultFile } = config.kube;
  return {
    ledger: makeSessionLedger(makeClient(bus, ReservationService)),
    pods: makePods(calls, namespace, installation),
    load: (name) => loadAllRecords(records, name),
    logsIn: (of = namespace) => makePodLogs(kube, of),
    reading: {
      store: logStore,
      limitBytes: config.logs.perContainerBytes,
      patienceMs: config.logs.patienceMs,
      resultPatienceMs: config.logs.resultPatienceMs,
      turns: takeTurns(config.logs.readAtOnce),
    },
    podPolicy: {
      namespace,
      installation,
      poolLabel,
      imageDefault,
      resultFile,
      keys: { labels, annotations, schedulingGates },
    },
    maxExecutors: config.maxExecutors,
  };
}

function sessionDeps(world: World): LeadDeps["sessions"] {
  const { context, bus, index, pods, mark, nodes, acting } = world;
  return {
    now: Date.now,
    monotonicMs: () => performance.now(),
    executor: context.instance,
    logger: context.logger,
    load: (name) => loadAllRecords(world.records, name),
    save: (record, revision) => world.records.update(record.name, record, revision),
    newestRevision: (name) => index.get(name)?.revision ?? Infinity,
    pods: (record) =>
      record.components.flatMap(({ pod }) => {
        const entry = pods.get(`session.${record.name}.${pod}`);
        return entry === undefined ? [] : [toPodSeen(entry.value)];
      }),
    podsFresh: arePodsFresh(pods, mark, Date.now),
    nodesLost: (names, occupied, tolerations) => nodes.lostAmong(names, { nowMs: Date.now(), occupied, tolerations }),
    nodesUsable: (names, tolerations) => nodes.usableAmong(names, Date.now(), tolerations),
    crowding: openCrowding(nodes, context.config.machineLostMs),
    listPods: (record) => acting.pods.ofSession(record),
    act: (record, step, isHeld) => performStep(acting, record, step, isHeld),
    collectLogs: (record, step, onRead, signal) => collectSessionLogs(acting, record, step, onRead, signal),
    announce: async (record, from, newFrom) => {
      await publishSessionEvents(bus, record, from);
      // A take-over publishes all events again, but metrics count only the events of this executor.
      recordPhases(world.metrics, record, Math.max(from, newFrom));
    },
    left: (session, end) => context.logger.info({ session, end }, "session left"),
    span: buildPassSpan,
  };
}

function requestDeps(
  world: World,
  { servesNamespace }: Pick<SessionQueues, "servesNamespace">,
  executor: RequestDeps["executor"],
): RequestDeps {
  const { bus, records, index, followers, logStore, acting } = world;
  const asking = makeExplainCalls(bus);
  const names = makeSessionNames(index);
  return {
    now: Date.now,
    newUid: () => randomUUID(),
    traceparent: () => getTraceparent(),
    executor,
    load: (name) => loadAllRecords(records, name),
    create: async (record) => {
      const revision = await records.create(record.name, record);
      names.add(record.name, revision);
      return revision;
    },
    modify: (name, decide) => records.modify(name, decide),
    finished: world.metrics.finished,
    occupancy: world.occupancy,
    explain: (record) => explainWaiting(acting, record),
    checkMachines: (record) => checkMachines(acting, record),
    askMachines: (record) => askMachinesOf(asking, record),
    announce: (record, from) => publishSessionEvents(bus, record, from),
    forget: makeForget(world),
    namespace: world.context.config.kube.namespace,
    servesNamespace,
    namesAfter: (name) => names.listAfter(name),
    follow: (name) => followers.follow(name),
    keptLog: (name, range) => logStore.read(name, range),
    followedLog: async (log, range, waitMs, signal) =>
      (await world.logFollowers.read(log, range, waitMs, signal)).bytes,
    liveLog: ({ namespace, pod, container }, range, signal) =>
      acting.logsIn(namespace).readRange(pod, container, range, signal),
    // A reply has about the size of the record.
    sizeOf: ({ record }) => index.get(record.name)?.value.storedBytes ?? 0,
  };
}

function sweepDeps(world: World): LeadDeps["sweep"] {
  const { context, index, acting } = world;
  const isAll = context.config.kube.sessionNamespaces === "all";
  const digests = (): readonly SessionDigest[] => index.entries().map(({ value }) => value);
  return {
    rest: (ms, signal) => world.leftover.wait(ms, signal),
    // Sessions of other namespaces keep running after SESSION_NAMESPACES is reset.
    listObjects: () =>
      listOwned(acting, { everywhere: isAll || digests().some((each) => each.namespace !== undefined) }),
    digests,
    deletePod: ({ namespace, pod, uid }, { force }) => acting.pods.delete(pod, uid, { force, namespace }),
    release: acting.ledger.sessions.release,
    releaseReplacement: acting.ledger.replacements.release,
    limitSessions: () => acting.ledger.limitSessions(acting.maxExecutors),
    reportForeign: reportForeignObjects(context.logger, { what: "session", own: world.installation }),
    forget: makeForget(world),
  };
}

function makeForget({ records, logStore }: World): SweepDeps["forget"] {
  return async ({ record, revision }) => {
    for (const { pod } of record.components) await logStore.forget(record.name, pod);
    await records.delete(record.name, revision);
  };
}

function recordPhases(metrics: SessionMetrics, record: SessionRecord, from: number): void {
  for (const { kind, atMs } of record.events.slice(from)) {
    if (kind === "ACCEPT") recordPhase(record, "queue", "QUEUE", atMs);
    if (kind !== record.verdict?.kind) continue;
    recordPhase(record, "run", "RUN", atMs);
    metrics.finished(record);
  }
}
