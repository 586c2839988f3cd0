import type { JsonObject } from "../json.ts";
import { deployments, replicaSets } from "../kinds/deployment.ts";
import { pods } from "../kinds/pod.ts";
import { controllerRevisions, statefulSets } from "../kinds/stateful-set.ts";
import { volumeClaims } from "../kinds/volume-claim.ts";
import { nameOf, timestamp, uidOf } from "../metadata.ts";
import type { Registry } from "../registry.ts";
import { bucketOf, type Resource } from "../resource.ts";
import { FailureError } from "../status.ts";
import type { ObjectStore } from "../store.ts";
import { keyNamespace } from "../watch-events.ts";
import { syncDeployment, syncReplicaSet, syncStatefulSet } from "./sync-workload.ts";

export type WorkloadDeps = {
  readonly store: ObjectStore;
  readonly registry: Registry;
  readonly nowMs: () => number;
  readonly onDefect: (error: unknown) => void;
};

const RETRY_MIN_MS = 100;
const RETRY_MAX_MS = 30_000;
const TIMER_MAX_MS = 3_600_000;

/** What one pass over one workload came to. */
export type Synced = {
  /** When to look again though nothing has changed. */
  readonly dueAtMs: number;
  /** Why a write was refused; it is tried again after a pause. */
  readonly failure: string | undefined;
};

/** Reads and writes of one pass over a namespace. Everything happens at once, so that what is read is true until the next write. */
export type World = {
  readonly nowMs: number;
  readonly time: string;
  read: (resource: Resource) => JsonObject[];
  find: (resource: Resource, object: JsonObject) => JsonObject | undefined;
  /** Each returns why it was refused; undefined when it was done. */
  create: (resource: Resource, object: JsonObject) => { readonly made: JsonObject } | { readonly refused: string };
  write: (resource: Resource, object: JsonObject) => string | undefined;
  delete: (resource: Resource, object: JsonObject) => string | undefined;
  /** Writes the status and, as the status of a real workload does, annotations. */
  report: (resource: Resource, object: JsonObject) => string | undefined;
};

type Sync = (world: World, workload: JsonObject) => Synced;

const SYNCS: readonly (readonly [Resource, Sync])[] = [
  [replicaSets, syncReplicaSet],
  [deployments, syncDeployment],
  [statefulSets, syncStatefulSet],
];
const WATCHED = new Set([pods, volumeClaims, controllerRevisions].map(bucketOf));
const WORKLOADS = new Set(SYNCS.map(([resource]) => bucketOf(resource)));

/** Does for workloads what a controller manager does: soon after a change of a namespace, and when time alone changes something. */
export function startWorkloadController(deps: WorkloadDeps): Disposable {
  const { store } = deps;
  /** Namespaces, and when each is due. */
  const due = new Map<string, number>();
  const failures = new Map<string, number>();
  let timer: NodeJS.Timeout | undefined;
  let timerAtMs = Infinity;
  let pauseMs = 0;
  const schedule = (): void => {
    const nowMs = deps.nowMs();
    const nextMs = Math.min(Infinity, ...due.values());
    if (nextMs >= timerAtMs) return;
    clearTimeout(timer);
    timerAtMs = nextMs;
    timer = setTimeout(pass, Math.min(TIMER_MAX_MS, Math.max(pauseMs, nextMs - nowMs)));
  };
  const note = (namespace: string, atMs: number): void => {
    due.set(namespace, Math.min(atMs, due.get(namespace) ?? Infinity));
    schedule();
  };
  const pass = (): void => {
    timerAtMs = Infinity;
    const startMs = performance.now();
    const nowMs = deps.nowMs();
    const ready = [...due].filter(([, atMs]) => atMs <= nowMs).map(([namespace]) => namespace);
    for (const namespace of ready) {
      due.delete(namespace);
      try {
        const dueAtMs = syncNamespace(deps, namespace, failures);
        if (dueAtMs < Infinity) note(namespace, dueAtMs);
      } catch (error) {
        deps.onDefect(error);
      }
    }
    // With thousands of pods that change, requests get at least as much of the time.
    pauseMs = performance.now() - startMs;
    schedule();
  };
  for (const [resource] of SYNCS)
    for (const [key] of store.entries(bucketOf(resource))) note(keyNamespace(key), deps.nowMs());
  const unsubscribe = store.subscribe((bucket, { key }) => {
    // Most clusters have pods, and most of them nobody who makes them here.
    const isMet = WATCHED.has(bucket) && SYNCS.some(([resource]) => store.entries(bucketOf(resource)).length > 0);
    if (isMet || WORKLOADS.has(bucket)) note(keyNamespace(key), deps.nowMs());
  });
  return {
    [Symbol.dispose]: () => {
      unsubscribe();
      clearTimeout(timer);
    },
  };
}

/** Looks once at each workload of a namespace; returns when to look again. */
function syncNamespace(deps: WorkloadDeps, namespace: string, failures: Map<string, number>): number {
  const world = worldOf(deps, namespace);
  let dueAtMs = Infinity;
  for (const [resource, sync] of SYNCS) {
    for (const workload of world.read(resource)) {
      const { failure, dueAtMs: atMs } = sync(world, workload);
      dueAtMs = Math.min(dueAtMs, atMs);
      if (failure === undefined) {
        failures.delete(uidOf(workload));
        continue;
      }
      const count = failures.get(uidOf(workload)) ?? 0;
      failures.set(uidOf(workload), count + 1);
      dueAtMs = Math.min(dueAtMs, world.nowMs + Math.min(RETRY_MAX_MS, RETRY_MIN_MS * 2 ** count));
    }
  }
  return dueAtMs;
}

function worldOf({ store, registry, nowMs }: WorkloadDeps, namespace: string): World {
  const atMs = nowMs();
  const time = timestamp(atMs);
  const writer = { manager: "kube-controller-manager", subresource: "", time };
  const targetOf = (resource: Resource, object: JsonObject) => ({ resource, namespace, name: nameOf(object) });
  return {
    nowMs: atMs,
    time,
    read: (resource) =>
      store.entries(bucketOf(resource)).flatMap(([key, object]) => (keyNamespace(key) === namespace ? [object] : [])),
    find: (resource, object) => registry.find(targetOf(resource, object)),
    create: (resource, object) => {
      let made: JsonObject | undefined;
      const refused = attempt(() => {
        made = registry.create(resource, namespace, object, false, writer);
      });
      return made === undefined ? { refused: refused ?? "" } : { made };
    },
    write: (resource, object) =>
      attempt(() => registry.update(targetOf(resource, object), { change: () => object, dryRun: false, writer })),
    delete: (resource, object) =>
      attempt(() => registry.delete(targetOf(resource, object), { uid: uidOf(object) }, false)),
    report: (resource, object) =>
      attempt(() =>
        registry.update(targetOf(resource, object), {
          subresource: "status",
          change: () => object,
          dryRun: false,
          writer: { ...writer, subresource: "status" },
        }),
      ),
  };
}

/** Why something is refused, in the words that a client gets. */
function attempt(act: () => unknown): string | undefined {
  try {
    act();
    return undefined;
  } catch (error) {
    if (!(error instanceof FailureError)) throw error;
    return error.failure.message;
  }
}
