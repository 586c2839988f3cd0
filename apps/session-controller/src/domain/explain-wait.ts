import { describeQueueWait } from "@muster/ledger-client/describe-queue-wait";
import { describeStates } from "./decide-verdict.ts";
import { findEvent, isReplacing, type ComponentStatus } from "./session.ts";
import type { RecordStep } from "./session-steps.ts";
import type { Snapshot, WaitReason } from "./snapshot.ts";

const TEXT_LENGTH = 1024;

/** Explains why the session makes no progress now; empty if it makes progress. */
export function explainWait(snapshot: Snapshot, components: readonly ComponentStatus[]): string {
  return shortenText(waitOf(snapshot, components));
}

/** Shortens a text to the length that fits into a record. */
export function shortenText(text: string): string {
  return text.length > TEXT_LENGTH ? `${text.slice(0, TEXT_LENGTH - 3)}...` : text;
}

/** Records the explanation if it has changed. */
export function planExplanation(snapshot: Snapshot, components: readonly ComponentStatus[]): RecordStep[] {
  const text = explainWait(snapshot, components);
  return text === snapshot.record.waitingBecause ? [] : [{ kind: "explain-wait", text, because: "wait-changed" }];
}

function waitOf(snapshot: Snapshot, components: readonly ComponentStatus[]): string {
  const { record, reservation, livePods, trouble } = snapshot;
  if (trouble !== undefined) return trouble;
  if (record.verdict !== undefined) {
    // Pods are kept until their logs are stored.
    const left = record.logsCollected ? (livePods?.length ?? 0) : 0;
    return left > 0 ? `${countOf(left, "pod")} not gone yet` : "";
  }
  if (findEvent(record, "ACCEPT") === undefined) {
    if (reservation.state === "unqueued") return reservation.text;
    return reservation.state === "waiting" ? explainReason(reservation.because) : record.waitingBecause;
  }
  if (findEvent(record, "RUN") !== undefined) return "";
  const waited = components.filter(
    (component) => isReplacing(component) || !["READY", "SUCCEEDED", "PENDING"].includes(component.state),
  );
  return waited.length === 0 ? "" : describeStates(waited);
}

/** Formats the ledger's reason for people. */
export function explainReason(because: WaitReason | undefined): string {
  if (because === undefined) return "the ledger has given no reason yet";
  const { code, pool, requested, available, parts = 0, nodes, topology, ahead, text } = because;
  if (text !== undefined) return text;
  const among = nodes === undefined ? "" : ` that its pods accept (${nodes})`;
  const queue = ahead === 0 ? "" : `; ${countOf(ahead, "request")} ahead`;
  switch (code) {
    case "POOL_AVAILABILITY":
      return parts > 0
        ? `pool ${pool} has room for ${available} of the ${requested} needed parts and machines${among}${queue}`
        : `pool ${pool} has ${available} ${available === 1 ? "machine" : "machines"} free${among}, ${requested} are needed${queue}`;
    case "FRAGMENTED":
      return `the free amounts of pool ${pool}${among} suffice in sum for the ${requested} needed parts, but not on single machines${queue}`;
    case "WAITING_FOR_TOPOLOGY":
      return `${requested} machines, or parts of machines, are needed on nodes with one value of the label ${topology ?? ""}, and no value has room for more than ${available}${queue}`;
    case "BEHIND_HIGHER_PRIORITY":
      return `machines of pool ${pool} are kept for a request with a higher priority${queue}`;
    case "BEHIND_FAIR_SHARE":
      return `machines of pool ${pool} are kept for a request of another queue, which borrows less or has a lower share${queue}`;
    case "CONCURRENCY_LIMIT":
      return `as many sessions as SESSION_EXECUTORS allows are running${queue}`;
    case "POOL_TOO_SMALL":
      return `pool ${pool} has become too small for the ${requested} needed machines, or parts of machines${among}; it waits for nodes to come back${queue}`;
    case "HELD_FOR_OLDER":
      return `machines of pool ${pool} are kept for a request that has waited for too long${queue}`;
    case "POOLS_NOT_KNOWN_YET":
      return `the ledger does not know the nodes yet${queue}`;
    case "WAITING_FOR_QUOTA":
    case "KEPT_FOR_OWNER":
    case "BEHIND_STRICT_HEAD":
    case "WAITING_FOR_PREEMPTED":
    case "QUEUE_UNKNOWN":
    case "QUEUE_HELD":
    case "QUOTA_EXCEEDED":
      return `${describeQueueWait(because) ?? code}${queue}`;
    case "OTHER":
      return `the ledger gives a reason that is not known here${queue}`;
  }
}

function countOf(count: number, noun: string): string {
  return count === 1 ? `1 ${noun} is` : `${count} ${noun}s are`;
}
