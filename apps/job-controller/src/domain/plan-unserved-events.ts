/** A job in a namespace that this controller does not serve. */
export type UnservedJob = {
  readonly apiVersion: string;
  readonly kind: string;
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
};

/**
 * Jobs without a controller at the last scan, by uid, with the time of the last event about each. A job without a controller has no condition and names no
 * other manager.
 */
export type UnservedMemory = ReadonlyMap<string, { readonly reportedAtMs: number | undefined }>;

type ElsewherePlan = {
  /** Jobs that lacked a controller in two consecutive scans, and so have none that serves them. */
  readonly unserved: readonly UnservedJob[];
  /** The jobs for which an event is due. */
  readonly report: readonly UnservedJob[];
  readonly memory: UnservedMemory;
};

/** An API server keeps an event for an hour. */
const REPORT_EVERY_MS = 50 * 60_000;

/** Finds the jobs that no controller serves. A new job counts only at the next scan, so that the controller of its namespace has time to serve it. */
export function planUnservedEvents(
  uncontrolled: readonly UnservedJob[],
  memory: UnservedMemory,
  { nowMs, mayReport }: { readonly nowMs: number; readonly mayReport: boolean },
): ElsewherePlan {
  const unserved = uncontrolled.filter(({ uid }) => memory.has(uid));
  const isDue = ({ uid }: UnservedJob): boolean =>
    nowMs - (memory.get(uid)?.reportedAtMs ?? Number.NEGATIVE_INFINITY) >= REPORT_EVERY_MS;
  const report = mayReport ? unserved.filter(isDue) : [];
  const reported = new Set(report.map(({ uid }) => uid));
  return {
    unserved,
    report,
    memory: new Map(
      uncontrolled.map(({ uid }) => [uid, { reportedAtMs: reported.has(uid) ? nowMs : memory.get(uid)?.reportedAtMs }]),
    ),
  };
}
