import { makeBell, takeTurns, type Bell } from "@muster/backoff";
import { makeClient } from "@muster/bus";
import { findFault, throwFault } from "@muster/faults";
import { annotations, bucketKeys, labels, muster, ReservationService, schedulingGates } from "@muster/proto";
import type { Logger } from "@muster/service";
import {
  performStep,
  collectSessionLogs,
  checkMachines,
  explainWaiting,
  listOwned,
  makeSessionLedger,
  type ActDeps,
} from "@muster/session-controller/act";
import { publishSessionEvents } from "@muster/session-controller/announce";
import { readConfig } from "@muster/session-controller/config";
import { makeFollowers, type SessionFollowers } from "@muster/session-controller/followers";
import { followGrants, followViews } from "@muster/session-controller/hints";
import { leadSessions, type LeadDeps } from "@muster/session-controller/lead-sessions";
import { digestCodec, toPodSeen, recordCodec } from "@muster/session-controller/messages";
import type { LogStore } from "@muster/session-controller/log-store";
import { buildOccupancy, type Occupant } from "@muster/session-controller/occupancy";
import type { SessionPods } from "@muster/session-controller/pods";
import { arePodsFresh } from "@muster/session-controller/pods-fresh";
import type { RequestDeps } from "@muster/session-controller/requests";
import type { SessionDigest } from "@muster/session-controller/plan-sweep";
import type { SessionRecord } from "@muster/session-controller/session";
import type { StoredSession } from "@muster/session-controller/session-deps";
import type { HintReceivers } from "@muster/session-controller/sessions";
import { makeProtoCodec, type Bucket, type View } from "@muster/store";
import { openCrowding, viewNodes, type Nodes } from "@muster/watch";
import { ROOT_CONTEXT } from "@opentelemetry/api";
import { makeSimBucket } from "../sim-bucket.ts";
import { runSimLead } from "../sim-leader-election.ts";
import { INSTALLATION, makeSimPodLogs, makeSimPods } from "../sim-pods.ts";
import { makeSimLogStore } from "../sim-log-store.ts";
import { makeTraceLogger, type World } from "../world.ts";
import type { Replica } from "./replica.ts";
import { openBucketView } from "./views.ts";

/** The request handlers of each ready replica. */
export type RequestTargets = Map<Replica, RequestDeps>;

/** Plants a defect for a test. */
export type Tamper = (deps: LeadDeps["sessions"]) => LeadDeps["sessions"];

/** Maximum number of sessions that hold machines; the machines run out first. */
const MAX_EXECUTORS = 12;
export const CONFIG = readConfig({ SESSION_EXECUTORS: String(MAX_EXECUTORS) });

/** The shared parts of one replica. */
type Parts = {
  readonly world: World;
  readonly replica: Replica;
  readonly logger: Logger;
  readonly records: Bucket<SessionRecord>;
  readonly index: Index;
  readonly pods: View<muster.watch.v1.PodState>;
  readonly mark: View<muster.watch.v1.NodesComplete>;
  readonly nodes: Nodes;
  readonly livePods: SessionPods;
  readonly logStore: LogStore;
  readonly followers: SessionFollowers;
  readonly leftover: Bell;
  readonly ledger: ActDeps["ledger"];
  readonly load: (name: string) => Promise<StoredSession | undefined>;
};

type Index = View<SessionDigest & Occupant>;

/** Sessions of the simulation have no queue. */
const chooseQueue: ActDeps["chooseQueue"] = () => Promise.resolve({ kind: "none" });

/** Runs the service, composed as in its main, with simulated adapters. */
export async function runController(
  world: World,
  replica: Replica,
  targets: RequestTargets,
  tamper: Tamper,
): Promise<void> {
  const { process, gone, stop, bus } = replica;
  const parts = await openParts(world, replica);
  let led: HintReceivers | undefined;
  const hints = { ...parts, led: () => led };
  followViews(hints);
  await followGrants(bus, hints);
  const deps: LeadDeps = {
    sessions: tamper(sessionDeps(parts)),
    sweep: sweepDeps(parts),
    leading: (now) => {
      led = now;
    },
  };
  targets.set(
    replica,
    requestDeps(parts, () => led && { token: led.token, executor: process.name }),
  );
  for (const { signal } of [gone, stop]) signal.addEventListener("abort", () => targets.delete(replica));
  const election = { ...world, lock: world.sessionLock, ttlMs: CONFIG.lockTtlMs };
  const logger: Logger = {
    ...parts.logger,
    warn: (fields, message) => {
      const error: unknown = "err" in fields ? fields.err : undefined;
      if (error instanceof Error && findFault(error) === undefined)
        world.defects.push(`${process.name}: ${describeError(error)}`);
      parts.logger.warn(fields, message);
    },
  };
  await runSimLead(election, process, stop.signal, (leadership) =>
    leadSessions(deps, CONFIG, { logger, leadership, stop: stop.signal }),
  );
}

async function openParts(world: World, replica: Replica): Promise<Parts> {
  const { process, gone, bus } = replica;
  const records = makeSimBucket(world.sessions, recordCodec, world);
  const { view: index } = await openBucketView(world, world.sessions, digestCodec, gone.signal);
  const podCodec = makeProtoCodec(muster.watch.v1.PodState);
  const { view: pods } = await openBucketView(world, world.podStates, podCodec, gone.signal, "session.>");
  const stateCodec = makeProtoCodec(muster.watch.v1.NodeState);
  const { view: states } = await openBucketView(world, world.nodeStates, stateCodec, gone.signal);
  const markCodec = makeProtoCodec(muster.watch.v1.NodesComplete);
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
    logger: makeTraceLogger(world, process),
    records,
    index,
    pods,
    nodes: viewNodes({ states, marks: mark, lostAfterMs: CONFIG.machineLostMs }),
    livePods: makeSimPods(world),
    logStore: makeSimLogStore(world),
    followers: makeFollowers(),
    leftover: makeBell(),
    ledger: makeSessionLedger(makeClient(bus, ReservationService)),
    load: async (name) => {
      const entry = await records.get(name);
      return entry === undefined ? undefined : { record: entry.value, revision: entry.revision };
    },
  };
}

function sessionDeps(parts: Parts): LeadDeps["sessions"] {
  const { world, replica, logger, records, index, pods, livePods, load } = parts;
  const logs = makeSimPodLogs(world);
  const acting: ActDeps = {
    ledger: parts.ledger,
    pods: livePods,
    load,
    logsIn: () => logs,
    reading: {
      store: parts.logStore,
      limitBytes: CONFIG.logs.perContainerBytes,
      patienceMs: CONFIG.logs.patienceMs,
      resultPatienceMs: CONFIG.logs.resultPatienceMs,
      turns: takeTurns(CONFIG.logs.readAtOnce),
    },
    podPolicy: { ...CONFIG.kube, installation: INSTALLATION, keys: { labels, annotations, schedulingGates } },
    maxExecutors: CONFIG.maxExecutors,
    chooseQueue,
  };
  return {
    now: Date.now,
    monotonicMs: () => performance.now(),
    executor: replica.process.name,
    logger,
    load,
    save: (record, revision) => records.update(record.name, record, revision),
    newestRevision: (name) => index.get(name)?.revision ?? Infinity,
    pods: (record) =>
      record.components.flatMap(({ pod }) => {
        const entry = pods.get(`session.${record.name}.${pod}`);
        return entry === undefined ? [] : [toPodSeen(entry.value)];
      }),
    podsFresh: arePodsFresh(pods, parts.mark, Date.now),
    nodesLost: (names, occupied, tolerations) =>
      parts.nodes.lostAmong(names, { nowMs: Date.now(), occupied, tolerations }),
    nodesUsable: (names, tolerations) => parts.nodes.usableAmong(names, Date.now(), tolerations),
    crowding: openCrowding(parts.nodes, CONFIG.machineLostMs),
    listPods: (record) => livePods.ofSession(record),
    act: (record, step, isHeld) => performStep(acting, record, step, isHeld),
    collectLogs: (record, step, onRead, signal) => collectSessionLogs(acting, record, step, onRead, signal),
    announce: (record, from) => publishSessionEvents(replica.bus, record, from),
    left: () => undefined,
    span: (_record, name) => ({ name, parent: ROOT_CONTEXT, attributes: {} }),
  };
}

function sweepDeps(parts: Parts): LeadDeps["sweep"] {
  const { records, index, livePods, leftover, ledger } = parts;
  return {
    rest: (ms, signal) => leftover.wait(ms, signal),
    listObjects: () => listOwned({ pods: livePods, ledger }, { everywhere: false }),
    digests: () => index.entries().map(({ value }) => value),
    reportForeign: () => undefined,
    deletePod: ({ pod, uid }, options) => livePods.delete(pod, uid, options),
    release: ledger.sessions.release,
    releaseReplacement: ledger.replacements.release,
    limitSessions: () => ledger.limitSessions(CONFIG.maxExecutors),
    forget: ({ record, revision }) => records.delete(record.name, revision),
  };
}

function requestDeps(parts: Parts, executor: RequestDeps["executor"]): RequestDeps {
  const { replica, records, index, logStore, followers, ledger, load } = parts;
  return {
    now: Date.now,
    newUid: () => crypto.randomUUID(),
    traceparent: () => "",
    executor,
    load,
    create: (record) => records.create(record.name, record),
    modify: (name, decide) => records.modify(name, decide),
    occupancy: buildOccupancy(index),
    explain: (record) => explainWaiting({ ledger, podPolicy: CONFIG.kube, chooseQueue }, record),
    checkMachines: (record) => checkMachines({ ledger, podPolicy: CONFIG.kube, chooseQueue }, record),
    askMachines: noMachines,
    announce: (record, from) => publishSessionEvents(replica.bus, record, from),
    finished: () => undefined,
    namespace: CONFIG.kube.namespace,
    servesNamespace: (name) => name === CONFIG.kube.namespace,
    namesAfter: (name) => index.entries().flatMap(({ key }) => (key > name ? [key] : [])),
    forget: ({ record, revision }) => records.delete(record.name, revision),
    follow: (name) => followers.follow(name),
    keptLog: (name, range) => logStore.read(name, range),
    liveLog: noLog,
    followedLog: noLog,
    sizeOf: () => 0,
  };
}

/** Users read no logs here. */
function noLog(): Promise<never> {
  return throwFault({ code: "not_found", kind: "log", id: "" });
}

/** Users request no explanations here. */
function noMachines(): Promise<never> {
  return throwFault({ code: "internal", operation: "askMachines" });
}

function describeError(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
