import { describeFault, type Fault } from "@muster/faults";
import { QUEUED_POD } from "@muster/names";
import type { Logger } from "@muster/service";
import type { BatchStep, BatchWait } from "../../domain/batch/plan-batch-job.ts";
import { QUEUE_UNKNOWN } from "@muster/ledger-client/choose-queue";
import { FORCE_DESCRIPTIONS } from "../act.ts";
import { BATCH_RESOURCES, buildRowKey, type JobRow } from "./batch-rows.ts";

type Event = { readonly type: "Normal" | "Warning"; readonly reason: string; readonly message: string };
type RecordBatchEvent = (
  target: {
    readonly apiVersion: string;
    readonly kind: string;
    readonly name: string;
    readonly namespace: string;
    readonly uid: string;
  },
  event: Event,
) => void;

/** Reports events of batch Jobs, to Kubernetes and to the log. */
export type BatchReports = {
  done(job: JobRow, step: BatchStep): void;
  /** Reports each wait once; undefined means that the Job does not wait. */
  waiting(job: JobRow, wait: BatchWait | undefined): void;
  /** Reports a step that the API server refused as invalid: a retry cannot succeed before something changes. */
  refused(job: JobRow, step: BatchStep, fault: Fault): void;
  forget(uid: string): void;
};

/** Waits that never end without a change by the user. */
const WARNINGS: ReadonlySet<string> = new Set([
  QUEUE_UNKNOWN,
  "INVALID_SPEC",
  "POOL_UNKNOWN",
  "POOL_CAPACITY",
  "QUOTA_EXCEEDED",
  "LIMIT_EXCEEDED",
]);

export function makeBatchReports(record: RecordBatchEvent, logger: Pick<Logger, "info">): BatchReports {
  const waits = new Map<string, string>();
  const report = ({ kind: owner, namespace, name, uid }: JobRow, event: Event): void => {
    const { apiVersion, kind } = BATCH_RESOURCES[owner];
    record({ apiVersion, kind, name, namespace, uid }, event);
  };
  return {
    done: (job, step) => {
      logger.info({ job: buildRowKey(job), step: step.kind, because: step.because }, "done");
      for (const event of buildEvents(job, step)) report(job, event);
    },
    waiting: (job, wait) => {
      const text = wait === undefined ? undefined : `${wait.code}: ${wait.text}`;
      if (text === waits.get(job.uid)) return;
      if (text === undefined) waits.delete(job.uid);
      else waits.set(job.uid, text);
      if (text === undefined || wait === undefined) return;
      report(job, { type: WARNINGS.has(wait.code) ? "Warning" : "Normal", reason: "Waiting", message: text });
    },
    refused: (job, step, fault) =>
      report(job, { type: "Warning", reason: "StepRefused", message: `${step.kind}: ${describeFault(fault)}` }),
    forget: (uid) => void waits.delete(uid),
  };
}

function buildEvents({ kind, queue }: JobRow, step: BatchStep): readonly Event[] {
  switch (step.kind) {
    case "suspend": {
      if (kind === QUEUED_POD) {
        const message = `the pod is deleted: ${step.late?.text ?? step.because}; a pod is not queued again`;
        return [{ type: "Warning", reason: "Deleted", message }];
      }
      if (step.because === "not-admitted") return [];
      if (step.late !== undefined) return [{ type: "Warning", reason: "ReadyTimeout", message: step.late.text }];
      const message = `suspended because of ${step.because}; it is queued again once its pods are gone`;
      return [{ type: "Warning", reason: "Requeued", message }];
    }
    case "reserve": {
      const { unit, priority, loweredFrom } = step;
      const lowered = `the priority ${loweredFrom} is lowered to ${priority}, the maxPriority of the queue ${queue}`;
      const events: readonly Event[] =
        loweredFrom === undefined ? [] : [{ type: "Warning", reason: "PriorityLowered", message: lowered }];
      if (step.because !== "gang") return events;
      const what = kind === QUEUED_POD ? "a machine" : `${unit.needs.length} of its pods together`;
      const message = `waits in the queue ${unit.queue} for ${what}`;
      return [...events, { type: "Normal", reason: "Queued", message }];
    }
    case "resume":
      if (step.because === "no-pods") return [];
      return [{ type: "Normal", reason: "Admitted", message: `by the queue ${queue} on ${listNodes(step.nodes)}` }];
    case "place-pod": {
      if (kind !== QUEUED_POD) return [];
      return [{ type: "Normal", reason: "Admitted", message: `by the queue ${queue} on ${step.node}` }];
    }
    case "delete-pod":
      return [{ type: "Warning", reason: "PodReplaced", message: `pod ${step.pod} is deleted: ${step.because}` }];
    case "force-pod": {
      const message = `pod ${step.pod} was removed by force: ${FORCE_DESCRIPTIONS[step.because]}`;
      return [{ type: "Warning", reason: "ForcedDeletePod", message }];
    }
    default:
      return [];
  }
}

const MAX_NODES = 20;

/** Formats `node-1 (2), node-2` if two pods are on the first node. */
function listNodes(nodes: readonly string[]): string {
  const counts = new Map<string, number>();
  for (const node of [...nodes].sort()) counts.set(node, (counts.get(node) ?? 0) + 1);
  const names = [...counts].map(([node, count]) => (count === 1 ? node : `${node} (${count})`));
  const more = names.length - MAX_NODES;
  return `${names.slice(0, MAX_NODES).join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
}
