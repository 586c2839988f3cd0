import type { ContainerFacts, ContainerStatusFacts, PodFacts } from "./pod-facts.ts";

/**
 * Returns the part of a pod that `decidePodHealth` reads, so that the verdict stays equal. A pod has some 10 KiB, and a cache of ten thousand pods keeps only
 * this part.
 */
export function keepFacts({ metadata, spec, status }: PodFacts): PodFacts {
  return compact({
    metadata: compact({
      creationTimestamp: metadata?.creationTimestamp,
      deletionTimestamp: metadata?.deletionTimestamp,
      deletionGracePeriodSeconds: metadata?.deletionGracePeriodSeconds,
    }),
    spec: compact({
      nodeName: spec?.nodeName,
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

function containerFacts({ name, restartPolicy, readinessProbe, startupProbe }: ContainerFacts) {
  return compact({
    name,
    restartPolicy,
    readinessProbe: readinessProbe && {},
    startupProbe: startupProbe && {},
  });
}

function statusFacts({ name, ready, state, lastState }: ContainerStatusFacts): ContainerStatusFacts {
  return compact({ name, ready, state: stateFacts(state), lastState: stateFacts(lastState) });
}

function stateFacts(state: ContainerStatusFacts["state"]): ContainerStatusFacts["state"] {
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
