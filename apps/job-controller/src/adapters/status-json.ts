import { formatIndexes, parseIndexes } from "../domain/completed-indexes.ts";
import {
  isRemembered,
  NEW_STATUS,
  UNCOUNTED_REASONS,
  type Condition,
  type ConditionType,
  type JobStatus,
  type ReplicaStatus,
  type Uncounted,
} from "../domain/job-status.ts";
import { summariseState } from "../domain/summarise-state.ts";

/** A status as a custom resource has it. What is not there is absent; a merge patch needs it to be null. */
export type StatusJson = {
  readonly observedGeneration?: number;
  readonly state?: string;
  readonly message?: string;
  readonly completions?: string;
  readonly restarts?: number;
  readonly startTime?: string | null;
  readonly completionTime?: string | null;
  readonly conditions?: readonly ConditionJson[];
  readonly replicaStatuses?: Readonly<Record<string, ReplicaJson>>;
} & GangProgressJson;

type ConditionJson = {
  readonly type: string;
  readonly status: string;
  readonly reason?: string;
  readonly message?: string;
  readonly lastUpdateTime?: string;
  readonly lastTransitionTime?: string;
};

type ReplicaProgressJson = {
  readonly restarts?: number;
  readonly completedIndexes?: string;
  readonly counted?: readonly { readonly pod: string; readonly failures: number }[];
  readonly uncounted?: readonly UncountedJson[];
};

type UncountedJson = {
  readonly index: number;
  readonly pod: string;
  readonly times: number;
  readonly at: string;
  readonly because: string;
};

type ReplicaJson = {
  readonly active?: number;
  readonly ready?: number;
  readonly succeeded?: number;
  readonly failed?: number;
  /** Finds the pods that are counted. */
  readonly selector?: string;
} & ReplicaProgressJson;

type GangProgressJson = {
  readonly attempt?: number;
  readonly attemptsCounted?: number;
  readonly replaced?: readonly string[];
  readonly regrouping?: boolean;
};

/** What is remembered beside the status where its schema belongs to somebody else and drops what it does not know. */
type ProgressJson = GangProgressJson & { readonly replicas?: Readonly<Record<string, ReplicaProgressJson>> };

/** What the status of this kind is called, what finds the pods of a type, and how many pods its spec asks for of each type; the order of the types is the spec's. */
export type StatusShape = {
  readonly statusKey: (type: string) => string;
  readonly selector: (type: string) => string;
  readonly types: readonly { readonly type: string; readonly replicas: number }[];
  /** Of all pods, where it is not the sum of those of the types. */
  readonly total?: number | undefined;
};

/**
 * The types that a status tells of, in place of those of a spec that cannot be read: what it remembers is needed when the spec can be read again.
 * `replicasMost`: no index is as large as that.
 */
export function typesOf(
  json: StatusJson | undefined,
  annotation: string | undefined,
  replicasMost: number,
): StatusShape["types"] {
  const progress = annotation === undefined ? undefined : parseProgress(annotation);
  const keys = [...Object.keys(json?.replicaStatuses ?? {}), ...Object.keys(progress?.replicas ?? {})];
  const types = new Set(keys.map((key) => key.toLowerCase()));
  return [...types].map((type) => ({ type, replicas: replicasMost }));
}

const CONDITIONS: ReadonlySet<string> = new Set<ConditionType>([
  "Created",
  "Suspended",
  "MachinesReserved",
  "PodNamesTaken",
  "PodsWaiting",
  "SpecUnreadable",
  "Running",
  "Restarting",
  "Succeeded",
  "Failed",
]);

/** Everything, as Muster's own resource keeps it. */
export function statusJson(status: JobStatus, shape: StatusShape): StatusJson {
  const total = shape.total ?? shape.types.reduce((sum, { replicas }) => sum + replicas, 0);
  return {
    ...publicJson(status, shape),
    ...summariseState(status, total),
    replicaStatuses: byType(status, shape, (replica) => ({
      ...countsJson(replica, shape),
      ready: replica.ready,
      ...progressOf(replica),
    })),
    ...gangProgress(status),
  };
}

/** What resources of other projects have a place for. */
export function publicJson(status: JobStatus, shape: StatusShape): StatusJson {
  return {
    observedGeneration: status.observedGeneration,
    startTime: timeJson(status.startMs),
    completionTime: timeJson(status.completionMs),
    conditions: status.conditions.map(conditionJson),
    replicaStatuses: byType(status, shape, countsJson),
  };
}

/** The rest of it, for an annotation; undefined while there is nothing to remember. */
export function progressJson(status: JobStatus): string | undefined {
  const replicas = status.replicas.filter(isRemembered).map((replica) => [replica.type, progressOf(replica)] as const);
  const { attempt, replaced, regrouping } = status;
  if (replicas.length === 0 && attempt === 0 && replaced.length === 0 && !regrouping) return undefined;
  const progress: ProgressJson = { ...gangProgress(status), replicas: Object.fromEntries(replicas) };
  return JSON.stringify(progress);
}

/**
 * The status that was written, or one of a job that nobody has looked at. Whatever is not of the form in which we write it is taken for absent: people and older
 * versions may have written it.
 */
export function readStatus(
  json: StatusJson | undefined,
  annotation: string | undefined,
  shape: StatusShape,
): JobStatus {
  const progress = annotation === undefined ? undefined : parseProgress(annotation);
  const gang: GangProgressJson = progress ?? json ?? {};
  if (json === undefined && progress === undefined) return NEW_STATUS;
  const types = shape.types.map(({ type, replicas }): ReplicaStatus => {
    const counts = json?.replicaStatuses?.[shape.statusKey(type)] ?? {};
    const kept: ReplicaProgressJson = progress === undefined ? counts : (progress.replicas?.[type] ?? {});
    return {
      type,
      active: count(counts.active),
      ready: count(counts.ready),
      succeeded: count(counts.succeeded),
      failed: count(counts.failed),
      restarts: count(kept.restarts),
      completedIndexes: parseIndexes(kept.completedIndexes ?? "", replicas),
      counted: (kept.counted ?? []).map(({ pod, failures }) => ({ pod, failures: count(failures) })),
      uncounted: (kept.uncounted ?? []).map(readUncounted).filter(({ index }) => index < replicas),
    };
  });
  return {
    observedGeneration: count(json?.observedGeneration),
    conditions: (json?.conditions ?? []).flatMap(readCondition),
    startMs: timeMs(json?.startTime),
    completionMs: timeMs(json?.completionTime),
    replicas: json?.replicaStatuses === undefined && progress === undefined ? [] : types,
    attempt: count(gang.attempt),
    attemptsCounted: count(gang.attemptsCounted),
    replaced: gang.replaced ?? [],
    regrouping: gang.regrouping ?? false,
  };
}

function gangProgress({ attempt, attemptsCounted, replaced, regrouping }: JobStatus): GangProgressJson {
  return { attempt, attemptsCounted, replaced, regrouping };
}

function progressOf({ restarts, completedIndexes, counted, uncounted }: ReplicaStatus): ReplicaProgressJson {
  return {
    restarts,
    completedIndexes: formatIndexes(completedIndexes),
    counted,
    uncounted: uncounted.map(({ atMs, ...each }) => ({ ...each, at: timeJson(atMs) ?? "" })),
  };
}

function readUncounted({ index, pod, times, at, because }: UncountedJson): Uncounted {
  return {
    index: count(index),
    pod,
    times: count(times),
    // Without a time nothing is waited for.
    atMs: timeMs(at) ?? 0,
    because: UNCOUNTED_REASONS.find((reason) => reason === because) ?? "disrupted",
  };
}

function countsJson({ type, active, succeeded, failed }: ReplicaStatus, { selector }: StatusShape): ReplicaJson {
  return { active, succeeded, failed, selector: selector(type) };
}

function byType<Json>(
  { replicas }: JobStatus,
  shape: StatusShape,
  json: (replica: ReplicaStatus, shape: StatusShape) => Json,
): Readonly<Record<string, Json>> {
  return Object.fromEntries(replicas.map((replica) => [shape.statusKey(replica.type), json(replica, shape)]));
}

function conditionJson({ type, status, reason, message, lastUpdateMs, lastTransitionMs }: Condition): ConditionJson {
  const [lastUpdateTime, lastTransitionTime] = [timeJson(lastUpdateMs) ?? "", timeJson(lastTransitionMs) ?? ""];
  return { type, status, reason, message, lastUpdateTime, lastTransitionTime };
}

function readCondition(json: ConditionJson): Condition[] {
  const { type, status, reason = "", message = "" } = json;
  if (!isConditionType(type) || (status !== "True" && status !== "False")) return [];
  // 0 is no time: whoever looks at the whole job gives it one.
  const lastTransitionMs = timeMs(json.lastTransitionTime) ?? timeMs(json.lastUpdateTime) ?? 0;
  return [
    { type, status, reason, message, lastUpdateMs: timeMs(json.lastUpdateTime) ?? lastTransitionMs, lastTransitionMs },
  ];
}

function isConditionType(type: string): type is ConditionType {
  return CONDITIONS.has(type);
}

function parseProgress(text: string): ProgressJson | undefined {
  try {
    const value: unknown = JSON.parse(text);
    // Written by us; of any other form it is as good as none.
    return typeof value === "object" && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}

function count(value: number | undefined): number {
  return typeof value === "number" && value > 0 ? value : 0;
}

function timeJson(ms: number | undefined): string | null {
  return ms === undefined ? null : new Date(ms).toISOString().replace(/\.\d{3}Z$/, "Z");
}

function timeMs(text: string | null | undefined): number | undefined {
  const ms = text === undefined || text === null ? NaN : Date.parse(text);
  return Number.isNaN(ms) ? undefined : ms;
}
