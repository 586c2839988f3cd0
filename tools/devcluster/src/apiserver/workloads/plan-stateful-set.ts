import { type JsonObject, findNumber, getObject, getText } from "../json.ts";
import { isDeleting, getName } from "../metadata.ts";
import { getLabels } from "../selectors.ts";
import { buildPod, isOver, isReady, positive, getReplicas, computeTemplateHash } from "./owned-pods.ts";
import type { PodStep } from "./plan-replica-set.ts";

const REVISION_LABEL = "controller-revision-hash";
const NAME_LABEL = "statefulset.kubernetes.io/pod-name";
const INDEX_LABEL = "apps.kubernetes.io/pod-index";

/** Keeps the one pod of a set, under one name: it is recreated after it has ended and for a new template. */
export function planStatefulSet(set: JsonObject, pods: readonly JsonObject[]): PodStep[] {
  if (isDeleting(set)) return [];
  const pod = pods.find((one) => getName(one) === memberName(set));
  if (pod === undefined)
    return getReplicas(set) === 0 ? [] : [{ kind: "create-pod", pod: buildMember(set), because: "missing" }];
  if (isDeleting(pod)) return [];
  if (getReplicas(set) === 0) return [{ kind: "delete-pod", pod, because: "scaled-down" }];
  if (isOver(pod)) return [{ kind: "delete-pod", pod, because: "ended" }];
  return isCurrent(set, pod) ? [] : [{ kind: "delete-pod", pod, because: "outdated" }];
}

/** The status of a stateful set. */
export function buildStatefulStatus(set: JsonObject, pods: readonly JsonObject[]): JsonObject {
  const ready = pods.filter(isReady).length;
  const updated = pods.filter((pod) => !isDeleting(pod) && isCurrent(set, pod)).length;
  return {
    observedGeneration: findNumber(set, "metadata", "generation") ?? 1,
    replicas: pods.length,
    ...positive({ readyReplicas: ready, currentReplicas: updated, updatedReplicas: updated }),
    currentRevision: computeRevision(set),
    updateRevision: computeRevision(set),
    availableReplicas: ready,
  };
}

function memberName(set: JsonObject): string {
  return `${getName(set)}-0`;
}

function buildMember(set: JsonObject): JsonObject {
  const name = memberName(set);
  const labels = {
    ...getObject(set, "spec", "template", "metadata", "labels"),
    [INDEX_LABEL]: "0",
    [REVISION_LABEL]: computeRevision(set),
    [NAME_LABEL]: name,
  };
  const pod = buildPod(set, { name, labels });
  const subdomain = getText(set, "spec", "serviceName");
  return { ...pod, spec: { ...getObject(pod, "spec"), hostname: name, ...(subdomain === "" ? {} : { subdomain }) } };
}

function computeRevision(set: JsonObject): string {
  return `${getName(set)}-${computeTemplateHash(set)}`;
}

function isCurrent(set: JsonObject, pod: JsonObject): boolean {
  return getText(getLabels(pod), REVISION_LABEL) === computeRevision(set);
}
