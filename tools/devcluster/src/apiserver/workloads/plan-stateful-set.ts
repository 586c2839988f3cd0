import { type JsonObject, numberAt, objectAt, textAt } from "../json.ts";
import { isDeleting, nameOf } from "../metadata.ts";
import { labelsOf } from "../selectors.ts";
import { buildPod, isOver, isReady, positive, replicasOf, templateHash } from "./owned-pods.ts";
import type { PodStep } from "./plan-replica-set.ts";

const REVISION_LABEL = "controller-revision-hash";
const NAME_LABEL = "statefulset.kubernetes.io/pod-name";
const INDEX_LABEL = "apps.kubernetes.io/pod-index";

/** One step at a time: pods in the order of their numbers, each after the one before is ready, then those above the number, then those of an old template from the last on. */
export function planStatefulSet(set: JsonObject, pods: readonly JsonObject[]): PodStep[] {
  if (isDeleting(set)) return [];
  const find = (ordinal: number): JsonObject | undefined =>
    pods.find((pod) => nameOf(pod) === `${nameOf(set)}-${ordinal}`);
  const ordinals = Array.from({ length: replicasOf(set) }, (_, ordinal) => ordinal);
  for (const ordinal of ordinals) {
    const pod = find(ordinal);
    if (pod === undefined) return [{ do: "create-pod", pod: buildMember(set, ordinal), because: "missing" }];
    if (isDeleting(pod)) return [];
    if (isOver(pod)) return [{ do: "delete-pod", pod, because: "ended" }];
    // A pod that never gets ready would otherwise keep the template that is to repair it.
    if (!isReady(pod) && isCurrent(set, pod)) return [];
  }
  const wanted = new Set(ordinals.map(find));
  const extra = pods.filter((pod) => !wanted.has(pod)).toSorted((one, other) => ordinalOf(other) - ordinalOf(one))[0];
  if (extra !== undefined) return isDeleting(extra) ? [] : [{ do: "delete-pod", pod: extra, because: "scaled-down" }];
  const outdated = ordinals
    .toReversed()
    .map(find)
    .find((pod) => pod !== undefined && !isCurrent(set, pod));
  return outdated === undefined ? [] : [{ do: "delete-pod", pod: outdated, because: "outdated" }];
}

/** The status of a stateful set. */
export function buildStatefulStatus(set: JsonObject, pods: readonly JsonObject[]): JsonObject {
  const ready = pods.filter(isReady).length;
  const updated = pods.filter((pod) => !isDeleting(pod) && isCurrent(set, pod)).length;
  return {
    observedGeneration: numberAt(set, "metadata", "generation") ?? 1,
    replicas: pods.length,
    ...positive({ readyReplicas: ready, currentReplicas: updated, updatedReplicas: updated }),
    currentRevision: revisionOf(set),
    updateRevision: revisionOf(set),
    availableReplicas: ready,
  };
}

function buildMember(set: JsonObject, ordinal: number): JsonObject {
  const name = `${nameOf(set)}-${ordinal}`;
  const labels = {
    ...objectAt(set, "spec", "template", "metadata", "labels"),
    [INDEX_LABEL]: String(ordinal),
    [REVISION_LABEL]: revisionOf(set),
    [NAME_LABEL]: name,
  };
  const pod = buildPod(set, { name, labels });
  const subdomain = textAt(set, "spec", "serviceName");
  return { ...pod, spec: { ...objectAt(pod, "spec"), hostname: name, ...(subdomain === "" ? {} : { subdomain }) } };
}

function revisionOf(set: JsonObject): string {
  return `${nameOf(set)}-${templateHash(set)}`;
}

function isCurrent(set: JsonObject, pod: JsonObject): boolean {
  return textAt(labelsOf(pod), REVISION_LABEL) === revisionOf(set);
}

function ordinalOf(pod: JsonObject): number {
  return Number(nameOf(pod).split("-").at(-1));
}
