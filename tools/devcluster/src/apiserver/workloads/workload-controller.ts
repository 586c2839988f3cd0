import { type JsonObject, setAt } from "../json.ts";
import { deployments, replicaSets } from "../kinds/deployment.ts";
import { pods } from "../kinds/pod.ts";
import { statefulSets } from "../kinds/stateful-set.ts";
import { getName, formatTimestamp, getUid } from "../metadata.ts";
import { passNamespaces } from "../pass-namespaces.ts";
import type { Registry } from "../registry.ts";
import { buildBucketName, type Resource } from "../resource.ts";
import { FailureError } from "../status.ts";
import type { ObjectStore } from "../store.ts";
import { getKeyNamespace } from "../watch-events.ts";
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

/** A refused write is retried: a quota that grows changes no pod and no workload. */
const RETRY_MS = 1_000;

/** Reads and writes of one pass over a namespace. All are synchronous, so a read stays true until the next write. */
type World = {
  readonly time: string;
  read: (resource: Resource) => JsonObject[];
  /** Each returns the refusal; undefined on success. */
  create: (resource: Resource, object: JsonObject) => string | undefined;
  write: (resource: Resource, object: JsonObject) => string | undefined;
  delete: (resource: Resource, object: JsonObject) => string | undefined;
  report: (resource: Resource, object: JsonObject, status: JsonObject) => string | undefined;
};

/** Takes a workload one step further and reports its status; returns the refusal of a write. */
type Sync = (world: World, workload: JsonObject) => string | undefined;

const SYNCS: readonly (readonly [Resource, Sync])[] = [
  [replicaSets, syncReplicaSet],
  [deployments, syncDeployment],
  [statefulSets, syncStatefulSet],
];
const WORKLOADS = new Set(SYNCS.map(([resource]) => buildBucketName(resource)));

/** Acts for workloads as a controller manager does: soon after a change of a namespace. */
export function startWorkloadController(deps: WorkloadDeps): Disposable {
  const { store } = deps;
  const retries = new Map<string, NodeJS.Timeout>();
  const passes = passNamespaces((namespace) => {
    const world = readWorld(deps, namespace);
    // Every workload gets its pass, also after a refusal.
    const refusals = SYNCS.flatMap(([resource, sync]) => world.read(resource).map((one) => sync(world, one)));
    clearTimeout(retries.get(namespace));
    retries.delete(namespace);
    if (refusals.every((refusal) => refusal === undefined)) return;
    retries.set(
      namespace,
      setTimeout(() => passes.note(namespace), RETRY_MS),
    );
  }, deps.onDefect);
  for (const [resource] of SYNCS)
    for (const [key] of store.entries(buildBucketName(resource))) passes.note(getKeyNamespace(key));
  const unsubscribe = store.subscribe((bucket, { key }) => {
    // Most clusters have pods and no workloads.
    const isMet =
      bucket === buildBucketName(pods) &&
      SYNCS.some(([resource]) => store.entries(buildBucketName(resource)).length > 0);
    if (isMet || WORKLOADS.has(bucket)) passes.note(getKeyNamespace(key));
  });
  return {
    [Symbol.dispose]: () => {
      unsubscribe();
      passes[Symbol.dispose]();
      for (const retry of retries.values()) clearTimeout(retry);
    },
  };
}

function syncReplicaSet(world: World, set: JsonObject): string | undefined {
  const failure = actOnPods(world, planReplicaSet(set, listOwned(world, set, pods)));
  const { time } = world;
  const status = buildReplicaSetStatus(set, listOwned(world, set, pods), { failure, time });
  return world.report(replicaSets, set, status) ?? failure;
}

function syncDeployment(world: World, deployment: JsonObject): string | undefined {
  let failure: string | undefined;
  for (const step of planDeployment(deployment, listOwned(world, deployment, replicaSets), world.read(pods))) {
    if (step.kind === "create-set") failure ??= world.create(replicaSets, step.set);
    else if (step.kind === "write-set") failure ??= world.write(replicaSets, step.set);
    else failure ??= world.delete(replicaSets, step.set);
  }
  const status = buildDeploymentStatus(deployment, listOwned(world, deployment, replicaSets), world.time);
  return world.report(deployments, deployment, status) ?? failure;
}

function syncStatefulSet(world: World, set: JsonObject): string | undefined {
  const failure = actOnPods(world, planStatefulSet(set, listOwned(world, set, pods)));
  return world.report(statefulSets, set, buildStatefulStatus(set, listOwned(world, set, pods))) ?? failure;
}

/** Stops at the first refusal, which the other steps would meet too. */
function actOnPods(world: World, steps: readonly PodStep[]): string | undefined {
  for (const step of steps) {
    const refused = step.kind === "create-pod" ? world.create(pods, step.pod) : world.delete(pods, step.pod);
    if (refused !== undefined) return refused;
  }
  return undefined;
}

function listOwned(world: World, workload: JsonObject, resource: Resource): JsonObject[] {
  return world.read(resource).filter((object) => isControlledBy(object, workload));
}

function readWorld({ store, registry, nowMs }: WorkloadDeps, namespace: string): World {
  const targetOf = (resource: Resource, object: JsonObject) => ({ resource, namespace, name: getName(object) });
  return {
    time: formatTimestamp(nowMs()),
    read: (resource) =>
      store
        .entries(buildBucketName(resource))
        .flatMap(([key, object]) => (getKeyNamespace(key) === namespace ? [object] : [])),
    create: (resource, object) => attempt(() => registry.create(resource, namespace, object, false)),
    write: (resource, object) =>
      attempt(() => registry.update(targetOf(resource, object), { change: () => object, dryRun: false })),
    delete: (resource, object) =>
      attempt(() => registry.delete(targetOf(resource, object), { uid: getUid(object) }, false)),
    report: (resource, object, status) => {
      const latest = registry.find(targetOf(resource, object));
      if (latest === undefined) return undefined;
      const change = () => setAt(latest, ["status"], status);
      return attempt(() =>
        registry.update(targetOf(resource, object), { subresource: "status", change, dryRun: false }),
      );
    },
  };
}

/** The refusal of a write, in the words of an answer to a client. */
function attempt(act: () => unknown): string | undefined {
  try {
    act();
    return undefined;
  } catch (error) {
    if (!(error instanceof FailureError)) throw error;
    return error.failure.message;
  }
}
