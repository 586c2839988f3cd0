import { isObject, type PlainObject } from "@muster/resources";
import { formatIndexes, parseIndexes } from "../domain/completed-indexes.ts";
import {
  findCondition,
  CONDITION_TYPES,
  isRemembered,
  UNCOUNTED_REASONS,
  type Condition,
  type ConditionType,
  type FailedMembers,
  type JobStatus,
  type ReplicaStatus,
  type RestartNumber,
  type UncountedRecreations,
} from "../domain/job-status.ts";
import { MAX_MEMBERS } from "../domain/member-names.ts";
import { summariseState } from "../domain/summarise-state.ts";
import { roundToSecond } from "../domain/transition-conditions.ts";

/** A status in the form of custom resources. Missing fields are absent, and a merge patch needs null for them. */
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
  /** A selector of the counted pods. */
  readonly selector?: string;
} & ReplicaProgressJson;

type GangProgressJson = {
  readonly attempt?: number;
  readonly attemptsCounted?: number;
  readonly replaced?: readonly string[];
  readonly regrouping?: boolean;
  readonly hasBeenReady?: boolean;
  readonly readyTimeouts?: number;
  readonly lastReadyTimeout?: string | null;
  readonly announcedRestart?: RestartNumberJson | null;
  readonly failedMembers?: readonly { readonly type: string; readonly indexes: string; readonly message: string }[];
};

type RestartNumberJson = { readonly number: number | null; readonly limit: number | null };

/** The part of the status that is stored in an annotation if the definition of another project would drop it. */
type ProgressJson = GangProgressJson & { readonly replicas?: Readonly<Record<string, ReplicaProgressJson>> };

/** The names of a type in statuses of this kind, the selector of its pods, and its number of pods; types are in the order of the spec. */
export type StatusShape = {
  readonly statusKey: (type: string) => string;
  readonly selector: (type: string) => string;
  readonly types: readonly { readonly type: string; readonly replicas: number }[];
  /** The number of all pods, if it differs from the sum of the types. */
  readonly total?: number | undefined;
};

/** Returns the types in a status, including types that the spec lacks, because their history stays. */
export function listReplicaTypes(json: unknown, annotation: string | undefined): readonly string[] {
  const { replicas } = parseProgress(annotation) ?? {};
  const keys = [...listStatusKeys(json), ...Object.keys(readFields(replicas))];
  return [...new Set(keys.map((key) => key.toLowerCase()))];
}

/** The keys of the types in a status. */
export function listStatusKeys(json: unknown): readonly string[] {
  return Object.keys(readFields(readFields(json)["replicaStatuses"]));
}

/** Returns the number of requested pods at the time of the write; 0 if it is unknown. */
export function parseTotal(json: unknown): number {
  return Number(/\/(\d{1,9})$/.exec(readText(readFields(json)["completions"]))?.[1] ?? 0);
}

const CONDITIONS: ReadonlySet<string> = new Set(CONDITION_TYPES);

/** Builds the whole status for Muster's own resource. */
export function buildStatusJson(status: JobStatus, shape: StatusShape): StatusJson {
  const total = shape.total ?? shape.types.reduce((sum, { replicas }) => sum + replicas, 0);
  return {
    ...buildPublicJson(status, shape),
    ...summariseState(status, total),
    replicaStatuses: byType(status, shape, (replica) => ({
      ...countsJson(replica, shape),
      ready: replica.ready,
      ...buildReplicaProgress(replica),
    })),
    ...gangProgress(status),
    announcedRestart: restartJson(status) ?? null,
  };
}

/** Builds the part for which resources of other projects have fields. */
export function buildPublicJson(status: JobStatus, shape: StatusShape): StatusJson {
  return {
    observedGeneration: status.observedGeneration,
    startTime: timeJson(status.startMs),
    completionTime: timeJson(status.completionMs),
    conditions: status.conditions.map(conditionJson),
    replicaStatuses: byType(status, shape, countsJson),
  };
}

/** Builds the rest, for an annotation; undefined if it is empty. */
export function buildProgressJson(status: JobStatus): string | undefined {
  const replicas = status.replicas
    .filter(isRemembered)
    .map((replica) => [replica.type, buildReplicaProgress(replica)] as const);
  const { attempt, replaced, regrouping, hasBeenReady, readyTimeouts, failedMembers } = status;
  const announcedRestart = restartJson(status);
  const isNew =
    attempt === 0 &&
    [replaced, failedMembers].every((each) => each.length === 0) &&
    ![regrouping, hasBeenReady].includes(true) &&
    readyTimeouts === 0;
  if (replicas.length === 0 && isNew && announcedRestart === undefined) return undefined;
  const progress: ProgressJson = {
    ...gangProgress(status),
    ...(announcedRestart !== undefined && { announcedRestart }),
    replicas: Object.fromEntries(replicas),
  };
  return JSON.stringify(progress);
}

/**
 * Reads a written status; a new job has an empty one. Never throws: it ignores malformed fields and entries, because people and older versions may have written
 * them.
 */
export function readStatus(json: unknown, annotation: string | undefined, shape: StatusShape): JobStatus {
  const progress = parseProgress(annotation);
  const status = readFields(json);
  const gang = progress ?? status;
  const counts = readFields(status["replicaStatuses"]);
  const kept = progress === undefined ? undefined : readFields(progress["replicas"]);
  const read = (type: string): ReplicaStatus => {
    const ofType = readFields(counts[shape.statusKey(type)]);
    return {
      type,
      active: count(ofType["active"]),
      ready: count(ofType["ready"]),
      succeeded: count(ofType["succeeded"]),
      failed: count(ofType["failed"]),
      ...readProgress(kept === undefined ? ofType : readFields(kept[type])),
    };
  };
  const wanted = shape.types.map(({ type }) => type);
  const others = listReplicaTypes(json, annotation).filter((type) => !wanted.includes(type));
  const conditions = readList(status["conditions"])
    .flatMap(readCondition)
    .map((condition) => withRestart(condition, gang["announcedRestart"]));
  return {
    observedGeneration: count(status["observedGeneration"]),
    conditions: [...new Map(conditions.map((each) => [each.type, each])).values()],
    startMs: timeMs(status["startTime"]),
    completionMs: timeMs(status["completionTime"]),
    replicas:
      status["replicaStatuses"] === undefined && progress === undefined
        ? []
        : [...wanted.map(read), ...others.map(read).filter(isRemembered)],
    attempt: count(gang["attempt"]),
    attemptsCounted: count(gang["attemptsCounted"]),
    replaced: readList(gang["replaced"]).filter((each) => typeof each === "string"),
    regrouping: gang["regrouping"] === true,
    hasBeenReady: gang["hasBeenReady"] === true,
    readyTimeouts: count(gang["readyTimeouts"]),
    lastReadyTimeoutMs: timeMs(gang["lastReadyTimeout"]),
    failedMembers: readList(gang["failedMembers"]).flatMap(readFailedMembers),
  };
}

function gangProgress(status: JobStatus): GangProgressJson {
  const { attempt, attemptsCounted, replaced, regrouping, hasBeenReady, readyTimeouts, lastReadyTimeoutMs } = status;
  const { failedMembers } = status;
  const timeouts = { hasBeenReady, readyTimeouts, lastReadyTimeout: timeJson(lastReadyTimeoutMs) };
  const failed = failedMembers.map((each) => ({ ...each, indexes: formatIndexes(each.indexes) }));
  const ends = failed.length === 0 ? {} : { failedMembers: failed };
  return { attempt, attemptsCounted, replaced, regrouping, ...timeouts, ...ends };
}

function buildReplicaProgress({ restarts, completedIndexes, counted, uncounted }: ReplicaStatus): ReplicaProgressJson {
  return {
    restarts,
    completedIndexes: formatIndexes(completedIndexes),
    counted,
    uncounted: uncounted.map(({ atMs, ...each }) => ({ ...each, at: timeJson(atMs) ?? "" })),
  };
}

function readProgress({
  restarts,
  completedIndexes,
  counted,
  uncounted,
}: PlainObject): Pick<ReplicaStatus, "restarts" | "completedIndexes" | "counted" | "uncounted"> {
  return {
    restarts: count(restarts),
    completedIndexes: parseIndexes(readText(completedIndexes), MAX_MEMBERS),
    counted: readList(counted).flatMap(readCounted),
    uncounted: readList(uncounted).flatMap(readUncounted),
  };
}

function readCounted(json: unknown): ReplicaStatus["counted"] {
  const { pod, failures } = readFields(json);
  return typeof pod === "string" && count(failures) > 0 ? [{ pod, failures: count(failures) }] : [];
}

function readUncounted(json: unknown): UncountedRecreations[] {
  const { index, pod, times, at, because } = readFields(json);
  if (typeof pod !== "string" || count(times) === 0) return [];
  if ((index !== 0 && count(index) === 0) || count(index) >= MAX_MEMBERS) return [];
  return [
    {
      index: count(index),
      pod,
      times: count(times),
      // An uncounted end without a time causes no pause.
      atMs: timeMs(at) ?? 0,
      because: UNCOUNTED_REASONS.find((reason) => reason === because) ?? "disrupted",
    },
  ];
}

function readFailedMembers(json: unknown): FailedMembers[] {
  const { type, indexes, message } = readFields(json);
  const failed = parseIndexes(readText(indexes), MAX_MEMBERS);
  return failed.length === 0 || typeof type !== "string" ? [] : [{ type, indexes: failed, message: readText(message) }];
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

function readCondition(json: unknown): Condition[] {
  const { type, status, reason, message, lastUpdateTime, lastTransitionTime } = readFields(json);
  if (!isConditionType(type) || (status !== "True" && status !== "False")) return [];
  // Zero means that the time is missing; the reader of the whole job sets one.
  const lastTransitionMs = timeMs(lastTransitionTime) ?? timeMs(lastUpdateTime) ?? 0;
  const lastUpdateMs = timeMs(lastUpdateTime) ?? lastTransitionMs;
  return [{ type, status, reason: readText(reason), message: readText(message), lastUpdateMs, lastTransitionMs }];
}

function restartJson(status: JobStatus): RestartNumberJson | undefined {
  const restart = findCondition(status, "Restarting")?.restart;
  return restart && { number: restart.number ?? null, limit: restart.limit ?? null };
}

function withRestart(condition: Condition, announced: unknown): Condition {
  if (condition.type !== "Restarting") return condition;
  const restart = isObject(announced) ? readRestart(announced) : parseRestart(condition.message);
  return restart === undefined ? condition : { ...condition, restart };
}

function readRestart({ number, limit }: PlainObject): RestartNumber {
  const counted = count(number);
  return { number: counted === 0 ? undefined : counted, limit: typeof limit === "number" ? count(limit) : undefined };
}

/** Reads the restart from the message: statuses of earlier versions and of older definitions keep only the message. */
function parseRestart(message: string): RestartNumber | undefined {
  const [isAnnounced, number, limit] =
    /^(?:restart (\d{1,9})(?: of (\d{1,9}))?|a restart that does not count) in \d+ s: /.exec(message) ?? [];
  if (isAnnounced === undefined) return undefined;
  return {
    number: number === undefined ? undefined : Number(number),
    limit: limit === undefined ? undefined : Number(limit),
  };
}

function isConditionType(type: unknown): type is ConditionType {
  return typeof type === "string" && CONDITIONS.has(type);
}

/** Returns undefined if the annotation is missing or unreadable. */
function parseProgress(text: string | undefined): PlainObject | undefined {
  try {
    const value: unknown = JSON.parse(text ?? "");
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function readFields(value: unknown): PlainObject {
  return isObject(value) ? value : {};
}

function readList(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function readText(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** The largest attempt that the label of a pod can carry; other counts stay far below it. */
const MAX_COUNT = 999_999_999;

function count(value: unknown): number {
  return typeof value === "number" && Number.isInteger(value) && value > 0 && value <= MAX_COUNT ? value : 0;
}

function timeJson(ms: number | undefined): string | null {
  return ms === undefined ? null : new Date(ms).toISOString().replace(/\.\d{3}Z$/, "Z");
}

function timeMs(text: unknown): number | undefined {
  const ms = Date.parse(readText(text));
  return Number.isNaN(ms) ? undefined : roundToSecond(ms);
}
