/** A job in a namespace that this controller does not serve. */
export type JobElsewhere = {
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
export type ElsewhereMemory = ReadonlyMap<string, { readonly reportedAtMs: number | undefined }>;

type ElsewherePlan = {
  /** Jobs without a controller in two consecutive scans: no controller serves them. */
  readonly unserved: readonly JobElsewhere[];
  /** The jobs for which an event is due. */
  readonly report: readonly JobElsewhere[];
  readonly memory: ElsewhereMemory;
};

/** An API server keeps an event for an hour. */
const REPORT_EVERY_MS = 50 * 60_000;

/** Finds the jobs that no controller serves. A new job counts only at the next scan, so that the controller of its namespace has time to serve it. */
export function planElsewhere(
  uncontrolled: readonly JobElsewhere[],
  memory: ElsewhereMemory,
  { nowMs, mayReport }: { readonly nowMs: number; readonly mayReport: boolean },
): ElsewherePlan {
  const unserved = uncontrolled.filter(({ uid }) => memory.has(uid));
  const isDue = ({ uid }: JobElsewhere): boolean =>
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
