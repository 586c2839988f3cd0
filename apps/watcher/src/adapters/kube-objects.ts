import type { V1Container, V1ContainerState, V1ContainerStatus, V1Node, V1Pod } from "@kubernetes/client-node";
import type { ContainerStatusFacts, PodFacts } from "@muster/health";
import { checkDnsLabel } from "@muster/names";
import { annotations, labels } from "@muster/proto";
import type { WatchedNode } from "../domain/node-state.ts";
import type { WatchedPod } from "../domain/pod-state.ts";

/** What the watcher keeps of a pod; undefined when its labels name no owner that can be told of. */
export function watchedPod(pod: V1Pod): WatchedPod | undefined {
  const { metadata, spec, status } = pod;
  const own = metadata?.labels ?? {};
  const owner = { kind: own[labels.ownerKind] ?? "", id: own[labels.owner] ?? "" };
  const wrong = checkDnsLabel(labels.ownerKind, owner.kind) ?? checkDnsLabel(labels.owner, owner.id);
  if (wrong !== undefined) return undefined;
  const phase = status?.phase ?? "";
  return {
    owner,
    component: own[labels.component] ?? "",
    namespace: metadata?.namespace ?? "",
    name: metadata?.name ?? "",
    uid: metadata?.uid ?? "",
    resourceVersion: Number(metadata?.resourceVersion ?? 0),
    createdAtMs: timeMs(metadata?.creationTimestamp),
    podIp: status?.podIP ?? "",
    node: spec?.nodeName ?? "",
    deleting: metadata?.deletionTimestamp !== undefined,
    exclusive: own[labels.exclusive] === "true",
    finished: phase === "Succeeded" || phase === "Failed",
    mainContainer: metadata?.annotations?.[annotations.mainContainer],
    facts: podFacts(pod),
  };
}

export function watchedNode(node: V1Node): WatchedNode {
  const { metadata, spec, status } = node;
  const closed = (spec?.taints ?? []).some(({ effect }) => effect === "NoSchedule" || effect === "NoExecute");
  return {
    name: metadata?.name ?? "",
    uid: metadata?.uid ?? "",
    resourceVersion: Number(metadata?.resourceVersion ?? 0),
    createdAtMs: timeMs(metadata?.creationTimestamp),
    labels: metadata?.labels ?? {},
    ready: (status?.conditions ?? []).some((condition) => condition.type === "Ready" && condition.status === "True"),
    schedulable: spec?.unschedulable !== true && !closed,
  };
}

/** A pod has some 10 KiB, mostly of no interest here; of ten thousand pods only this part is kept. */
function podFacts({ metadata, spec, status }: V1Pod): PodFacts {
  return compact({
    metadata: compact({
      creationTimestamp: metadata?.creationTimestamp,
      deletionTimestamp: metadata?.deletionTimestamp,
      deletionGracePeriodSeconds: metadata?.deletionGracePeriodSeconds,
    }),
    spec: compact({
      restartPolicy: spec?.restartPolicy,
      containers: (spec?.containers ?? []).map(containerFacts),
      initContainers: spec?.initContainers?.map(containerFacts),
    }),
    status: compact({
      phase: status?.phase,
      reason: status?.reason,
      message: status?.message,
      startTime: status?.startTime,
      conditions: status?.conditions
        ?.filter(({ type }) => type === "PodScheduled" || type === "DisruptionTarget")
        .map(({ type, status: word, reason, message, lastTransitionTime }) =>
          compact({ type, status: word, reason, message, lastTransitionTime }),
        ),
      containerStatuses: status?.containerStatuses?.map(statusFacts),
      initContainerStatuses: status?.initContainerStatuses?.map(statusFacts),
    }),
  });
}

function containerFacts({ name, restartPolicy, readinessProbe, startupProbe }: V1Container) {
  return compact({
    name,
    restartPolicy,
    readinessProbe: readinessProbe && {},
    startupProbe: startupProbe && {},
  });
}

function statusFacts({ name, ready, state, lastState }: V1ContainerStatus): ContainerStatusFacts {
  return compact({ name, ready, state: stateFacts(state), lastState: stateFacts(lastState) });
}

function stateFacts(state: V1ContainerState | undefined): ContainerStatusFacts["state"] {
  const { waiting, running, terminated } = state ?? {};
  return compact({
    waiting: waiting && compact({ reason: waiting.reason, message: waiting.message }),
    running: running && {},
    terminated:
      terminated &&
      compact({
        exitCode: terminated.exitCode,
        reason: terminated.reason,
        message: terminated.message,
        finishedAt: terminated.finishedAt,
      }),
  });
}

type Compact<Value> = { [Name in keyof Value as undefined extends Value[Name] ? never : Name]: Value[Name] } & {
  [Name in keyof Value as undefined extends Value[Name] ? Name : never]?: Exclude<Value[Name], undefined>;
};

/** The object without the fields that are undefined. */
function compact<Value extends object>(value: Value): Compact<Value> {
  return Object.fromEntries(Object.entries(value).filter(([, field]) => field !== undefined)) as Compact<Value>;
}

/** client-node says Date, the JSON of a watch says text; 0 when neither can be read. */
function timeMs(time: Date | string | undefined): number {
  const ms = time === undefined ? 0 : new Date(time).getTime();
  return Number.isNaN(ms) ? 0 : ms;
}
