import { metrics, type Counter } from "@opentelemetry/api";
import type { BatchKind } from "@muster/names";
import type { ForceReason } from "./act.ts";
import type { StatusChange } from "../domain/find-status-changes.ts";

/** Counts the status changes of jobs by kind after each write of a status: each exactly once, whichever replica wrote it. */
export function makeJobMetrics(): {
  readonly countStatusChanges: (kind: string, changes: readonly StatusChange[]) => void;
} {
  const meter = metrics.getMeter("@muster/job-controller");
  const counters: Partial<Record<StatusChange["kind"], ReturnType<typeof meter.createCounter>>> = {
    Created: meter.createCounter("muster.job.created", { unit: "{job}", description: "Jobs that were accepted" }),
    Succeeded: meter.createCounter("muster.job.succeeded", { unit: "{job}", description: "Jobs that succeeded" }),
    Failed: meter.createCounter("muster.job.failed", { unit: "{job}", description: "Jobs that failed" }),
    Restarting: meter.createCounter("muster.job.restarted", {
      unit: "{restart}",
      description: "Restarts of jobs, and of their members",
    }),
    Requeued: requeuedCounter(),
  };
  return {
    countStatusChanges: (kind, changes) => {
      for (const { kind: type } of changes) counters[type]?.add(1, { "muster.job.kind": kind });
    },
  };
}

function requeuedCounter(): Counter {
  return metrics.getMeter("@muster/job-controller").createCounter("muster.job.requeued", {
    unit: "{job}",
    description: "Jobs that were not ready within the readyTimeout of their queue, and wait again",
  });
}

/** Counts ready timeouts of Jobs of Kubernetes and of JobSets, by the kind of the owner, because Muster has a kind Job, too. */
export function countRequeued(): (kind: BatchKind) => void {
  const requeued = requeuedCounter();
  return (kind) => {
    requeued.add(1, { "muster.job.kind": kind });
  };
}

/** Counts pods that were removed by force, by reason. */
export function countForced(): (because: ForceReason) => void {
  const forced = metrics.getMeter("@muster/job-controller").createCounter("muster.job.forced", {
    unit: "{pod}",
    description: "Pods that were removed by force after their grace, by reason",
  });
  return (because) => {
    forced.add(1, { "muster.job.reason": because });
  };
}
