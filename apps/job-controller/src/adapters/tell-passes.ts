import { describeFault, faultOf } from "@muster/faults";
import { kubeFault } from "@muster/kube";
import type { Logger } from "@muster/service";
import type { JobStatus } from "../domain/job-status.ts";
import { jobKey } from "../domain/ownership.ts";
import { adviceOnGroup } from "../domain/plan-group.ts";
import { planNews } from "../domain/plan-news.ts";
import type { JobStep } from "../domain/plan-steps.ts";
import type { JobPolicy } from "../domain/snapshot.ts";
import type { PassDeps } from "../reconcile.ts";
import type { RecordEvent } from "./gather-events.ts";
import { jobMetrics } from "./metrics.ts";
import type { Observation } from "./observe.ts";
import type { JobRow } from "./read-job.ts";

export type Telling = Pick<PassDeps<Observation>, "planned" | "failed"> & {
  /** This status stands in place of the one that the row was read with. */
  readonly tell: (job: JobRow, status: JobStatus) => void;
};

/** Steps whose refusal an event tells of anyway. */
const TOLD_BY_THEMSELVES: ReadonlySet<JobStep["kind"]> = new Set([
  "create-pods",
  "delete-pod",
  "create-service",
  "delete-service",
]);

/** What logs, events and counters say of passes. */
export function telling(
  recordEvent: RecordEvent,
  logger: Pick<Logger, "info" | "warn">,
  policy: Pick<JobPolicy, "gangScheduling">,
): Telling {
  const counts = jobMetrics();
  const tell = (job: JobRow, status: JobStatus): void => {
    const news = planNews(job.status, status, job.warnings);
    counts.told(job.kind.kind, news);
    for (const { type, reason, message } of news) recordEvent(job, type, reason, message);
  };
  const planned: PassDeps<Observation>["planned"] = ({ job, ignored, errors, snapshot }, { steps }) => {
    const key = jobKey(job);
    const advice = adviceOnGroup(snapshot, policy);
    if (advice !== undefined && steps.some((step) => step.kind === "create-pods"))
      recordEvent(job, "Warning", "NoPodGroup", advice);
    for (const error of errors) logger.warn({ job: key, err: error }, "a member is left for the next look");
    for (const { pod, because } of ignored) {
      const message = `pod ${pod.metadata?.name ?? ""} is left alone: ${because}`;
      recordEvent(job, "Warning", "UnreadableIndex", message);
    }
    for (const step of steps)
      logger.info({ job: key, kind: job.kind.kind, step: step.kind, because: step.because }, "planned");
  };
  const failed = ({ job }: Observation, step: JobStep, error: unknown): void => {
    logger.warn({ job: jobKey(job), kind: job.kind.kind, step: step.kind, err: error }, "a step failed");
    const fault = faultOf(error) ?? kubeFault(error);
    // What will not help itself is for whoever looks at the job; about pods and services their own events say it.
    if (fault?.code === "invalid_request" && !TOLD_BY_THEMSELVES.has(step.kind))
      recordEvent(job, "Warning", "StepRefused", `${step.kind}: ${describeFault(fault)}`);
  };
  return { tell, planned, failed };
}
