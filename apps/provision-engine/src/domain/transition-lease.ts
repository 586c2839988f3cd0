import { assertNever } from "@muster/faults";
import { isOver, type Renewal, type Result } from "@muster/leases";
import { isStuck } from "./decide-retry.ts";
import { isOngoing, isSettled, type LeaseEnding, type LeaseRecord } from "./lease.ts";
import {
  changeLease,
  NOT_IN_THIS_PHASE,
  keepUnchanged,
  withEvent,
  type LeaseChange,
  type LeaseTransition,
} from "./lease-change.ts";
import { transitionFeedback, resendFeedback, getPendingFeedback } from "./transition-feedback.ts";

/** Applies one change to a lease. A change that does not fit the phase is late or repeated, and has no effect. */
export function transitionLease(record: LeaseRecord, change: LeaseChange, nowNs: bigint): LeaseTransition {
  switch (change.kind) {
    case "resent":
      return transitionResent(record, change.data, nowNs);
    case "renewed":
      return transitionRenewed(record, change.renewal, nowNs);
    case "ending":
      return transitionEnding(record, change, nowNs);
    case "provisioning":
      return record.phase === "ORDERED"
        ? changeLease(
            { ...resetAttempts(record), phase: "PROVISIONING", takesOver: change.takesOver },
            "provisioning-begins",
          )
        : NOT_IN_THIS_PHASE;
    case "migrated":
      return transitionMigrated(record, change.heir, nowNs);
    case "taken-over":
      return transitionTakenOver(record, change, nowNs);
    case "provisioned":
      return transitionProvisioned(record, change.result, nowNs);
    case "provision-failed":
      return transitionFailed(record, change.result, nowNs);
    case "decommissioned":
      return record.phase === "DECOMMISSIONING" ? end(record, nowNs) : NOT_IN_THIS_PHASE;
    case "exited":
      return record.phase === "ACTIVE"
        ? changeLease({ ...record, crashes: change.crashes }, "exit-counted")
        : NOT_IN_THIS_PHASE;
    case "delayed":
      return transitionDelayed(record, change, nowNs);
    case "waiting":
      return transitionWaiting(record, change.message);
    case "lost":
      if (record.phase !== "PROVISIONING") return NOT_IN_THIS_PHASE;
      return changeLease(withEvent(record, "DELAYED", change.message, nowNs), "machine-lost");
    case "checked":
      return transitionChecked(record, change, nowNs);
    case "feedback-sent":
    case "feedback-delayed":
    case "feedback-refused":
      return transitionFeedback(record, change, nowNs);
    case "published": {
      const at = record.outbox.findIndex(({ id }) => id === change.upTo);
      return at < 0
        ? keepUnchanged("not-in-outbox")
        : changeLease({ ...record, outbox: record.outbox.slice(at + 1) }, "history-published");
    }
    case "compacted":
      return transitionCompacted(record, change.orderHash);
    default:
      return assertNever(change);
  }
}

function transitionResent(record: LeaseRecord, data: string | undefined, nowNs: bigint): LeaseTransition {
  switch (record.phase) {
    case "ORDERED":
    case "PROVISIONING":
      return keepUnchanged("reported-later");
    case "DECOMMISSIONING":
      return keepUnchanged("reported-later");
    case "ACTIVE":
      return resendFeedback(record, { result: true, deleted: false }, nowNs);
    case "ENDED":
      return resendFeedback(record, { result: isError(record), deleted: true }, nowNs);
    case "FAILED":
      if (isOver(record.expiresAtNs, nowNs) || (record.orderHash !== undefined && data === undefined))
        return resendFeedback(record, { result: true, deleted: true }, nowNs);
      return changeLease(
        withEvent(
          {
            ...resetAttempts(record),
            // The order that arrived equals the compacted one in every signed byte.
            order: record.orderHash === undefined ? record.order : { ...record.order, data: data ?? "" },
            orderHash: undefined,
            phase: "ORDERED",
            run: record.run + 1,
            result: undefined,
            ending: undefined,
            endedAtNs: undefined,
            takesOver: undefined,
            madeFor: undefined,
            // The answer of the earlier run must not arrive after the answer of this run.
            feedback: getPendingFeedback(record, { result: false, deleted: false }),
          },
          "ORDERED",
          "again, after it had failed",
          nowNs,
        ),
        "runs-again",
      );
  }
}

function transitionRenewed(record: LeaseRecord, renewal: Renewal, nowNs: bigint): LeaseTransition {
  const { expiresAtNs } = record;
  if (!isOngoing(record)) return NOT_IN_THIS_PHASE;
  if (isOver(expiresAtNs, nowNs)) return keepUnchanged("expired");
  if (renewal.sequence <= (record.renewal?.sequence ?? 0)) return keepUnchanged("renewal-applied");
  if (renewal.expiresAtNs <= expiresAtNs) return keepUnchanged("ends-later-already");
  const next = { ...record, renewal, expiresAtNs: renewal.expiresAtNs };
  return changeLease(withEvent(next, "RENEWED", `sequence ${renewal.sequence}`, nowNs), "renewed");
}

function transitionEnding(
  record: LeaseRecord,
  change: Extract<LeaseChange, { kind: "ending" }>,
  nowNs: bigint,
): LeaseTransition {
  const message = change.ending.message || describeUnprovisioned(record);
  const ending: LeaseEnding = { ...change.ending, message, atNs: nowNs };
  const isRequested = ending.cause === "REQUESTED" || ending.cause === "WITHDRAWN";
  switch (record.phase) {
    case "ORDERED":
      return end({ ...record, ending }, nowNs);
    case "PROVISIONING":
    case "ACTIVE": {
      const feedback = getPendingFeedback(record, { result: false, deleted: false });
      const result = change.result ?? record.result;
      const next: LeaseRecord = { ...resetAttempts(record), phase: "DECOMMISSIONING", ending, result, feedback };
      return changeLease(withEvent(next, "ENDING", describeEnding(ending), nowNs), "ends");
    }
    case "DECOMMISSIONING":
      // The order of a failed lease could otherwise be sent again and run.
      if (isRequested && record.ending?.cause === "PROVISION_FAILED")
        return changeLease({ ...record, ending }, "ends-for-good");
      return NOT_IN_THIS_PHASE;
    case "FAILED":
      return isRequested ? end({ ...record, ending }, nowNs) : NOT_IN_THIS_PHASE;
    case "ENDED":
      return NOT_IN_THIS_PHASE;
  }
}

function transitionCompacted(record: LeaseRecord, orderHash: Uint8Array): LeaseTransition {
  if (!isSettled(record)) return keepUnchanged("not-settled");
  if (record.orderHash !== undefined) return keepUnchanged("data-removed-already");
  const { order, result } = record;
  // An error may have to be sent again, and has no data.
  const kept = result === undefined || isError(record) ? result : { ...result, data: "" };
  // The heir may still have to take over the counted exits.
  const crashes = record.heir === undefined ? undefined : record.crashes;
  return changeLease({ ...record, order: { ...order, data: "" }, result: kept, crashes, orderHash }, "data-removed");
}

function transitionProvisioned(record: LeaseRecord, result: Result, nowNs: bigint): LeaseTransition {
  if (record.phase !== "PROVISIONING") return NOT_IN_THIS_PHASE;
  const feedback = getPendingFeedback(record, { result: true, deleted: false });
  const next: LeaseRecord = { ...resetAttempts(record), phase: "ACTIVE", result, feedback };
  const { reference } = record.order;
  const isUnknownReference = reference !== undefined && record.madeFor === undefined;
  const message = isUnknownReference ? `without take-over: lease ${reference} is unknown` : "";
  return changeLease(withEvent(next, "PROVISIONED", message, nowNs), "active");
}

/** No object is removed: from this write on, the workload belongs to the heir. */
function transitionMigrated(record: LeaseRecord, heir: string, nowNs: bigint): LeaseTransition {
  if (record.phase !== "ACTIVE") return NOT_IN_THIS_PHASE;
  const message = `to lease ${heir}`;
  const ending: LeaseEnding = { cause: "MIGRATED", message, atNs: nowNs, request: undefined };
  const gone = closed({ ...record, ending, heir }, "ENDED", nowNs);
  return changeLease(withEvent(gone, "MIGRATED", message, nowNs), "workload-handed-over");
}

function transitionTakenOver(
  record: LeaseRecord,
  { madeFor, crashes }: Extract<LeaseChange, { kind: "taken-over" }>,
  nowNs: bigint,
): LeaseTransition {
  const { phase, takesOver } = record;
  if ((phase !== "PROVISIONING" && phase !== "DECOMMISSIONING") || takesOver === undefined) return NOT_IN_THIS_PHASE;
  const next: LeaseRecord = { ...resetAttempts(record), takesOver: undefined, madeFor, crashes };
  return changeLease(withEvent(next, "MIGRATED", `from lease ${takesOver}`, nowNs), "workload-taken-over");
}

function transitionFailed(record: LeaseRecord, result: Result, nowNs: bigint): LeaseTransition {
  const { phase } = record;
  if (phase !== "ORDERED" && phase !== "PROVISIONING") return NOT_IN_THIS_PHASE;
  const ending: LeaseEnding = { cause: "PROVISION_FAILED", message: result.message, atNs: nowNs, request: undefined };
  const failed = withEvent({ ...resetAttempts(record), result, ending }, "FAILED", result.message, nowNs);
  if (phase === "PROVISIONING") return changeLease({ ...failed, phase: "DECOMMISSIONING" }, "failed-and-removed");
  return changeLease(closed(failed, "FAILED", nowNs), "failed-before-creation");
}

function transitionDelayed(
  record: LeaseRecord,
  { message, notBeforeNs }: Extract<LeaseChange, { kind: "delayed" }>,
  nowNs: bigint,
): LeaseTransition {
  if (record.phase !== "PROVISIONING" && record.phase !== "DECOMMISSIONING") return NOT_IN_THIS_PHASE;
  const attempts = record.attempts + 1;
  const delayed: LeaseRecord = { ...record, attempts, notBeforeNs, trouble: message };
  const because = "retried-later";
  // Repeated failures mostly have equal texts.
  if (attempts === 1) return changeLease(withEvent(delayed, "DELAYED", message, nowNs), because);
  const isNews = isStuck(delayed, nowNs) && !isStuck(record, nowNs);
  return changeLease(isNews ? withEvent(delayed, "STUCK", message, nowNs) : delayed, because);
}

/** The record does not hold the time of the next attempt. Otherwise a lease that waits for days would be written every minute. */
function transitionWaiting(record: LeaseRecord, message: string): LeaseTransition {
  if (record.phase !== "PROVISIONING") return NOT_IN_THIS_PHASE;
  if (message === "" || message === record.trouble) return keepUnchanged("waits-for-the-same");
  return changeLease({ ...record, trouble: message }, "waits");
}

function transitionChecked(
  record: LeaseRecord,
  { trouble, result, recreated = [] }: Extract<LeaseChange, { kind: "checked" }>,
  nowNs: bigint,
): LeaseTransition {
  if (record.phase !== "ACTIVE") return NOT_IN_THIS_PHASE;
  if (trouble === record.trouble && result === undefined && recreated.length === 0) return keepUnchanged("same-health");
  const next: LeaseRecord = { ...record, trouble };
  if (trouble !== "") {
    const because = "not-healthy";
    return changeLease(record.trouble === "" ? withEvent(next, "TROUBLED", trouble, nowNs) : next, because);
  }
  const because = "healthy-again";
  const recreation = recreated.length === 0 ? "" : `recreated: ${recreated.join(", ")}`;
  if (result === undefined) return changeLease(withEvent(next, "RESTORED", recreation, nowNs), because);
  const reported: LeaseRecord = {
    ...next,
    result,
    feedback: getPendingFeedback(record, { result: true, deleted: false }),
  };
  return changeLease(
    withEvent(reported, "RESTORED", [recreation, "with another result"].filter(Boolean).join("; "), nowNs),
    because,
  );
}

/** Closes a lease whose resources are all removed. */
function end(record: LeaseRecord, nowNs: bigint): LeaseTransition {
  const { ending } = record;
  const phase = ending?.cause === "PROVISION_FAILED" ? "FAILED" : "ENDED";
  const message = ending === undefined ? "" : describeEnding(ending);
  return changeLease(
    withEvent(closed({ ...record, takesOver: undefined }, phase, nowNs), "DECOMMISSIONED", message, nowNs),
    "removed",
  );
}

function closed(record: LeaseRecord, phase: "ENDED" | "FAILED", nowNs: bigint): LeaseRecord {
  const feedback = getPendingFeedback(record, { result: isError(record), deleted: true });
  return { ...resetAttempts(record), phase, endedAtNs: nowNs, feedback };
}

/** Clears the fields that belong to attempts of the phase being left. */
function resetAttempts(record: LeaseRecord): LeaseRecord {
  return { ...record, attempts: 0, notBeforeNs: 0n, trouble: "" };
}

function isError({ result }: LeaseRecord): boolean {
  return result?.state === "error";
}

/** Explains at its end why a lease never became ACTIVE: no other field would record the reason. */
function describeUnprovisioned({ phase, trouble }: LeaseRecord): string {
  return phase === "PROVISIONING" && trouble !== "" ? describeWait(trouble) : "";
}

/** The message in the end of a lease that never became ACTIVE. */
export function describeWait(because: string): string {
  return `it was not ACTIVE yet: ${because}`;
}

function describeEnding({ cause, message }: LeaseEnding): string {
  return message === "" ? cause : `${cause}: ${message}`;
}
