import { createHash } from "node:crypto";
import { at, type Json, type JsonObject, mapEntries, numberAt, objectAt, put, sameJson, textAt } from "../json.ts";
import { isDeleting, nameOf } from "../metadata.ts";
import { controllerReference, isControlledBy, isOver } from "./dependents.ts";

export type DeploymentStep =
  | { readonly do: "create-set"; readonly set: JsonObject; readonly because: "template-new" }
  | {
      readonly do: "write-set";
      readonly set: JsonObject;
      readonly because: "annotations" | "scale-up" | "scale-down" | "unhealthy";
    }
  | { readonly do: "delete-set"; readonly set: JsonObject; readonly because: "history-full" };

export const HASH_LABEL = "pod-template-hash";
export const REVISION = "deployment.kubernetes.io/revision";
const REVISION_HISTORY = "deployment.kubernetes.io/revision-history";
const DESIRED = "deployment.kubernetes.io/desired-replicas";
const MAX = "deployment.kubernetes.io/max-replicas";
const LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration";
const OWN_ANNOTATIONS = [LAST_APPLIED, REVISION, REVISION_HISTORY, DESIRED, MAX];

/**
 * What to do next about the replica sets of a deployment. Steps are few at a time: what they lead to is seen in the next plan. Sets are those that the deployment owns,
 * pods all those of the namespace.
 */
export function planDeployment(
  deployment: JsonObject,
  sets: readonly JsonObject[],
  pods: readonly JsonObject[],
): DeploymentStep[] {
  if (isDeleting(deployment)) return [];
  const current = findNewSet(deployment, sets);
  const old = sets.filter((set) => set !== current).toSorted(byAge);
  const isPaused = at(deployment, "spec", "paused") === true;
  if (current !== undefined) {
    const synced = withAnnotations(deployment, current, old);
    if (!sameJson(synced, current)) return [{ do: "write-set", set: synced, because: "annotations" }];
  }
  if (isPaused) return scaleOnly(deployment, sets);
  const isRecreated = textAt(deployment, "spec", "strategy", "type") === "Recreate";
  const steps = isRecreated
    ? planRecreate(deployment, { current, old, pods })
    : planRolling(deployment, { current, old });
  return steps.length > 0 ? steps : planHistory(deployment, old);
}

/** The set with the present template of the deployment; the oldest, if there are several. */
export function findNewSet(deployment: JsonObject, sets: readonly JsonObject[]): JsonObject | undefined {
  const wanted = objectAt(deployment, "spec", "template");
  return sets.toSorted(byAge).find((set) => {
    const template = objectAt(set, "spec", "template");
    const labels = mapEntries(objectAt(template, "metadata", "labels"), (key, value) =>
      key === HASH_LABEL ? undefined : value,
    );
    return sameJson(
      put(template, ["metadata", "labels"], labels),
      put(wanted, ["metadata", "labels"], objectAt(wanted, "metadata", "labels")),
    );
  });
}

export function replicasOf(workload: JsonObject): number {
  return numberAt(workload, "spec", "replicas") ?? 1;
}

/** How many pods may be missing during a roll-out, and how many may be there beyond those that are wanted. */
export function rollingLimits(deployment: JsonObject): { readonly unavailable: number; readonly surge: number } {
  const limits = objectAt(deployment, "spec", "strategy", "rollingUpdate");
  const replicas = replicasOf(deployment);
  if (textAt(deployment, "spec", "strategy", "type") !== "RollingUpdate") return { unavailable: 0, surge: 0 };
  const surge = scaled(limits["maxSurge"], replicas, Math.ceil);
  const unavailable = scaled(limits["maxUnavailable"], replicas, Math.floor);
  // Rounding must not leave a roll-out without any way to go on.
  const least = surge === 0 && unavailable === 0 ? 1 : unavailable;
  return { surge, unavailable: Math.min(least, replicas) };
}

export function scaled(amount: Json | undefined, of: number, round: (value: number) => number): number {
  if (typeof amount === "number") return amount;
  return typeof amount === "string" ? round((Number.parseInt(amount, 10) * of) / 100) : 0;
}

type Sets = { readonly current: JsonObject | undefined; readonly old: readonly JsonObject[] };

function planRolling(deployment: JsonObject, { current, old }: Sets): DeploymentStep[] {
  const replicas = replicasOf(deployment);
  const { surge, unavailable } = rollingLimits(deployment);
  const all = current === undefined ? old : [...old, current];
  const total = sum(all, replicasOf);
  const room = (present: number): number => Math.min(Math.max(0, replicas + surge - total), replicas - present);
  if (current === undefined) return [createSet(deployment, old, room(0))];
  const present = replicasOf(current);
  if (present > replicas) return [scale(deployment, current, replicas)];
  if (present < replicas && room(present) > 0) return [scale(deployment, current, present + room(present))];

  const least = replicas - unavailable;
  const missingOfNew = present - availableOf(current);
  const removable = total - least - missingOfNew;
  if (removable <= 0) return [];
  const running = old.filter((set) => replicasOf(set) > 0);
  const unhealthy = takeFrom(running, removable, (set) => replicasOf(set) - availableOf(set));
  if (unhealthy.size > 0)
    return [...unhealthy].map(([set, count]) => ({
      ...scale(deployment, set, replicasOf(set) - count),
      because: "unhealthy",
    }));
  const spare = sum(all, availableOf) - least;
  return [...takeFrom(running, spare, replicasOf)].map(([set, count]) =>
    scale(deployment, set, replicasOf(set) - count),
  );
}

/** All old pods go before the first new one comes. */
function planRecreate(
  deployment: JsonObject,
  { current, old, pods }: Sets & { readonly pods: readonly JsonObject[] },
): DeploymentStep[] {
  const running = old.filter((set) => replicasOf(set) > 0);
  if (running.length > 0) return running.map((set) => scale(deployment, set, 0));
  const isOldPod = (pod: JsonObject): boolean => !isOver(pod) && old.some((set) => isControlledBy(pod, set));
  if (pods.some(isOldPod)) return [];
  const replicas = replicasOf(deployment);
  if (current === undefined) return [createSet(deployment, old, replicas)];
  return replicasOf(current) === replicas ? [] : [scale(deployment, current, replicas)];
}

/** A deployment that is paused still has the number of pods that it wants, where that is clear. */
function scaleOnly(deployment: JsonObject, sets: readonly JsonObject[]): DeploymentStep[] {
  const [active, ...others] = sets.filter((set) => replicasOf(set) > 0);
  const only = active ?? findNewSet(deployment, sets);
  if (only === undefined || others.length > 0 || replicasOf(only) === replicasOf(deployment)) return [];
  return [scale(deployment, only, replicasOf(deployment))];
}

function planHistory(deployment: JsonObject, old: readonly JsonObject[]): DeploymentStep[] {
  const limit = numberAt(deployment, "spec", "revisionHistoryLimit") ?? 10;
  const present = old.filter((set) => !isDeleting(set));
  const isIdle = (set: JsonObject): boolean =>
    replicasOf(set) === 0 &&
    numberAt(set, "status", "replicas") === 0 &&
    numberAt(set, "status", "observedGeneration") === numberAt(set, "metadata", "generation");
  if (!isComplete(deployment)) return [];
  return present
    .toSorted((one, other) => revisionOf(one) - revisionOf(other))
    .slice(0, Math.max(0, present.length - limit))
    .filter(isIdle)
    .map((set) => ({ do: "delete-set", set, because: "history-full" }));
}

/** Every pod is there, available, and of the present template. */
export function isComplete(deployment: JsonObject, status = objectAt(deployment, "status")): boolean {
  const count = (field: string): number => numberAt(status, field) ?? 0;
  const replicas = replicasOf(deployment);
  const generation = numberAt(deployment, "metadata", "generation") ?? 1;
  return (
    ["updatedReplicas", "replicas", "availableReplicas"].every((field) => count(field) === replicas) &&
    count("observedGeneration") >= generation
  );
}

function createSet(deployment: JsonObject, old: readonly JsonObject[], replicas: number): DeploymentStep {
  const spec = objectAt(deployment, "spec");
  const collisions = numberAt(deployment, "status", "collisionCount") ?? 0;
  const hash = hashOf([objectAt(spec, "template"), collisions]);
  const labels = { ...objectAt(spec, "template", "metadata", "labels"), [HASH_LABEL]: hash };
  const minReadySeconds = numberAt(spec, "minReadySeconds") ?? 0;
  const set: JsonObject = {
    apiVersion: "apps/v1",
    kind: "ReplicaSet",
    metadata: {
      name: `${nameOf(deployment)}-${hash}`,
      labels,
      ownerReferences: [controllerReference(deployment)],
    },
    spec: {
      replicas,
      ...(minReadySeconds === 0 ? {} : { minReadySeconds }),
      selector: put(objectAt(spec, "selector"), ["matchLabels", HASH_LABEL], hash),
      template: put(objectAt(spec, "template"), ["metadata", "labels"], labels),
    },
  };
  return {
    do: "create-set",
    set: withReplicas(deployment, withAnnotations(deployment, set, old)),
    because: "template-new",
  };
}

function scale(
  deployment: JsonObject,
  set: JsonObject,
  replicas: number,
): Extract<DeploymentStep, { readonly do: "write-set" }> {
  const because = replicas > replicasOf(set) ? "scale-up" : "scale-down";
  const sized = put(set, ["spec", "replicas"], replicas);
  return { do: "write-set", set: withReplicas(deployment, sized), because };
}

function withReplicas(deployment: JsonObject, set: JsonObject): JsonObject {
  const replicas = replicasOf(deployment);
  return put(set, ["metadata", "annotations"], {
    ...objectAt(set, "metadata", "annotations"),
    [DESIRED]: String(replicas),
    [MAX]: String(replicas + rollingLimits(deployment).surge),
  });
}

/** The new set with the annotations of the deployment, the highest revision, and the same demand on its pods. */
function withAnnotations(deployment: JsonObject, set: JsonObject, old: readonly JsonObject[]): JsonObject {
  const annotations = objectAt(set, "metadata", "annotations");
  const copied = mapEntries(objectAt(deployment, "metadata", "annotations"), (key, value) =>
    OWN_ANNOTATIONS.includes(key) ? undefined : value,
  );
  const revision = Math.max(0, ...old.map(revisionOf)) + 1;
  const before = revisionOf(set);
  const history = textAt(annotations, REVISION_HISTORY);
  const revisions =
    before >= revision
      ? {}
      : {
          [REVISION]: String(revision),
          // The set of an earlier revision is the new one again.
          ...(before === 0 ? {} : { [REVISION_HISTORY]: history === "" ? `${before}` : `${history},${before}` }),
        };
  const named = put(set, ["metadata", "annotations"], { ...annotations, ...copied, ...revisions });
  const seconds = numberAt(deployment, "spec", "minReadySeconds") ?? 0;
  if ((numberAt(set, "spec", "minReadySeconds") ?? 0) === seconds) return named;
  return put(named, ["spec", "minReadySeconds"], seconds);
}

export function revisionOf(set: JsonObject): number {
  return Number.parseInt(textAt(set, "metadata", "annotations", REVISION), 10) || 0;
}

export function availableOf(set: JsonObject): number {
  return numberAt(set, "status", "availableReplicas") ?? 0;
}

export function sum(sets: readonly JsonObject[], count: (set: JsonObject) => number): number {
  return sets.reduce((total, set) => total + count(set), 0);
}

/** Shares a number out over sets, in order, each up to what it has. */
function takeFrom(
  sets: readonly JsonObject[],
  wanted: number,
  has: (set: JsonObject) => number,
): Map<JsonObject, number> {
  const taken = new Map<JsonObject, number>();
  let left = wanted;
  for (const set of sets) {
    const count = Math.min(left, has(set));
    if (count <= 0) continue;
    taken.set(set, count);
    left -= count;
  }
  return taken;
}

const HASH_ALPHABET = "bcdfghjklmnpqrstvwxz2456789";
const HASH_LENGTH = 10;

/** Ten characters that fit into a name and a label, the same for the same value. */
export function hashOf(value: Json): string {
  const digest = createHash("sha256")
    .update(JSON.stringify(sorted(value)))
    .digest();
  return [...digest.subarray(0, HASH_LENGTH)].map((byte) => HASH_ALPHABET.charAt(byte % HASH_ALPHABET.length)).join("");
}

function sorted(value: Json): Json {
  if (Array.isArray(value)) return (value as readonly Json[]).map(sorted);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .toSorted(([one], [other]) => (one < other ? -1 : 1))
      .map(([key, inner]) => [key, sorted(inner)]),
  );
}

function byAge(one: JsonObject, other: JsonObject): number {
  const time = (set: JsonObject): string => textAt(set, "metadata", "creationTimestamp");
  if (time(one) !== time(other)) return time(one) < time(other) ? -1 : 1;
  return nameOf(one) < nameOf(other) ? -1 : 1;
}
