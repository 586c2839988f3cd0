import { API_GROUP } from "@muster/names";
import { isObject } from "@muster/resources";
import type { JobStatus } from "../job-status.ts";

/** Annotation of a Job, a JobSet or a pod: its progress as JSON. Jobs of Kubeflow keep their progress in the same annotation. */
export const PROGRESS_ANNOTATION = `${API_GROUP}/progress`;

/** The progress of admitted work towards readiness. An annotation stores it, because the status belongs to Kubernetes. */
export type StartProgress = Pick<JobStatus, "regrouping" | "readyTimeouts" | "lastReadyTimeoutMs"> & {
  /** The time of the admission; undefined once all pods have been ready, and in a queue without a `readyTimeout`. */
  readonly startMs: number | undefined;
};

/** The progress of new work, and of work that was ready. */
export const NO_PROGRESS: StartProgress = {
  startMs: undefined,
  regrouping: false,
  readyTimeouts: 0,
  lastReadyTimeoutMs: undefined,
};

/** Reads the value of the annotation. Never throws: it ignores malformed fields, because people may have written them. */
export function readStartProgress(text: string | undefined): StartProgress {
  const json = parseObject(text);
  const times = json["readyTimeouts"];
  return {
    startMs: timeMs(json["startTime"]),
    regrouping: json["regrouping"] === true,
    readyTimeouts: typeof times === "number" && Number.isSafeInteger(times) && times > 0 ? times : 0,
    lastReadyTimeoutMs: timeMs(json["lastReadyTimeout"]),
  };
}

/** Builds the value of the annotation; undefined without progress to record. */
export function formatStartProgress(progress: StartProgress): string | undefined {
  const { startMs, regrouping, readyTimeouts, lastReadyTimeoutMs } = progress;
  const json = {
    ...(startMs !== undefined && { startTime: new Date(startMs).toISOString() }),
    ...(regrouping && { regrouping }),
    ...(readyTimeouts > 0 && { readyTimeouts }),
    ...(lastReadyTimeoutMs !== undefined && { lastReadyTimeout: new Date(lastReadyTimeoutMs).toISOString() }),
  };
  return Object.keys(json).length === 0 ? undefined : JSON.stringify(json);
}

function parseObject(text: string | undefined): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(text ?? "");
    return isObject(value) ? value : {};
  } catch {
    return {};
  }
}

function timeMs(text: unknown): number | undefined {
  const ms = typeof text === "string" ? Date.parse(text) : NaN;
  return Number.isNaN(ms) ? undefined : ms;
}
