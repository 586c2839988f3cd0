import { BATCH_JOB, JOB_SET, QUEUED_POD, type BatchKind } from "@muster/names";
import { expect, it } from "vitest";
import type { BatchStep } from "../../domain/batch/plan-batch-job.ts";
import type { JobRow } from "./batch-rows.ts";
import { makeBatchReports } from "./report-batch-jobs.ts";

function eventsOf(kind: BatchKind, step: Partial<Extract<BatchStep, { kind: "reserve" }>>): readonly string[] {
  const events: string[] = [];
  const reports = makeBatchReports(
    (target, { type, reason, message }) => events.push(`${target.kind} ${type} ${reason}: ${message}`),
    { info: () => undefined },
  );
  const unit = { id: "u", needs: [{ component: "pod-0", pool: "workers" }], queue: "team-a" };
  const row = { kind, namespace: "n", name: "train", uid: "1", queue: "team-a" };
  reports.done(row as JobRow, { kind: "reserve", unit, priority: 10, because: "gang", ...step } as BatchStep);
  return events;
}

it.each<[BatchKind, string]>([
  [BATCH_JOB, "Job"],
  [JOB_SET, "JobSet"],
  [QUEUED_POD, "Pod"],
])("a %s whose priority is above the maxPriority of its queue carries an event", (kind, resource) => {
  const [first] = eventsOf(kind, { loweredFrom: 50 });
  expect(first).toBe(
    `${resource} Warning PriorityLowered: the priority 50 is lowered to 10, the maxPriority of the queue team-a`,
  );
  expect(eventsOf(kind, {}).join()).not.toContain("PriorityLowered");
});
