import type { V1Affinity, V1ContainerStatus, V1Pod, V1PodCondition, V1PodSpec } from "@kubernetes/client-node";
import { annotations, labels } from "@muster/proto";
import { findGrantedNode } from "@muster/resources";
import { KINDS } from "../domain/kinds.ts";
import { findController, isReferringToKind } from "../domain/ownership.ts";
import type { PodFact, PodTrouble } from "../domain/snapshot.ts";
import {
  readUncountedEnd,
  readContainerEnd,
  keepContainer,
  readLastEnd,
  truncateText,
  findPodTrouble,
} from "./read-containers.ts";

const PHASES: ReadonlySet<string> = new Set<PodFact["phase"]>(["Pending", "Running", "Succeeded", "Failed", "Unknown"]);
/** The type of the condition in which a scheduler explains why it finds no node. */
const SCHEDULED = "PodScheduled";
const NAME_FIELD = "metadata.name";

/** The part of a pod that the cache keeps: its owner, and the fields that the rules need. Never throws, whatever the pod contains. */
export function keepPod({ metadata = {}, spec, status }: V1Pod): V1Pod {
  const { name, namespace, uid, resourceVersion, labels, ownerReferences, creationTimestamp, deletionTimestamp } =
    metadata;
  const containers = status?.containerStatuses?.map(keepContainer);
  const initContainers = status?.initContainerStatuses?.map(keepContainer);
  return defined({
    metadata: defined({
      name,
      namespace,
      uid,
      resourceVersion,
      labels,
      ownerReferences,
      creationTimestamp,
      deletionTimestamp,
      annotations: keepAnnouncement(metadata.annotations),
    }),
    spec: defined({ nodeName: spec?.nodeName, affinity: keepMachine(spec), containers: [] }),
    status: defined({
      phase: status?.phase,
      reason: status?.reason,
      message: status?.message === undefined ? undefined : truncateText(status.message),
      podIP: status?.podIP,
      conditions: status?.conditions?.map(keepCondition),
      containerStatuses: containers,
      initContainerStatuses: initContainers,
    }),
  });
}

/** The part that the cache keeps of a pod that no job can have: its name and its controller. */
export function keepForeignPod({ metadata = {} }: V1Pod): V1Pod {
  const { name, namespace, uid, ownerReferences, deletionTimestamp } = metadata;
  return { metadata: defined({ name, namespace, uid, ownerReferences, deletionTimestamp }) };
}

/** Whether a job controls the pod, may adopt it, or is named by its owner label. */
export function mayBeMember({ metadata = {} }: V1Pod): boolean {
  const { labels: written = {} } = metadata;
  if (written[labels.owner] !== undefined) return true;
  const owner = findController({ metadata });
  if (owner === undefined) return KINDS.some(({ labelKeys }) => written[labelKeys.jobNameLabelKey] !== undefined);
  return KINDS.some((kind) => isReferringToKind(owner, kind));
}

function keepAnnouncement(written: Readonly<Record<string, string>> = {}): Record<string, string> | undefined {
  const at = written[annotations.preemptedAt];
  return at === undefined ? undefined : { [annotations.preemptedAt]: at };
}

/** Returns the facts about a cached pod that the rules need. */
export function toPodFact({ metadata = {}, spec, status }: V1Pod): PodFact {
  const phase = status?.phase;
  const conditions = status?.conditions ?? [];
  const containers = [...(status?.initContainerStatuses ?? []), ...(status?.containerStatuses ?? [])];
  const over = phase === "Succeeded" || phase === "Failed";
  return {
    namespace: metadata.namespace ?? "",
    name: metadata.name ?? "",
    uid: metadata.uid ?? "",
    component: metadata.labels?.[labels.component] ?? "",
    attempt: readAttempt(metadata.labels?.[labels.attempt]),
    phase: isPhase(phase) ? phase : "Unknown",
    ready: conditions.some((each) => each.type === "Ready" && each.status === "True"),
    deleting: metadata.deletionTimestamp !== undefined,
    // Only a process that observed the end knows this, and sets it.
    endedFirst: false,
    preempted: metadata.annotations?.[annotations.preemptedAt] !== undefined,
    node: spec?.nodeName,
    pinned: spec?.nodeName === undefined ? findGrantedNode(spec?.affinity) : undefined,
    trouble: over ? undefined : troubleOfPod(status),
    createdMs: timeMs(metadata.creationTimestamp) ?? 0,
    startedMs: lastStartMs(status?.containerStatuses ?? []),
    finishedMs: over ? lastEndMs(containers) : undefined,
    containerRestarts: containers.reduce((sum, each) => sum + each.restartCount, 0),
    down: over ? [] : containers.flatMap(readUncountedEnd),
    exits: over ? containers.flatMap(readContainerEnd) : [],
    earlierExits: containers.flatMap(readLastEnd),
    conditions,
    reason: status?.reason ?? "",
    message: truncateText(status?.message ?? ""),
  };
}

/** Returns the trouble to fix first: a container needs a node, and the earlier containers of its pod. */
function troubleOfPod(status: V1Pod["status"]): PodTrouble | undefined {
  const placing = status?.conditions?.find((each) => each.type === SCHEDULED && each.status === "False");
  if (placing !== undefined)
    return { reason: placing.reason ?? "Unschedulable", message: truncateText(placing.message ?? "") };
  const containers = [...(status?.initContainerStatuses ?? []), ...(status?.containerStatuses ?? [])];
  return containers.map(findPodTrouble).find((trouble) => trouble !== undefined);
}

/** Keeps the message only where it is shown: caches hold many pods. */
function keepCondition({ type, status, reason, message }: V1PodCondition): V1PodCondition {
  if (type !== SCHEDULED || status !== "False") return { type, status };
  return {
    type,
    status,
    ...(reason !== undefined && { reason }),
    ...(message !== undefined && { message: truncateText(message) }),
  };
}

/** Keeps the machine for which a pod without a node was created, in the form of pod specs. */
function keepMachine(spec: V1PodSpec | undefined): V1Affinity | undefined {
  const machine = spec?.nodeName === undefined ? findGrantedNode(spec?.affinity) : undefined;
  if (machine === undefined) return undefined;
  const matchFields = [{ key: NAME_FIELD, operator: "In", values: [machine] }];
  return { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [{ matchFields }] } } };
}

type Defined<Value> = { [Key in keyof Value]: Exclude<Value[Key], undefined> };

/** Removes undefined fields, because readers of Kubernetes objects distinguish absent from undefined. */
function defined<Value extends object>(value: Value): Defined<Value> {
  // Object.fromEntries loses the types of the keys.
  return Object.fromEntries(Object.entries(value).filter(([, each]) => each !== undefined)) as Defined<Value>;
}

/** Reads the attempt. A pod without the label, or with an invalid one, belongs to the first attempt. */
function readAttempt(label: string | undefined): number {
  return label !== undefined && /^\d{1,9}$/.test(label) ? Number(label) : 0;
}

function lastStartMs(containers: readonly V1ContainerStatus[]): number | undefined {
  return latest(containers.map(({ state }) => timeMs((state?.running ?? state?.terminated)?.startedAt)));
}

function lastEndMs(containers: readonly V1ContainerStatus[]): number | undefined {
  return latest(containers.map(({ state }) => timeMs(state?.terminated?.finishedAt)));
}

function latest(times: readonly (number | undefined)[]): number | undefined {
  const known = times.filter((ms) => ms !== undefined);
  return known.length === 0 ? undefined : Math.max(...known);
}

function isPhase(phase: string | undefined): phase is PodFact["phase"] {
  return phase !== undefined && PHASES.has(phase);
}

/** Times in objects of informers are text, contrary to client-node's types. */
function timeMs(time: Date | string | undefined): number | undefined {
  const ms = time === undefined ? NaN : new Date(time).getTime();
  return Number.isNaN(ms) ? undefined : ms;
}
