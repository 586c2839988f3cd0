import { decideForce } from "@muster/health";
import { planExplanation, shortenText } from "./explain-wait.ts";
import type { ActStep, RecordStep, SessionStep } from "./session-steps.ts";
import { isFinished, type SessionRecord, type SessionVerdict, type SessionWarning } from "./session.ts";
import type { LivePod, SessionPolicy, Snapshot } from "./snapshot.ts";

/** Ends a session whose outcome is known: stores the logs, deletes the pods, releases the machines once the pods are gone, and reports the outcome last. */
export function planCleanup(snapshot: Snapshot, verdict: SessionVerdict, policy: SessionPolicy): SessionStep[] {
  const { record, livePods, nowMs, trouble } = snapshot;
  const late = nowMs >= computeCleanupEndMs(record, verdict, policy);
  if (!record.podsDeleted) {
    const logs = planLogs(snapshot);
    if (record.logsCollected && livePods?.length === 0)
      return [{ kind: "confirm-pods-gone", because: "none-listed" }, ...(record.released ? [] : [planRelease(record)])];
    // The log of a pod on a lost node cannot be read, so its slow deletion begins immediately.
    const isDue = ({ pod, seen }: LivePod): boolean =>
      record.logsCollected || record.logsRead.includes(pod) || snapshot.nodesLost.has(seen.node);
    const deletes = (livePods ?? []).filter(isDue).flatMap((pod) => planDelete(pod, nowMs, policy));
    if (late && logs.length === 0 && !snapshot.isReading) return [...deletes, planAbandonedCleanup(snapshot)];
    const explanation = isBriefWait(snapshot, verdict) ? [] : planExplanation(snapshot, record.components);
    return [...logs, ...explanation, ...deletes, ...planEarlyRelease(snapshot)];
  }
  const end = planSessionEnd(record, nowMs);
  if (end !== undefined) return [end];
  return late && trouble !== undefined ? [planAbandonedCleanup(snapshot)] : [planRelease(record)];
}

function planRelease({ reservationId }: SessionRecord): ActStep {
  return { kind: "release", reservationId, because: "pods-gone" };
}

/** Duration within which most clean-ups end: a note about the remaining pods would be outdated immediately. */
const BRIEF_CLEANUP_MS = 2000;

function isBriefWait({ record, trouble, nowMs }: Snapshot, { atMs }: SessionVerdict): boolean {
  return nowMs - atMs < BRIEF_CLEANUP_MS && trouble === undefined && record.waitingBecause === "";
}

/** Returns the time in ms since 1970 at which the clean-up exceeds its limit. */
export function computeCleanupEndMs(
  { spec }: SessionRecord,
  { atMs }: SessionVerdict,
  { cleanupLimitMs }: SessionPolicy,
): number {
  return atMs + cleanupLimitMs + spec.killAfterMs;
}

/** Returns the terminal event once the clean-up is over. */
export function planSessionEnd(record: SessionRecord, nowMs: number): RecordStep | undefined {
  const isOver = record.verdict !== undefined && record.podsDeleted && record.released && !isFinished(record);
  return isOver ? { kind: "finish", atMs: nowMs, warnings: [], because: "cleaned-up" } : undefined;
}

/** Plans to read the logs of listed pods; the logs of pods that no longer exist are lost. */
function planLogs({ record, livePods, isReading }: Snapshot): SessionStep[] {
  if (record.logsCollected || livePods === undefined || isReading) return [];
  const unread = livePods.filter(({ pod }) => !record.logsRead.includes(pod));
  if (unread.length > 0) return [{ kind: "collect-logs", pods: unread, because: "session-over" }];
  const gone = record.components.filter(({ pod, podUid }) => podUid !== "" && !record.logsRead.includes(pod));
  const results = gone.filter(({ kind }) => kind === "driver");
  const warnings: SessionWarning[] = [
    ...results.map(
      () => ({ code: "RESULT_LOST", message: "the driver's pod was gone before its log was read" }) as const,
    ),
    ...gone.map(
      ({ pod }) => ({ code: "LOGS_LOST", message: `${pod}: the pod was gone before its log was kept` }) as const,
    ),
  ];
  return [{ kind: "confirm-logs-read", warnings, because: "none-left" }];
}

/** Releases the machines and the session's place in the executor limit once all pods have ended: only their logs remain to be read. */
function planEarlyRelease({ record, livePods, isReading }: Snapshot): ActStep[] {
  const isSettled = livePods !== undefined && (livePods.length > 0 || isReading);
  const hasEnded = isSettled && livePods.every(({ ended }) => ended);
  if (record.released || !hasEnded) return [];
  return [{ kind: "release", reservationId: record.reservationId, because: "pods-ended" }];
}

function planDelete({ pod, uid, deleting, overdueOn }: LivePod, nowMs: number, policy: SessionPolicy): ActStep[] {
  if (!deleting) return [{ kind: "delete-pod", pod, uid, force: false, because: "session-over" }];
  const because = decideForce(overdueOn, nowMs, policy);
  return because === undefined ? [] : [{ kind: "delete-pod", pod, uid, force: true, because }];
}

/** Reports the outcome although the clean-up is not complete; the sweep completes it. */
export function planAbandonedCleanup({
  record,
  livePods,
  trouble,
  nowMs,
}: Pick<Snapshot, "record" | "livePods" | "trouble" | "nowMs">): RecordStep {
  const warnings: SessionWarning[] = [];
  const suffix = trouble === undefined ? "" : `: ${trouble}`;
  if (!record.logsCollected) {
    const kept =
      record.logsRead.length === 0 ? "no log was kept" : `only logs of ${record.logsRead.join(", ")} were kept`;
    warnings.push({ code: "LOGS_LOST", message: shortenText(`${kept}${suffix}`) });
    const driver = record.components.find(({ kind }) => kind === "driver");
    if (driver !== undefined && driver.podUid !== "" && !record.logsRead.includes(driver.pod))
      warnings.push({ code: "RESULT_LOST", message: shortenText(`the driver's log was not read${suffix}`) });
  }
  if (!record.podsDeleted) {
    const names = livePods === undefined ? "which are left is not known" : livePods.map(({ pod }) => pod).join(", ");
    warnings.push({ code: "PODS_NOT_GONE", message: shortenText(`not all pods are gone: ${names}${suffix}`) });
  } else if (!record.released) {
    warnings.push({ code: "NOT_RELEASED", message: shortenText(`the machines are still held${suffix}`) });
  }
  return { kind: "finish", atMs: nowMs, warnings, because: "cleanup-limit" };
}
