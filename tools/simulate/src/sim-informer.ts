import type { V1Node, V1Pod } from "@kubernetes/client-node";
import type { Informer } from "@muster/kube";
import type { Cluster, KubeChange, KubeKind } from "./cluster.ts";
import type { Network } from "./network.ts";
import type { Process } from "./task-queue.ts";
import type { VirtualTime } from "./virtual-time.ts";

export type SimInformer<Kept> = Pick<
  Informer<Kept>,
  "get" | "list" | "onChange" | "resourceVersion" | "listAgeMs" | "ageMs"
> & {
  /** Interrupts the watch. The next list has the missed changes, except objects that were created and deleted in between. */
  interrupt(): void;
};

type Listener<Kept> = (change: {
  readonly key: string;
  readonly before: Kept | undefined;
  readonly after: Kept | undefined;
}) => void;

const RELIST_AFTER_MS = 1000;
const BOOKMARK_EVERY_MS = 20_000;

type Surroundings = {
  readonly time: VirtualTime;
  readonly network: Network;
  readonly cluster: Cluster;
  readonly process: Process;
  readonly gone: AbortSignal;
};

/** An informer of this process: a list, then every change in order, each after a lag. */
export function makeSimInformer<Kind extends KubeKind, Kept>(
  { time, network, cluster, process, gone }: Surroundings,
  kind: Kind,
  project: (object: Kind extends "pods" ? V1Pod : V1Node) => Kept,
): SimInformer<Kept> {
  const { put, replace, ...read } = makeKeptStates<Kept>();
  let version: number | undefined;
  let listedAtMs = -Infinity;
  let receivedAtMs = -Infinity;
  const arrivals = makeArrivals(network, process, () => (receivedAtMs = time.nowMs));
  const keep = (object: KubeChange["after"]): Kept => project(object as Kind extends "pods" ? V1Pod : V1Node);
  const watch = (change: KubeChange): void => {
    if (change.kind !== kind) return;
    arrivals.add(() => {
      version = change.version;
      put(change.name, change.after === undefined ? undefined : keep(change.after));
    });
  };
  const list = async (): Promise<void> => {
    const sentAtMs = time.nowMs;
    const session = arrivals.restart();
    try {
      const listed = await network.call("api-server", `list ${kind}`, () => {
        // The watch starts at the version of the list; its changes arrive after the list.
        if (arrivals.isCurrent(session)) cluster.listeners.add(watch);
        return { objects: [...cluster[kind]] as [string, KubeChange["after"]][], at: cluster.version };
      });
      if (!arrivals.isCurrent(session)) return;
      listedAtMs = sentAtMs;
      version = Math.max(version ?? 0, listed.at);
      replace(new Map(listed.objects.map(([key, object]) => [key, keep(object)])));
      receivedAtMs = time.nowMs;
      arrivals.begin();
    } catch {
      setTimeout(() => void list(), RELIST_AFTER_MS);
    }
  };
  gone.addEventListener("abort", () => cluster.listeners.delete(watch), { once: true });
  void list();
  setInterval(() => {
    const at = cluster.version;
    if (version !== undefined && cluster.listeners.has(watch))
      arrivals.add(() => (version = Math.max(version ?? 0, at)));
  }, BOOKMARK_EVERY_MS);
  return {
    ...read,
    resourceVersion: () => (version === undefined ? undefined : String(version)),
    listAgeMs: () => time.nowMs - listedAtMs,
    ageMs: () => time.nowMs - receivedAtMs,
    interrupt: () => {
      cluster.listeners.delete(watch);
      arrivals.restart();
      time.as(process, () => setTimeout(() => void list(), RELIST_AFTER_MS));
    },
  };
}

/** Changes of one watch arrive in order, each after a lag. They take effect after the list that the watch started from. */
function makeArrivals(network: Network, process: Process, received: () => void) {
  /** Counts lists; changes of watches before the last list are dropped. */
  let session = 0;
  let backlog: (() => void)[] = [];
  /** Changes that arrived before the list. */
  let early: (() => void)[] = [];
  let listing = true;
  return {
    add: (work: () => void): void => {
      const own = session;
      backlog.push(work);
      network.deliver(process, () => {
        if (own !== session) return;
        received();
        const next = backlog.shift();
        if (next === undefined) return;
        if (listing) early.push(next);
        else next();
      });
    },
    /** Drops the changes of the current watch. Returns the session of the next one. */
    restart: (): number => {
      backlog = [];
      early = [];
      listing = true;
      return (session += 1);
    },
    isCurrent: (own: number): boolean => own === session,
    /** The list is complete: its watch takes effect. */
    begin: (): void => {
      listing = false;
      for (const work of early.splice(0)) work();
    },
  };
}

function makeKeptStates<Kept>() {
  const kept = new Map<string, Kept>();
  const listeners = new Set<Listener<Kept>>();
  const put = (key: string, after: Kept | undefined): void => {
    const before = kept.get(key);
    if (after === undefined) kept.delete(key);
    else kept.set(key, after);
    for (const listener of listeners) listener({ key, before, after });
  };
  return {
    put,
    replace: (existing: ReadonlyMap<string, Kept>): void => {
      for (const key of [...kept.keys()]) if (!existing.has(key)) put(key, undefined);
      for (const [key, object] of existing) put(key, object);
    },
    get: (key: string) => kept.get(key),
    list: () => [...kept.values()],
    onChange: (listener: Listener<Kept>) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}
