import { readFileSync, writeFileSync } from "node:fs";
import { throwFault } from "@muster/faults";
import { buildMachines, type NodeFacts } from "@muster/reservation-manager/machines";
import { restoreLedger } from "@muster/reservation-manager/ledger";
import { nodeCodec as ledgerNodeCodec, toNodeFacts } from "@muster/reservation-manager/messages";
import { runToEnd } from "@muster/reservation-manager/steps";
import type { Reservation } from "@muster/reservation-manager/reservation";
import type { SessionRecord } from "@muster/session-controller/session";
import type { LivePod } from "@muster/session-controller/snapshot";
import { readConfig as watcherConfig } from "@muster/watcher/config";
import { makePodReader, toWatchedNode } from "@muster/watcher/kube-objects";
import { nodeRecordCodec, podCodec, isNode } from "@muster/watcher/messages";
import { makeObserver } from "@muster/watcher/observer";
import type { WatcherSnapshot } from "@muster/watcher/plan-pass";
import { getLedger } from "./observe.ts";
import { listLivePods } from "./sim-pods.ts";
import { decodeRecord } from "./users.ts";
import type { World } from "./world.ts";

const POOL_LABEL = "pool";
const FORMAT = "muster-snapshot/2";

/** The state of a running system at one moment, in the types of the services: all inputs of their next decisions. */
export type SystemSnapshot = {
  readonly format: typeof FORMAT;
  readonly atMs: number;
  readonly sessions: readonly SessionRecord[];
  readonly reservations: readonly Reservation[];
  readonly nextSequence: number;
  /** The limit of each owner kind that has one. */
  readonly limits: readonly (readonly [string, number])[];
  readonly nodes: readonly NodeFacts[];
  /** Pods of the API server, by session. */
  readonly livePods: Readonly<Record<string, readonly LivePod[]>>;
  /** The snapshot of a watcher whose view is current. */
  readonly watcher: WatcherSnapshot;
};

export function readSnapshot(file: string): SystemSnapshot {
  const snapshot = JSON.parse(readFileSync(file, "utf8"), toMap) as Partial<SystemSnapshot>;
  if (snapshot.format === FORMAT) return snapshot as SystemSnapshot;
  return throwFault({ code: "invalid_request", field: file, reason: `is not a ${FORMAT} file` });
}

export function writeSnapshot(file: string, snapshot: SystemSnapshot): void {
  writeFileSync(file, `${JSON.stringify(snapshot, fromMap, 1)}\n`);
}

/** The ledger and its machines, like those of a new leader. */
export function makeLedgerWorld({ reservations, nextSequence, limits, nodes }: SystemSnapshot) {
  const ledger = runToEnd(restoreLedger(reservations, nextSequence, { limits }));
  return { ledger, machines: buildMachines(nodes, ledger) };
}

/** Takes a snapshot of the simulated system. */
export function takeSnapshot(world: World): SystemSnapshot {
  const { cluster, time } = world;
  const ledger = getLedger(world);
  const watcher = watcherSnapshot(world);
  const sessions = [...world.sessions.entries.values()].map(({ bytes }) => decodeRecord(bytes));
  return {
    format: FORMAT,
    atMs: time.nowMs,
    sessions,
    reservations: [...ledger.reservations.values()],
    nextSequence: ledger.nextSequence,
    limits: [...ledger.limits.entries()],
    nodes: watcher.publishedNodes.flatMap(({ state }) => {
      const read = ledgerNodeCodec.decode(nodeRecordCodec.encode(state));
      return read.kind === "node" ? (toNodeFacts(read.state, POOL_LABEL) ?? []) : [];
    }),
    livePods: Object.fromEntries(sessions.map(({ name }) => [name, listLivePods(cluster, name)])),
    watcher,
  };
}

/** The snapshot of a watcher's observer whose view is current. */
function watcherSnapshot({ cluster, time, podStates, nodeStates }: World): WatcherSnapshot {
  const published = <State>(entries: World["podStates"]["entries"], decode: (bytes: Uint8Array) => State) => {
    const all = [...entries].map(([key, { bytes, revision }]) => ({ key, revision, state: decode(bytes) }));
    return { published: () => all, get: (key: string) => all.find((each) => each.key === key), isEcho: () => false };
  };
  const records = published(nodeStates.entries, (bytes) => nodeRecordCodec.decode(bytes)).published();
  const nodeRecords = records.flatMap(({ state, ...rest }) => (isNode(state) ? [{ ...rest, state }] : []));
  const marks = records.flatMap(({ state, ...rest }) => (isNode(state) ? [] : [{ ...rest, state }]));
  const follow = <Kept>(kept: ReadonlyMap<string, Kept>) => ({
    get: (key: string) => kept.get(key),
    list: () => [...kept.values()],
    onChange: () => nothing,
    resourceVersion: () => String(cluster.version),
    listAgeMs: () => 0,
  });
  const { systemNamespaces, policy } = watcherConfig({});
  const readPod = makePodReader({ systemNamespaces, workNamespace: policy.namespace });
  return makeObserver({
    pods: follow(new Map([...cluster.pods].map(([name, pod]) => [name, readPod(pod)]))),
    nodes: follow(new Map([...cluster.nodes].map(([name, node]) => [name, toWatchedNode(node)]))),
    podSide: published(podStates.entries, (bytes) => podCodec.decode(bytes)),
    nodeSide: {
      published: () => nodeRecords,
      get: (key) => nodeRecords.find((each) => each.key === key),
      isEcho: () => false,
    },
    markSide: { published: () => marks },
    podView: { onChange: () => nothing },
    nodeView: { onChange: () => nothing, ageMs: () => 0 },
    now: () => time.nowMs,
  }).observe("all");
}

function nothing(): void {
  // A single observation needs no changes.
}

/** JSON has no maps. */
function fromMap(_key: string, value: unknown): unknown {
  return value instanceof Map ? { $map: [...(value as Map<unknown, unknown>)] } : value;
}

function toMap(_key: string, value: unknown): unknown {
  const isMap = typeof value === "object" && value !== null && "$map" in value && Array.isArray(value.$map);
  return isMap ? new Map(value.$map as [unknown, unknown][]) : value;
}
