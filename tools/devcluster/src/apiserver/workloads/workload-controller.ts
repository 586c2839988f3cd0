import { type JsonObject, put } from "../json.ts";
import { deployments, replicaSets } from "../kinds/deployment.ts";
import { pods } from "../kinds/pod.ts";
import { statefulSets } from "../kinds/stateful-set.ts";
import { nameOf, timestamp, uidOf } from "../metadata.ts";
import type { Registry } from "../registry.ts";
import { bucketOf, type Resource } from "../resource.ts";
import { FailureError } from "../status.ts";
import type { ObjectStore } from "../store.ts";
import { keyNamespace } from "../watch-events.ts";
import { isControlledBy } from "./owned-pods.ts";
import { buildDeploymentStatus, planDeployment } from "./plan-deployment.ts";
import { buildReplicaSetStatus, planReplicaSet, type PodStep } from "./plan-replica-set.ts";
import { buildStatefulStatus, planStatefulSet } from "./plan-stateful-set.ts";

export type WorkloadDeps = {
  readonly store: ObjectStore;
  readonly registry: Registry;
  readonly nowMs: () => number;
  readonly onDefect: (error: unknown) => void;
};

const RETRY_MIN_MS = 100;
const RETRY_MAX_MS = 30_000;

/** Reads and writes of one pass over a namespace. Everything happens at once, so that what is read is true until the next write. */
type World = {
  readonly time: string;
  read: (resource: Resource) => JsonObject[];
  /** Each returns why it was refused; undefined when it was done. */
  create: (resource: Resource, object: JsonObject) => string | undefined;
  write: (resource: Resource, object: JsonObject) => string | undefined;
  delete: (resource: Resource, object: JsonObject) => string | undefined;
  report: (resource: Resource, object: JsonObject, status: JsonObject) => string | undefined;
};

/** Takes a workload one step further and reports its status; returns why a write was refused. */
type Sync = (world: World, workload: JsonObject) => string | undefined;

const SYNCS: readonly (readonly [Resource, Sync])[] = [
  [replicaSets, syncReplicaSet],
  [deployments, syncDeployment],
  [statefulSets, syncStatefulSet],
];
const WORKLOADS = new Set(SYNCS.map(([resource]) => bucketOf(resource)));

/** Does for workloads what a controller manager does: soon after a change of a namespace. */
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
    timer = setTimeout(pass, Math.max(pauseMs, nextMs - nowMs));
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
    // Most clusters have pods and no workloads.
    const isMet = bucket === bucketOf(pods) && SYNCS.some(([resource]) => store.entries(bucketOf(resource)).length > 0);
    if (isMet || WORKLOADS.has(bucket)) note(keyNamespace(key), deps.nowMs());
  });
  return {
    [Symbol.dispose]: () => {
      unsubscribe();
      clearTimeout(timer);
    },
  };
}

/** Runs one pass over each workload of a namespace; returns when a refused write is due again. */
function syncNamespace(deps: WorkloadDeps, namespace: string, failures: Map<string, number>): number {
  const world = worldOf(deps, namespace);
  let dueAtMs = Infinity;
  for (const [resource, sync] of SYNCS) {
    for (const workload of world.read(resource)) {
      if (sync(world, workload) === undefined) {
        failures.delete(uidOf(workload));
        continue;
      }
      const count = failures.get(uidOf(workload)) ?? 0;
      failures.set(uidOf(workload), count + 1);
      dueAtMs = Math.min(dueAtMs, deps.nowMs() + Math.min(RETRY_MAX_MS, RETRY_MIN_MS * 2 ** count));
    }
  }
  return dueAtMs;
}

function syncReplicaSet(world: World, set: JsonObject): string | undefined {
  const failure = actOnPods(world, planReplicaSet(set, ownedBy(world, set, pods)));
  const { time } = world;
  const status = buildReplicaSetStatus(set, ownedBy(world, set, pods), { failure, time });
  return world.report(replicaSets, set, status) ?? failure;
}

function syncDeployment(world: World, deployment: JsonObject): string | undefined {
  let failure: string | undefined;
  for (const step of planDeployment(deployment, ownedBy(world, deployment, replicaSets), world.read(pods))) {
    if (step.do === "create-set") failure ??= world.create(replicaSets, step.set);
    else if (step.do === "write-set") failure ??= world.write(replicaSets, step.set);
    else failure ??= world.delete(replicaSets, step.set);
  }
  const status = buildDeploymentStatus(deployment, ownedBy(world, deployment, replicaSets), world.time);
  return world.report(deployments, deployment, status) ?? failure;
}

function syncStatefulSet(world: World, set: JsonObject): string | undefined {
  const failure = actOnPods(world, planStatefulSet(set, ownedBy(world, set, pods)));
  return world.report(statefulSets, set, buildStatefulStatus(set, ownedBy(world, set, pods))) ?? failure;
}

/** Stops at the first refusal, which the other steps would meet too. */
function actOnPods(world: World, steps: readonly PodStep[]): string | undefined {
  for (const step of steps) {
    const refused = step.do === "create-pod" ? world.create(pods, step.pod) : world.delete(pods, step.pod);
    if (refused !== undefined) return refused;
  }
  return undefined;
}

function ownedBy(world: World, workload: JsonObject, resource: Resource): JsonObject[] {
  return world.read(resource).filter((object) => isControlledBy(object, workload));
}

function worldOf({ store, registry, nowMs }: WorkloadDeps, namespace: string): World {
  const targetOf = (resource: Resource, object: JsonObject) => ({ resource, namespace, name: nameOf(object) });
  return {
    time: timestamp(nowMs()),
    read: (resource) =>
      store.entries(bucketOf(resource)).flatMap(([key, object]) => (keyNamespace(key) === namespace ? [object] : [])),
    create: (resource, object) => attempt(() => registry.create(resource, namespace, object, false)),
    write: (resource, object) =>
      attempt(() => registry.update(targetOf(resource, object), { change: () => object, dryRun: false })),
    delete: (resource, object) =>
      attempt(() => registry.delete(targetOf(resource, object), { uid: uidOf(object) }, false)),
    report: (resource, object, status) => {
      const latest = registry.find(targetOf(resource, object));
      if (latest === undefined) return undefined;
      const change = () => put(latest, ["status"], status);
      return attempt(() =>
        registry.update(targetOf(resource, object), { subresource: "status", change, dryRun: false }),
      );
    },
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
