import {
  adviseWait,
  buildReason,
  buildWaitReason,
  type SeenMachines,
  type StateReason,
} from "@muster/ledger-client/explanation";
import type { BatchJob } from "./batch-job.ts";
import type { BatchWait } from "./plan-batch-job.ts";

export type ObservedBatchJob = {
  readonly job: Pick<BatchJob, "finished" | "queue">;
  /** The answer of the ledger about the gang; undefined if the ledger has no request. */
  readonly machines: SeenMachines | undefined;
  readonly isPreempted: boolean;
  /** Why the next pass requests no machines. */
  readonly wait: BatchWait | undefined;
};

/**
 * Explains the state of work of Kubernetes: FINISHED, PREEMPTED, ADMITTED, NOT_TAKEN_YET, the ledger's code for the wait of its machines, or the code for which
 * the ledger has no request, such as READY_TIMEOUT.
 */
export function explainBatchJob({ job, machines, isPreempted, wait }: ObservedBatchJob): StateReason {
  if (job.finished) return buildReason("FINISHED", "it is over");
  if (isPreempted) return buildReason("PREEMPTED", "its machines are taken for other work, and its pods end");
  if (machines !== undefined)
    return buildWaitReason(machines) ?? buildReason("ADMITTED", `the queue ${job.queue} has admitted it`);
  if (wait === undefined) return buildReason("NOT_TAKEN_YET", "the job-controller has not requested its machines yet");
  return { code: wait.code, message: wait.text, next: adviseWait({ code: wait.code, pools: [] }) };
}
