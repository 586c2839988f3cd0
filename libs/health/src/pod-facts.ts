/** A time in the type of client-node or in the form of JSON. */
type KubeTime = Date | string;

/** The fields of a pod that determine its health, in the form of the API, so that a pod of client-node fits. */
export type PodFacts = {
  readonly metadata?: {
    readonly creationTimestamp?: KubeTime;
    readonly deletionTimestamp?: KubeTime;
    readonly deletionGracePeriodSeconds?: number;
  };
  readonly spec?: {
    readonly nodeName?: string;
    readonly restartPolicy?: string;
    readonly containers: readonly ContainerFacts[];
    readonly initContainers?: readonly ContainerFacts[];
  };
  readonly status?: {
    readonly phase?: string;
    readonly reason?: string;
    readonly message?: string;
    readonly startTime?: KubeTime;
    readonly conditions?: readonly ConditionFacts[];
    readonly containerStatuses?: readonly ContainerStatusFacts[];
    readonly initContainerStatuses?: readonly ContainerStatusFacts[];
  };
};

export type ContainerFacts = {
  readonly name: string;
  /** `Always` on an init container that runs beside the others. */
  readonly restartPolicy?: string;
  /** Only its presence matters. */
  readonly readinessProbe?: object;
  readonly startupProbe?: object;
};

export type ConditionFacts = {
  readonly type: string;
  readonly status: string;
  readonly reason?: string;
  readonly message?: string;
  readonly lastTransitionTime?: KubeTime;
};

export type ContainerStatusFacts = {
  readonly name: string;
  readonly ready?: boolean;
  readonly state?: ContainerStateFacts;
  readonly lastState?: ContainerStateFacts;
};

export type ContainerStateFacts = {
  readonly waiting?: { readonly reason?: string; readonly message?: string };
  readonly running?: { readonly startedAt?: KubeTime };
  readonly terminated?: Termination;
};

export type Termination = {
  readonly exitCode: number;
  readonly reason?: string;
  readonly message?: string;
  readonly finishedAt?: KubeTime;
};

/** Milliseconds since 1970; undefined for a time that is absent or cannot be read. */
export function parseTimeMs(time: KubeTime | undefined): number | undefined {
  if (time === undefined) return undefined;
  const ms = new Date(time).getTime();
  return Number.isNaN(ms) ? undefined : ms;
}
