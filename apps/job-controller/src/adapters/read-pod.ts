import type { V1Affinity, V1ContainerStatus, V1Pod, V1PodCondition, V1PodSpec } from "@kubernetes/client-node";
import { labels } from "@muster/proto";
import type { PodFact } from "../domain/snapshot.ts";

const PHASES: ReadonlySet<string> = new Set<PodFact["phase"]>(["Pending", "Running", "Succeeded", "Failed", "Unknown"]);
/** Of the condition in which a scheduler says why it finds no place. */
const SCHEDULED = "PodScheduled";
const NAME_FIELD = "metadata.name";

/** What the cache keeps of a pod: whose it is, and what rules look at. Never throws, whatever somebody has written on it. */
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
    }),
    spec: defined({ nodeName: spec?.nodeName, affinity: keepMachine(spec), containers: [] }),
    status: defined({
      phase: status?.phase,
      reason: status?.reason,
      podIP: status?.podIP,
      conditions: status?.conditions?.map(keepCondition),
      containerStatuses: containers,
      initContainerStatuses: initContainers,
    }),
  });
}

/** What rules look at, of a pod that was kept. */
export function podFact({ metadata = {}, spec, status }: V1Pod): PodFact {
  const phase = status?.phase;
  const conditions = status?.conditions ?? [];
  const placing = conditions.find((each) => each.type === SCHEDULED && each.status === "False");
  const containers = [...(status?.initContainerStatuses ?? []), ...(status?.containerStatuses ?? [])];
  const over = phase === "Succeeded" || phase === "Failed";
  return {
    name: metadata.name ?? "",
    uid: metadata.uid ?? "",
    component: metadata.labels?.[labels.component] ?? "",
    attempt: readAttempt(metadata.labels?.[labels.attempt]),
    phase: isPhase(phase) ? phase : "Unknown",
    ready: conditions.some((each) => each.type === "Ready" && each.status === "True"),
    deleting: metadata.deletionTimestamp !== undefined,
    node: spec?.nodeName,
    pinned: spec?.nodeName === undefined ? machineOf(spec) : undefined,
    unplaced: placing?.message ?? "",
    createdMs: timeMs(metadata.creationTimestamp) ?? 0,
    finishedMs: over ? lastEndMs(containers) : undefined,
    containerRestarts: containers.reduce((sum, each) => sum + each.restartCount, 0),
    exits: over ? containers.flatMap(exitOf) : [],
    conditions,
    reason: status?.reason ?? "",
  };
}

/** The message only where rules look at it: caches hold many pods. */
function keepCondition({ type, status, message }: V1PodCondition): V1PodCondition {
  const isUnplaced = type === SCHEDULED && status === "False";
  return { type, status, ...(isUnplaced && message !== undefined && { message }) };
}

/** The machine that a pod without a node was made for, in the form in which it is written on pods. */
function keepMachine(spec: V1PodSpec | undefined): V1Affinity | undefined {
  const machine = spec?.nodeName === undefined ? machineOf(spec) : undefined;
  if (machine === undefined) return undefined;
  const matchFields = [{ key: NAME_FIELD, operator: "In", values: [machine] }];
  return { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [{ matchFields }] } } };
}

/** Every term names the same machine, so that the first one tells it. */
function machineOf(spec: V1PodSpec | undefined): string | undefined {
  const [term] = spec?.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms ?? [];
  const fields = term?.matchFields?.filter(({ key, operator }) => key === NAME_FIELD && operator === "In");
  return fields?.at(-1)?.values?.[0];
}

function keepContainer({ name, restartCount, ready, state }: V1ContainerStatus): V1ContainerStatus {
  const { terminated } = state ?? {};
  const end =
    terminated === undefined ? undefined : { exitCode: terminated.exitCode, finishedAt: terminated.finishedAt };
  return {
    name,
    restartCount,
    ready,
    image: "",
    imageID: "",
    ...(end !== undefined && { state: { terminated: defined(end) } }),
  };
}

type Defined<Value> = { [Key in keyof Value]: Exclude<Value[Key], undefined> };

/** Without what is undefined: to whoever reads an object of Kubernetes, absent and undefined are not the same. */
function defined<Value extends object>(value: Value): Defined<Value> {
  // Object.fromEntries loses which keys are left.
  return Object.fromEntries(Object.entries(value).filter(([, each]) => each !== undefined)) as Defined<Value>;
}

/** A pod that was labelled by hand, or before there were attempts, is of the first one. */
function readAttempt(label: string | undefined): number {
  return label !== undefined && /^\d{1,9}$/.test(label) ? Number(label) : 0;
}

function exitOf({ name, state }: V1ContainerStatus): { container: string; code: number }[] {
  return state?.terminated === undefined ? [] : [{ container: name, code: state.terminated.exitCode }];
}

function lastEndMs(containers: readonly V1ContainerStatus[]): number | undefined {
  const ends = containers.flatMap(({ state }) => timeMs(state?.terminated?.finishedAt) ?? []);
  return ends.length === 0 ? undefined : Math.max(...ends);
}

function isPhase(phase: string | undefined): phase is PodFact["phase"] {
  return phase !== undefined && PHASES.has(phase);
}

/** Times are text in objects of informers, whatever client-node's types say. */
function timeMs(time: Date | string | undefined): number | undefined {
  const ms = time === undefined ? NaN : new Date(time).getTime();
  return Number.isNaN(ms) ? undefined : ms;
}
