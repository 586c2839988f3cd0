import { assertNever } from "@muster/faults";
import { isOver, type Renewal, type Result } from "@muster/leases";
import type { CrashWindow } from "./count-exits.ts";
import { decideRetry, type RetryPolicy } from "./decide-retry.ts";
import { isStuck } from "./decide-stuck.ts";
import {
  isOngoing,
  isSettled,
  type Ending,
  type FeedbackPending,
  type LeaseEventType,
  type LeaseRecord,
  type Origin,
} from "./lease.ts";

/** What happens to a lease. */
export type LeaseChange =
  /** Its order came again, with its data; undefined: what is told of it is wanted, and nobody sent it. */
  | { readonly kind: "resent"; readonly data?: string }
  | { readonly kind: "renewed"; readonly renewal: Renewal }
  /** With CRASHED, the error that stays to be seen. */
  | { readonly kind: "ending"; readonly ending: Omit<Ending, "atNs">; readonly result?: Result }
  /** Of an order that takes over the workload of another lease nothing is made. */
  | { readonly kind: "provisioning"; readonly takesOver?: string }
  /** Its workload is that of another lease from here on. */
  | { readonly kind: "migrated"; readonly heir: string }
  /** The workload of the lease that it was to take over is its own from here on, with the exits that were counted of it. */
  | { readonly kind: "taken-over"; readonly madeFor: Origin; readonly crashes: CrashWindow | undefined }
  | { readonly kind: "provisioned"; readonly result: Result }
  | { readonly kind: "provision-failed"; readonly result: Result }
  | { readonly kind: "decommissioned" }
  /** Something of it has exited, and is started again. */
  | { readonly kind: "exited"; readonly crashes: CrashWindow }
  /** An attempt of the present phase failed; it is made again. */
  | { readonly kind: "delayed"; readonly message: string; readonly notBeforeNs: bigint }
  /** The present phase has not failed, and waits for something, as in a queue. Empty: for nothing new. */
  | { readonly kind: "waiting"; readonly message: string }
  /** A machine that it was granted was lost before it became active. */
  | { readonly kind: "lost"; readonly message: string }
  /** An active lease was looked at for what is missing of it. No trouble: it is as it should be. `result`: it has changed. `recreated`: what was missing, and is there again. */
  | {
      readonly kind: "checked";
      readonly trouble: string;
      readonly result: Result | undefined;
      readonly recreated?: readonly string[];
    }
  /** The feedback of this number has arrived. */
  | { readonly kind: "feedback-sent"; readonly number: number; readonly resigned?: Resigned }
  | { readonly kind: "feedback-delayed"; readonly number: number; readonly notBeforeNs: bigint }
  /** Its source does not take it. Undefined: it is not told any more. */
  | {
      readonly kind: "feedback-refused";
      readonly number: number;
      readonly message: string;
      readonly notBeforeNs: bigint | undefined;
    }
  /** The outbox up to and with this event is on its stream. */
  | { readonly kind: "published"; readonly upTo: string }
  /** Nobody asks for its data any more; the hash of its order stays. */
  | { readonly kind: "compacted"; readonly orderHash: Uint8Array };

/** The result that had one signature was told with another one. */
export type Resigned = { readonly before: Uint8Array; readonly after: Uint8Array };

export type LeaseTransition = {
  /** Undefined: nothing changes. */
  readonly next: LeaseRecord | undefined;
  readonly because: string;
};

/** One step in the life of a lease. What does not fit its phase changes nothing: it comes late, or twice. */
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
        ? changeTo(
            { ...resetAttempts(record), phase: "PROVISIONING", takesOver: change.takesOver },
            "it is provisioned",
          )
        : unchangedIn(record);
    case "migrated":
      return transitionMigrated(record, change.heir, nowNs);
    case "taken-over":
      return transitionTakenOver(record, change, nowNs);
    case "provisioned":
      return transitionProvisioned(record, change.result, nowNs);
    case "provision-failed":
      return transitionFailed(record, change.result, nowNs);
    case "decommissioned":
      return record.phase === "DECOMMISSIONING" ? end(record, nowNs) : unchangedIn(record);
    case "exited":
      return record.phase === "ACTIVE"
        ? changeTo({ ...record, crashes: change.crashes }, "an exit is counted")
        : unchangedIn(record);
    case "delayed":
      return transitionDelayed(record, change, nowNs);
    case "waiting":
      return transitionWaiting(record, change.message);
    case "lost":
      if (record.phase !== "PROVISIONING") return unchangedIn(record);
      return changeTo(withEvent(record, "DELAYED", change.message, nowNs), "what was granted to it is lost");
    case "checked":
      return transitionChecked(record, change, nowNs);
    case "feedback-sent":
    case "feedback-delayed":
    case "feedback-refused":
      return transitionFeedback(record, change, nowNs);
    case "published": {
      const at = record.outbox.findIndex(({ id }) => id === change.upTo);
      return at < 0
        ? unchanged("it is not in the outbox")
        : changeTo({ ...record, outbox: record.outbox.slice(at + 1) }, "its history is on the stream");
    }
    case "compacted":
      return transitionCompacted(record, change.orderHash);
    default:
      return assertNever(change);
  }
}

/** Lines that a lease has in its history before they are told seldom. */
export const MAX_EVENTS = 480;
/** Of what happens then each of these is told, beside ends. */
const SAMPLED_EVERY = 50;
/** An order that fails and is sent again and again makes ends without end: beyond so many runs they are told as seldom as the rest. */
const MAX_RECORDED_RUNS = 100;
const END_EVENTS: readonly LeaseEventType[] = ["ENDING", "STUCK", "DECOMMISSIONED", "FAILED", "MIGRATED"];

/** Adds a thing that happened, to be published; of a lease with a long history most are only counted. */
export function withEvent(record: LeaseRecord, eventType: LeaseEventType, message: string, atNs: bigint): LeaseRecord {
  const { order, traceparent, run } = record;
  const events = record.events + 1;
  const isWhole = events <= MAX_EVENTS || (END_EVENTS.includes(eventType) && run <= MAX_RECORDED_RUNS);
  if (!isWhole && events % SAMPLED_EVERY !== 0) return { ...record, events };
  const text = isWhole ? message : [message, "one line of 50: the history is long"].filter(Boolean).join("; ");
  // Once a record is gone, another order may have its id.
  const id = `${order.id}.${order.createdNs}.${events}`;
  const event = { id, lease: order.id, eventType, message: text, atNs, traceparent };
  return { ...record, events, outbox: [...record.outbox, event] };
}

function transitionResent(record: LeaseRecord, data: string | undefined, nowNs: bigint): LeaseTransition {
  switch (record.phase) {
    case "ORDERED":
    case "PROVISIONING":
      return unchanged("it is being provisioned, and is told then");
    case "DECOMMISSIONING":
      return unchanged("it is being taken down, and that is told then");
    case "ACTIVE":
      return resendFeedback(record, { result: true, deleted: false }, nowNs);
    case "ENDED":
      return resendFeedback(record, { result: isError(record), deleted: true }, nowNs);
    case "FAILED":
      if (isOver(record.expiresAtNs, nowNs) || (record.orderHash !== undefined && data === undefined))
        return resendFeedback(record, { result: true, deleted: true }, nowNs);
      return changeTo(
        withEvent(
          {
            ...resetAttempts(record),
            // Of one that is compact, what came is the same to the last byte.
            order: record.orderHash === undefined ? record.order : { ...record.order, data: data ?? "" },
            orderHash: undefined,
            phase: "ORDERED",
            run: record.run + 1,
            result: undefined,
            ending: undefined,
            endedAtNs: undefined,
            takesOver: undefined,
            madeFor: undefined,
            // What the earlier run came to is not to arrive after what this one comes to.
            feedback: feedbackOf(record, { result: false, deleted: false }),
          },
          "ORDERED",
          "again, after it had failed",
          nowNs,
        ),
        "it had failed, and is tried again",
      );
  }
}

/** Between two times that the same is told because its order came again. */
const REPEAT: RetryPolicy = { firstMs: 60_000, maxMs: 3_600_000 };

/** At once and with a line of history the first time. From then on after a growing pause: whoever has seen the order may send it without end. */
function resendFeedback(record: LeaseRecord, what: FeedbackParts, nowNs: bigint): LeaseTransition {
  const { result, deleted, repeats } = record.feedback;
  if (repeats > 0 && (result || deleted)) return unchanged("it is about to be told again");
  const feedback = { ...feedbackOf(record, what), repeats: repeats + 1 };
  const because = "what it came to is told again";
  if (repeats > 0)
    return changeTo(
      { ...record, feedback: { ...feedback, notBeforeNs: decideRetry(repeats, nowNs, REPEAT) } },
      because,
    );
  return changeTo(withEvent({ ...record, feedback }, "RESENT", "its order came again", nowNs), because);
}

function transitionRenewed(record: LeaseRecord, renewal: Renewal, nowNs: bigint): LeaseTransition {
  const { expiresAtNs } = record;
  if (!isOngoing(record)) return unchangedIn(record);
  if (isOver(expiresAtNs, nowNs)) return unchanged("it is over");
  if (renewal.sequence <= (record.renewal?.sequence ?? 0))
    return unchanged("a renewal of this sequence was there before");
  if (renewal.expiresAtNs <= expiresAtNs) return unchanged("it ends later anyway");
  const next = { ...record, renewal, expiresAtNs: renewal.expiresAtNs };
  return changeTo(withEvent(next, "RENEWED", `sequence ${renewal.sequence}`, nowNs), "it was renewed");
}

function transitionEnding(
  record: LeaseRecord,
  change: Extract<LeaseChange, { kind: "ending" }>,
  nowNs: bigint,
): LeaseTransition {
  const message = change.ending.message || describeUnprovisioned(record);
  const ending: Ending = { ...change.ending, message, atNs: nowNs };
  const isRequested = ending.cause === "REQUESTED" || ending.cause === "WITHDRAWN";
  switch (record.phase) {
    case "ORDERED":
      return end({ ...record, ending }, nowNs);
    case "PROVISIONING":
    case "ACTIVE": {
      const feedback = feedbackOf(record, { result: false, deleted: false });
      const result = change.result ?? record.result;
      const next: LeaseRecord = { ...resetAttempts(record), phase: "DECOMMISSIONING", ending, result, feedback };
      return changeTo(withEvent(next, "ENDING", describeEnding(ending), nowNs), "it ends");
    }
    case "DECOMMISSIONING":
      // Else its order could be sent again, and would run.
      if (isRequested && record.ending?.cause === "PROVISION_FAILED")
        return changeTo({ ...record, ending }, "it ends for good");
      return unchangedIn(record);
    case "FAILED":
      return isRequested ? end({ ...record, ending }, nowNs) : unchangedIn(record);
    case "ENDED":
      return unchangedIn(record);
  }
}

function transitionCompacted(record: LeaseRecord, orderHash: Uint8Array): LeaseTransition {
  if (!isSettled(record)) return unchanged("it is not over, or not all of that is told");
  if (record.orderHash !== undefined) return unchanged("its data are gone");
  const { order, result } = record;
  // An error is told again should the order come again, and has no data.
  const kept = result === undefined || isError(record) ? result : { ...result, data: "" };
  // Its heir may still have to take its workload over, with the exits that were counted of it.
  const crashes = record.heir === undefined ? undefined : record.crashes;
  return changeTo(
    { ...record, order: { ...order, data: "" }, result: kept, crashes, orderHash },
    "nobody asks for its data any more",
  );
}

function transitionProvisioned(record: LeaseRecord, result: Result, nowNs: bigint): LeaseTransition {
  if (record.phase !== "PROVISIONING") return unchangedIn(record);
  const feedback = feedbackOf(record, { result: true, deleted: false });
  const next: LeaseRecord = { ...resetAttempts(record), phase: "ACTIVE", result, feedback };
  const { reference } = record.order;
  const isUnknownReference = reference !== undefined && record.madeFor === undefined;
  const message = isUnknownReference ? `anew: lease ${reference}, which it was to take over, is not known` : "";
  return changeTo(withEvent(next, "PROVISIONED", message, nowNs), "it is there");
}

/** Nothing of it is taken down: from this write on, what is there is the other lease's. */
function transitionMigrated(record: LeaseRecord, heir: string, nowNs: bigint): LeaseTransition {
  if (record.phase !== "ACTIVE") return unchangedIn(record);
  const message = `to lease ${heir}`;
  const ending: Ending = { cause: "MIGRATED", message, atNs: nowNs, request: undefined };
  const gone = closed({ ...record, ending, heir }, "ENDED", nowNs);
  return changeTo(withEvent(gone, "MIGRATED", message, nowNs), "its workload is another lease's");
}

function transitionTakenOver(
  record: LeaseRecord,
  { madeFor, crashes }: Extract<LeaseChange, { kind: "taken-over" }>,
  nowNs: bigint,
): LeaseTransition {
  const { phase, takesOver } = record;
  if ((phase !== "PROVISIONING" && phase !== "DECOMMISSIONING") || takesOver === undefined) return unchangedIn(record);
  const next: LeaseRecord = { ...resetAttempts(record), takesOver: undefined, madeFor, crashes };
  return changeTo(withEvent(next, "MIGRATED", `from lease ${takesOver}`, nowNs), "the workload is its own");
}

function transitionFailed(record: LeaseRecord, result: Result, nowNs: bigint): LeaseTransition {
  const { phase } = record;
  if (phase !== "ORDERED" && phase !== "PROVISIONING") return unchangedIn(record);
  const ending: Ending = { cause: "PROVISION_FAILED", message: result.message, atNs: nowNs, request: undefined };
  const failed = withEvent({ ...resetAttempts(record), result, ending }, "FAILED", result.message, nowNs);
  if (phase === "PROVISIONING")
    return changeTo({ ...failed, phase: "DECOMMISSIONING" }, "it failed, and what is there of it goes");
  return changeTo(closed(failed, "FAILED", nowNs), "it failed before anything was there");
}

function transitionDelayed(
  record: LeaseRecord,
  { message, notBeforeNs }: Extract<LeaseChange, { kind: "delayed" }>,
  nowNs: bigint,
): LeaseTransition {
  if (record.phase !== "PROVISIONING" && record.phase !== "DECOMMISSIONING") return unchangedIn(record);
  const attempts = record.attempts + 1;
  const delayed: LeaseRecord = { ...record, attempts, notBeforeNs, trouble: message };
  const because = "it is tried again later";
  // What fails again and again says the same.
  if (attempts === 1) return changeTo(withEvent(delayed, "DELAYED", message, nowNs), because);
  const isNews = isStuck(delayed, nowNs) && !isStuck(record, nowNs);
  return changeTo(isNews ? withEvent(delayed, "STUCK", message, nowNs) : delayed, because);
}

/** When it is asked for again is no part of it: what waits for days would be written every minute. */
function transitionWaiting(record: LeaseRecord, message: string): LeaseTransition {
  if (record.phase !== "PROVISIONING") return unchangedIn(record);
  if (message === "" || message === record.trouble) return unchanged("it waits for what it has waited for");
  return changeTo({ ...record, trouble: message }, "it waits for something");
}

function transitionChecked(
  record: LeaseRecord,
  { trouble, result, recreated = [] }: Extract<LeaseChange, { kind: "checked" }>,
  nowNs: bigint,
): LeaseTransition {
  if (record.phase !== "ACTIVE") return unchangedIn(record);
  if (trouble === record.trouble && result === undefined && recreated.length === 0) return unchanged("it is as it was");
  const next: LeaseRecord = { ...record, trouble };
  if (trouble !== "") {
    const because = "it is not as it should be";
    return changeTo(record.trouble === "" ? withEvent(next, "TROUBLED", trouble, nowNs) : next, because);
  }
  const because = "it is as it should be again";
  const recreation = recreated.length === 0 ? "" : `made again: ${recreated.join(", ")}`;
  if (result === undefined) return changeTo(withEvent(next, "RESTORED", recreation, nowNs), because);
  const told: LeaseRecord = { ...next, result, feedback: feedbackOf(record, { result: true, deleted: false }) };
  return changeTo(
    withEvent(told, "RESTORED", [recreation, "with another result"].filter(Boolean).join("; "), nowNs),
    because,
  );
}

/** A result that has come since then has its own. */
function withSignature({ result }: LeaseRecord, resigned: Resigned | undefined): LeaseRecord["result"] {
  if (result === undefined || resigned === undefined || Buffer.compare(result.signature, resigned.before) !== 0)
    return result;
  return { ...result, signature: resigned.after };
}

function transitionFeedback(
  record: LeaseRecord,
  change: Extract<LeaseChange, { kind: "feedback-sent" | "feedback-delayed" | "feedback-refused" }>,
  nowNs: bigint,
): LeaseTransition {
  const { feedback } = record;
  if (change.number !== feedback.number || !(feedback.result || feedback.deleted))
    return unchanged("something else is to be told now");
  if (change.kind === "feedback-sent") {
    const told = { ...record, result: withSignature(record, change.resigned), feedback: { ...feedback, ...REPORTED } };
    return changeTo(told, "its source knows what it came to");
  }
  if (change.kind === "feedback-delayed") {
    const delayed = { ...feedback, attempts: feedback.attempts + 1, notBeforeNs: change.notBeforeNs };
    return changeTo({ ...record, feedback: delayed }, "its source is told later");
  }
  const { message, notBeforeNs } = change;
  const refusals = feedback.refusals + 1;
  if (notBeforeNs === undefined) {
    const givenUp = { ...record, feedback: { ...feedback, ...REPORTED } };
    return changeTo(
      withEvent(givenUp, "ANSWER_REFUSED", `given up after ${refusals}: ${message}`, nowNs),
      "it is given up",
    );
  }
  const refused = { ...record, feedback: { ...feedback, refusals, notBeforeNs } };
  const isFirst = refusals === 1;
  return changeTo(
    isFirst ? withEvent(refused, "ANSWER_REFUSED", message, nowNs) : refused,
    "its source is told again after a long time",
  );
}

/** Nothing of it is there any more. */
function end(record: LeaseRecord, nowNs: bigint): LeaseTransition {
  const { ending } = record;
  const phase = ending?.cause === "PROVISION_FAILED" ? "FAILED" : "ENDED";
  const message = ending === undefined ? "" : describeEnding(ending);
  return changeTo(
    withEvent(closed({ ...record, takesOver: undefined }, phase, nowNs), "DECOMMISSIONED", message, nowNs),
    "nothing of it is there",
  );
}

function closed(record: LeaseRecord, phase: "ENDED" | "FAILED", nowNs: bigint): LeaseRecord {
  const feedback = feedbackOf(record, { result: isError(record), deleted: true });
  return { ...resetAttempts(record), phase, endedAtNs: nowNs, feedback };
}

type FeedbackParts = Pick<FeedbackPending, "result" | "deleted">;

const REPORTED = { result: false, deleted: false, attempts: 0, refusals: 0, notBeforeNs: 0n };

function feedbackOf({ feedback }: LeaseRecord, what: FeedbackParts): FeedbackPending {
  return { ...REPORTED, ...what, repeats: 0, number: feedback.number + 1 };
}

/** Without what belongs to the attempts of the phase that it leaves. */
function resetAttempts(record: LeaseRecord): LeaseRecord {
  return { ...record, attempts: 0, notBeforeNs: 0n, trouble: "" };
}

function isError({ result }: LeaseRecord): boolean {
  return result?.state === "error";
}

/** What has kept it from becoming ACTIVE: once it is over nothing else would tell. */
function describeUnprovisioned({ phase, trouble }: LeaseRecord): string {
  return phase === "PROVISIONING" && trouble !== "" ? describeWait(trouble) : "";
}

/** What the end of a lease says that never became ACTIVE. */
export function describeWait(because: string): string {
  return `it was not ACTIVE yet: ${because}`;
}

function describeEnding({ cause, message }: Ending): string {
  return message === "" ? cause : `${cause}: ${message}`;
}

function changeTo(next: LeaseRecord, because: string): LeaseTransition {
  return { next, because };
}

function unchanged(because: string): LeaseTransition {
  return { next: undefined, because };
}

function unchangedIn({ phase }: LeaseRecord): LeaseTransition {
  return unchanged(`it is ${phase}`);
}
