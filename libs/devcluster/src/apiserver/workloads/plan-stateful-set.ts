import { isObject, type Json, type JsonObject, listAt, numberAt, objectAt, put, sameJson, textAt } from "../json.ts";
import { isDeleting, nameOf } from "../metadata.ts";
import { labelsOf } from "../selectors.ts";
import { availableAtMs, controllerReference, isOver, isReady, podOfTemplate } from "./dependents.ts";
import { replicasOf } from "./plan-deployment.ts";

export type StatefulStep =
  | { readonly do: "create-claim"; readonly claim: JsonObject; readonly because: "pod-needs-it" }
  | { readonly do: "write-claim"; readonly claim: JsonObject; readonly because: "retention" }
  | { readonly do: "create-pod"; readonly pod: JsonObject; readonly because: "missing" }
  | { readonly do: "delete-pod"; readonly pod: JsonObject; readonly because: "ended" | "scaled-down" | "outdated" };

/** A template that the set has, or has had, under its name. */
export type Revision = { readonly name: string; readonly template: JsonObject };

export type StatefulFacts = {
  /** Those that the set owns. */
  readonly pods: readonly JsonObject[];
  /** All of the namespace. */
  readonly claims: readonly JsonObject[];
  /** That of the pods that have not been updated yet; the same as `update` when there are none. */
  readonly current: Revision;
  readonly update: Revision;
  readonly nowMs: number;
};

export const REVISION_LABEL = "controller-revision-hash";
const NAME_LABEL = "statefulset.kubernetes.io/pod-name";
const INDEX_LABEL = "apps.kubernetes.io/pod-index";

/**
 * What to do next for a stateful set: pods in the order of their numbers, each after the one before is available, unless all may come at once; then those that are
 * too many, then those of an old template, from the last on.
 */
export function planStatefulSet(set: JsonObject, facts: StatefulFacts): StatefulStep[] {
  if (isDeleting(set)) return [];
  const isOrdered = textAt(set, "spec", "podManagementPolicy") !== "Parallel";
  const steps: StatefulStep[] = [];
  const places = placesOf(set, facts.pods);
  for (const { ordinal, pod } of places) {
    const found = planPlace(set, { ordinal, pod, isOrdered }, facts);
    steps.push(...found.steps);
    if (found.isBlocked) return steps;
  }
  const condemned = facts.pods
    .filter((pod) => ordinalOf(set, pod) >= 0 && !isInRange(set, ordinalOf(set, pod)))
    .toSorted((one, other) => ordinalOf(set, other) - ordinalOf(set, one));
  steps.push(...condemned.flatMap((pod) => planOwners(set, pod, facts, true)));
  const isSound = (pod: JsonObject): boolean => isAvailable(set, pod, facts.nowMs);
  const firstUnsound = condemned.toReversed().find((pod) => !isSound(pod));
  for (const pod of condemned) {
    const isWaiting = isDeleting(pod) || (!isSound(pod) && pod !== firstUnsound);
    if (isOrdered && isWaiting) return steps;
    if (!isDeleting(pod)) steps.push({ do: "delete-pod", pod, because: "scaled-down" });
    if (isOrdered) return steps;
  }
  return condemned.length > 0 ? steps : [...steps, ...planUpdate(set, places, facts)];
}

/** The number in the name of a pod of a set; -1 for one that is none of its names. */
export function ordinalOf(set: JsonObject, pod: JsonObject): number {
  const number = /^-(0|[1-9][0-9]*)$/.exec(nameOf(pod).slice(nameOf(set).length))?.[1];
  return number === undefined || !nameOf(pod).startsWith(nameOf(set)) ? -1 : Number(number);
}

type Place = { readonly ordinal: number; readonly pod: JsonObject | undefined };

function placesOf(set: JsonObject, pods: readonly JsonObject[]): Place[] {
  const start = startOf(set);
  return Array.from({ length: replicasOf(set) }, (_, index) => ({
    ordinal: start + index,
    pod: pods.find((pod) => ordinalOf(set, pod) === start + index),
  }));
}

function planPlace(
  set: JsonObject,
  { ordinal, pod, isOrdered }: Place & { readonly isOrdered: boolean },
  facts: StatefulFacts,
): { readonly steps: StatefulStep[]; readonly isBlocked: boolean } {
  if (pod === undefined) {
    const claims = planClaims(set, ordinal, facts);
    // A claim that is on its way out would take the pod along.
    if (claims === "one-ends") return { steps: [], isBlocked: true };
    const created = buildPod(set, ordinal, revisionFor(set, ordinal, facts));
    return { steps: [...claims, { do: "create-pod", pod: created, because: "missing" }], isBlocked: isOrdered };
  }
  if (isOver(pod)) {
    return { steps: isDeleting(pod) ? [] : [{ do: "delete-pod", pod, because: "ended" }], isBlocked: true };
  }
  const missing = textAt(pod, "status", "phase") === "Pending" ? planClaims(set, ordinal, facts) : [];
  const steps = [...(missing === "one-ends" ? [] : missing), ...planOwners(set, pod, facts, false)];
  return { steps, isBlocked: isOrdered && !isAvailable(set, pod, facts.nowMs) };
}

/** One at a time, from the last on; the next one goes when those after it are available. */
function planUpdate(set: JsonObject, places: readonly Place[], facts: StatefulFacts): StatefulStep[] {
  const strategy = objectAt(set, "spec", "updateStrategy");
  if (textAt(strategy, "type") === "OnDelete") return [];
  const partition = numberAt(strategy, "rollingUpdate", "partition") ?? 0;
  for (const { pod } of places.slice(partition).toReversed()) {
    if (pod === undefined) return [];
    if (!isDeleting(pod) && podRevision(pod) !== facts.update.name)
      return [{ do: "delete-pod", pod, because: "outdated" }];
    if (!isAvailable(set, pod, facts.nowMs)) return [];
  }
  return [];
}

/** Pods below the partition keep the template that they have had, also when they are made again. */
function revisionFor(set: JsonObject, ordinal: number, { current, update }: StatefulFacts): Revision {
  const { type, rollingUpdate } = objectAt(set, "spec", "updateStrategy");
  const kept = isObject(rollingUpdate)
    ? (numberAt(rollingUpdate, "partition") ?? 0)
    : type === "RollingUpdate"
      ? (numberAt(set, "status", "currentReplicas") ?? 0)
      : 0;
  return ordinal < startOf(set) + kept ? current : update;
}

function buildPod(set: JsonObject, ordinal: number, { name: revision, template }: Revision): JsonObject {
  const name = `${nameOf(set)}-${ordinal}`;
  const pod = podOfTemplate(template, set);
  const claimed = claimTemplates(set).map((claim): JsonObject => ({
    name: nameOf(claim),
    persistentVolumeClaim: { claimName: claimName(set, claim, ordinal) },
  }));
  const names = new Set(claimed.map((volume) => volume["name"]));
  const others = listAt(pod, "spec", "volumes").filter((volume) => !names.has(textAt(volume, "name")));
  const volumes: Json[] = [...claimed, ...others];
  const service = textAt(set, "spec", "serviceName");
  return {
    ...pod,
    metadata: {
      ...objectAt(pod, "metadata"),
      name,
      labels: {
        ...labelsOf(pod),
        [INDEX_LABEL]: String(ordinal),
        [REVISION_LABEL]: revision,
        [NAME_LABEL]: name,
      },
    },
    spec: {
      ...objectAt(pod, "spec"),
      hostname: name,
      ...(service === "" ? {} : { subdomain: service }),
      ...(volumes.length === 0 ? {} : { volumes }),
    },
  };
}

function claimTemplates(set: JsonObject): JsonObject[] {
  return listAt(set, "spec", "volumeClaimTemplates").filter(isObject);
}

function claimName(set: JsonObject, template: JsonObject, ordinal: number): string {
  return `${nameOf(template)}-${nameOf(set)}-${ordinal}`;
}

/** The claims that a pod still needs. */
function planClaims(set: JsonObject, ordinal: number, { claims }: StatefulFacts): StatefulStep[] | "one-ends" {
  const steps: StatefulStep[] = [];
  for (const template of claimTemplates(set)) {
    const name = claimName(set, template, ordinal);
    const found = claims.find((claim) => nameOf(claim) === name);
    if (found !== undefined && isDeleting(found)) return "one-ends";
    if (found !== undefined) continue;
    const labels = { ...labelsOf(template), ...objectAt(set, "spec", "selector", "matchLabels") };
    const { annotations } = objectAt(template, "metadata");
    const owner = retention(set, "whenDeleted") === "Delete" ? { ownerReferences: [controllerReference(set)] } : {};
    const claim = {
      apiVersion: "v1",
      kind: "PersistentVolumeClaim",
      metadata: { name, labels, ...(annotations === undefined ? {} : { annotations }), ...owner },
      spec: objectAt(template, "spec"),
    };
    steps.push({ do: "create-claim", claim, because: "pod-needs-it" });
  }
  return steps;
}

/** Who takes the claims of a pod along when it goes: the set, the pod where it is one too many, or nobody. */
function planOwners(set: JsonObject, pod: JsonObject, { claims }: StatefulFacts, isCondemned: boolean): StatefulStep[] {
  const wanted =
    isCondemned && retention(set, "whenScaled") === "Delete"
      ? [controllerReference({ apiVersion: "v1", kind: "Pod", ...pod })]
      : retention(set, "whenDeleted") === "Delete"
        ? [controllerReference(set)]
        : [];
  const names = claimTemplates(set).map((template) => claimName(set, template, ordinalOf(set, pod)));
  return claims
    .filter((claim) => names.includes(nameOf(claim)) && !isDeleting(claim))
    .flatMap((claim): StatefulStep[] => {
      const known = listAt(claim, "metadata", "ownerReferences");
      const isOurs = (owner: Json): boolean =>
        ["StatefulSet", "Pod"].includes(textAt(owner, "kind")) &&
        [nameOf(set), nameOf(pod)].includes(textAt(owner, "name"));
      const owners = [...known.filter((owner) => !isOurs(owner)), ...wanted];
      if (sameJson(owners, known)) return [];
      const value = owners.length === 0 ? undefined : owners;
      return [{ do: "write-claim", claim: put(claim, ["metadata", "ownerReferences"], value), because: "retention" }];
    });
}

function retention(set: JsonObject, field: string): string {
  return textAt(set, "spec", "persistentVolumeClaimRetentionPolicy", field);
}

function startOf(set: JsonObject): number {
  return numberAt(set, "spec", "ordinals", "start") ?? 0;
}

function isInRange(set: JsonObject, ordinal: number): boolean {
  return ordinal >= startOf(set) && ordinal < startOf(set) + replicasOf(set);
}

function isAvailable(set: JsonObject, pod: JsonObject, nowMs: number): boolean {
  return isRunning(pod) && !isDeleting(pod) && availableAtMs(pod, set) <= nowMs;
}

function isRunning(pod: JsonObject): boolean {
  return textAt(pod, "status", "phase") === "Running" && isReady(pod);
}

function podRevision(pod: JsonObject): string {
  return textAt(labelsOf(pod), REVISION_LABEL);
}

export type StatefulReport = {
  readonly status: JsonObject;
  /** When the status changes though nothing else does. */
  readonly dueAtMs: number;
};

/** What a stateful set comes to with its pods; it has no old template any more once all its pods have the new one and are ready. */
export function buildStatefulStatus(
  set: JsonObject,
  { pods, current, update, nowMs }: Pick<StatefulFacts, "pods" | "current" | "update" | "nowMs">,
): StatefulReport {
  const running = pods.filter(isRunning);
  const availableAt = running.map((pod) => availableAtMs(pod, set));
  const of = (revision: Revision): number =>
    pods.filter((pod) => !isDeleting(pod) && podRevision(pod) === revision.name).length;
  const replicas = replicasOf(set);
  const isRolled =
    textAt(set, "spec", "updateStrategy", "type") === "RollingUpdate" &&
    [of(update), running.length, pods.length].every((count) => count === replicas);
  const counts = {
    readyReplicas: running.length,
    currentReplicas: of(isRolled ? update : current),
    updatedReplicas: of(update),
  };
  return {
    status: {
      observedGeneration: numberAt(set, "metadata", "generation") ?? 1,
      replicas: pods.length,
      ...Object.fromEntries(Object.entries(counts).filter(([, count]) => count > 0)),
      currentRevision: isRolled ? update.name : current.name,
      updateRevision: update.name,
      collisionCount: 0,
      availableReplicas: availableAt.filter((atMs) => atMs <= nowMs).length,
    },
    dueAtMs: Math.min(Infinity, ...availableAt.filter((atMs) => atMs > nowMs)),
  };
}
