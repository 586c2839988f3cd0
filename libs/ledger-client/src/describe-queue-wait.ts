import { printAmount } from "@muster/resources";

/** The ledger's facts about the queue of a wait. */
type QueueReason = {
  readonly code: string;
  readonly queue?: string | undefined;
  /** The part of the quota that is short. */
  readonly quota?: { readonly pool: string; readonly resource: string; readonly requested: number } | undefined;
};

/** Describes a wait for a queue, without numbers that change during the wait; undefined: the code concerns no queue. */
export function describeQueueWait({ code, queue = "", quota }: QueueReason): string | undefined {
  switch (code) {
    case "WAITING_FOR_QUOTA": {
      if (quota === undefined) return `the quota of the queue ${queue}, with what it may borrow, does not suffice now`;
      const amount = printAmount(quota.resource, quota.requested);
      return `${amount} of ${quota.resource} in pool ${quota.pool} are needed, and the quota of the queue ${queue}, with what it may borrow, has less now`;
    }
    case "WAITING_FOR_PREEMPTED":
      return "work that is preempted for it has not ended yet";
    case "KEPT_FOR_OWNER":
      return `the queue ${queue} would have to borrow quota, which is kept for work of the queue that owns it`;
    case "BEHIND_STRICT_HEAD":
      return `the queue ${queue} is StrictFIFO, and another request is first`;
    case "QUEUE_UNKNOWN":
      return `the queue ${queue} does not exist, or has queues below it`;
    case "QUEUE_HELD":
      return `the queue ${queue} admits nothing now; its condition Admitting has the reason`;
    default:
      return undefined;
  }
}
