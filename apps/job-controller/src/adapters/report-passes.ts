import { describeFault } from "@muster/faults";
import { toKubeFault } from "@muster/kube";
import type { Logger } from "@muster/service";
import type { JobStatus } from "../domain/job-status.ts";
import { buildJobKey } from "../domain/ownership.ts";
import { findGroupAdvice } from "../domain/plan-group.ts";
import { findStatusChanges } from "../domain/find-status-changes.ts";
import type { JobStep } from "../domain/plan-steps.ts";
import type { JobPolicy } from "../domain/snapshot.ts";
import type { PassDeps } from "../reconcile.ts";
import type { RecordEvent } from "./gather-events.ts";
import { makeJobMetrics } from "./metrics.ts";
import type { Observation } from "./observe.ts";
import type { JobRow } from "./read-job.ts";

type PassReports = Pick<PassDeps<Observation>, "planned" | "failed"> & {
  /** Reports a status; the caller calls it after `status` has replaced the status of the row. */
  readonly reportStatus: (job: JobRow, status: JobStatus) => void;
};

/** Steps whose refusal already causes an event. */
const STEPS_WITH_EVENTS: ReadonlySet<JobStep["kind"]> = new Set([
  "create-pods",
  "delete-pod",
  "create-service",
  "delete-service",
]);

/** Reports passes in logs, events and counters. */
export function makePassReports(
  recordEvent: RecordEvent,
  logger: Pick<Logger, "info" | "warn">,
  policy: Pick<JobPolicy, "gangScheduling">,
): PassReports {
  const counts = makeJobMetrics();
  const reportStatus = (job: JobRow, status: JobStatus): void => {
    const changes = findStatusChanges(job.status, status, job.warnings);
    counts.countStatusChanges(job.kind.kind, changes);
    for (const { type, reason, message } of changes) recordEvent(job, type, reason, message);
  };
  const planned: PassDeps<Observation>["planned"] = ({ job, ignored, errors, snapshot }, { steps }) => {
    const key = buildJobKey(job);
    const advice = findGroupAdvice(snapshot, policy);
    if (advice !== undefined && steps.some((step) => step.kind === "create-pods"))
      recordEvent(job, "Warning", "NoPodGroup", advice);
    for (const error of errors) logger.warn({ job: key, err: error }, "a member is left for the next pass");
    for (const { pod, because } of ignored) {
      const message = `pod ${pod.metadata?.name ?? ""} is ignored: ${because}`;
      recordEvent(job, "Warning", "UnreadableIndex", message);
    }
    for (const step of steps) if (step.kind === "reserve") reportLowering(recordEvent, job, step);
    for (const step of steps)
      logger.info({ job: key, kind: job.kind.kind, step: step.kind, because: step.because }, "planned");
  };
  const failed = ({ job }: Observation, step: JobStep, error: unknown): void => {
    logger.warn({ job: buildJobKey(job), kind: job.kind.kind, step: step.kind, err: error }, "a step failed");
    const fault = toKubeFault(error);
    // The job gets an event, because an invalid request does not succeed by itself.
    if (fault?.code === "invalid_request" && !STEPS_WITH_EVENTS.has(step.kind))
      recordEvent(job, "Warning", "StepRefused", `${step.kind}: ${describeFault(fault)}`);
  };
  return { reportStatus, planned, failed };
}

function reportLowering(
  recordEvent: RecordEvent,
  job: JobRow,
  { unit, priority, loweredFrom }: Extract<JobStep, { kind: "reserve" }>,
): void {
  if (loweredFrom === undefined) return;
  const message = `the priority ${loweredFrom} of the job is lowered to ${priority}, the maxPriority of the queue ${unit.queue}`;
  recordEvent(job, "Warning", "PriorityLowered", message);
}
