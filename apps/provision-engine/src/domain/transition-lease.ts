import { assertNever } from "@muster/faults";
import { isOver, type Renewal, type Result } from "@muster/leases";
import type { CrashWindow } from "./count-exits.ts";
import { decideRetry, type RetryPolicy } from "./decide-retry.ts";
import { isStuck } from "./decide-stuck.ts";
import {
  goesOn,
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
  | { readonly kind: "waits"; readonly message: string }
  /** A machine that it was granted was lost before it became active. */
  | { readonly kind: "lost"; readonly message: string }
  /** An active lease was looked at for what is missing of it. No trouble: it is as it should be. `result`: it has changed. `remade`: what was missing, and is there again. */
  | {
      readonly kind: "checked";
      readonly trouble: string;
      readonly result: Result | undefined;
      readonly remade?: readonly string[];
    }
  /** The feedback of this number has arrived. */
  | { readonly kind: "told"; readonly number: number; readonly resigned?: Resigned }
  | { readonly kind: "telling-delayed"; readonly number: number; readonly notBeforeNs: bigint }
  /** Its source does not take it. Undefined: it is not told any more. */
  | {
      readonly kind: "telling-refused";
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
        ? become({ ...fresh(record), phase: "PROVISIONING", takesOver: change.takesOver }, "it is provisioned")
        : nothing(record);
    case "migrated":
      return transitionMigrated(record, change.heir, nowNs);
    case "taken-over":
      return transitionTakenOver(record, change, nowNs);
    case "provisioned":
      return transitionProvisioned(record, change.result, nowNs);
    case "provision-failed":
      return transitionFailed(record, change.result, nowNs);
    case "decommissioned":
      return record.phase === "DECOMMISSIONING" ? end(record, nowNs) : nothing(record);
    case "exited":
      return record.phase === "ACTIVE"
        ? become({ ...record, crashes: change.crashes }, "an exit is counted")
        : nothing(record);
    case "delayed":
      return transitionDelayed(record, change, nowNs);
    case "waits":
      return transitionWaits(record, change.message);
    case "lost":
      if (record.phase !== "PROVISIONING") return nothing(record);
      return become(withEvent(record, "DELAYED", change.message, nowNs), "what was granted to it is lost");
    case "checked":
      return transitionChecked(record, change, nowNs);
    case "told":
    case "telling-delayed":
    case "telling-refused":
      return transitionFeedback(record, change, nowNs);
    case "published": {
      const at = record.outbox.findIndex(({ id }) => id === change.upTo);
      return at < 0
        ? stay("it is not in the outbox")
        : become({ ...record, outbox: record.outbox.slice(at + 1) }, "its history is on the stream");
    }
    case "compacted":
      return transitionCompacted(record, change.orderHash);
    default:
      return assertNever(change);
  }
}

/** Lines that a lease has in its history before they are told seldom. */
export const HISTORY_MAX = 480;
/** Of what happens then each of these is told, beside ends. */
const SELDOM = 50;
/** An order that fails and is sent again and again makes ends without end: beyond so many runs they are told as seldom as the rest. */
const RUNS_MAX = 100;
const OF_ENDS: readonly LeaseEventType[] = ["ENDING", "STUCK", "DECOMMISSIONED", "FAILED", "MIGRATED"];

/** Adds a thing that happened, to be published; of a lease with a long history most are only counted. */
export function withEvent(record: LeaseRecord, eventType: LeaseEventType, message: string, atNs: bigint): LeaseRecord {
  const { order, traceparent, run } = record;
  const events = record.events + 1;
  const isWhole = events <= HISTORY_MAX || (OF_ENDS.includes(eventType) && run <= RUNS_MAX);
  if (!isWhole && events % SELDOM !== 0) return { ...record, events };
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
      return stay("it is being provisioned, and is told then");
    case "DECOMMISSIONING":
      return stay("it is being taken down, and that is told then");
    case "ACTIVE":
      return tellAgain(record, { result: true, deleted: false }, nowNs);
    case "ENDED":
      return tellAgain(record, { result: isError(record), deleted: true }, nowNs);
    case "FAILED":
      if (isOver(record.expiresAtNs, nowNs) || (record.orderHash !== undefined && data === undefined))
        return tellAgain(record, { result: true, deleted: true }, nowNs);
      return become(
        withEvent(
          {
            ...fresh(record),
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
function tellAgain(record: LeaseRecord, what: Tell, nowNs: bigint): LeaseTransition {
  const { result, deleted, repeats } = record.feedback;
  if (repeats > 0 && (result || deleted)) return stay("it is about to be told again");
  const feedback = { ...feedbackOf(record, what), repeats: repeats + 1 };
  const because = "what it came to is told again";
  if (repeats > 0)
    return become({ ...record, feedback: { ...feedback, notBeforeNs: decideRetry(repeats, nowNs, REPEAT) } }, because);
  return become(withEvent({ ...record, feedback }, "RESENT", "its order came again", nowNs), because);
}

function transitionRenewed(record: LeaseRecord, renewal: Renewal, nowNs: bigint): LeaseTransition {
  const { expiresAtNs } = record;
  if (!goesOn(record)) return nothing(record);
  if (isOver(expiresAtNs, nowNs)) return stay("it is over");
  if (renewal.sequence <= (record.renewal?.sequence ?? 0)) return stay("a renewal of this sequence was there before");
  if (renewal.expiresAtNs <= expiresAtNs) return stay("it ends later anyway");
  const next = { ...record, renewal, expiresAtNs: renewal.expiresAtNs };
  return become(withEvent(next, "RENEWED", `sequence ${renewal.sequence}`, nowNs), "it was renewed");
}

function transitionEnding(
  record: LeaseRecord,
  change: Extract<LeaseChange, { kind: "ending" }>,
  nowNs: bigint,
): LeaseTransition {
  const message = change.ending.message || neverThere(record);
  const ending: Ending = { ...change.ending, message, atNs: nowNs };
  const isWanted = ending.cause === "REQUESTED" || ending.cause === "WITHDRAWN";
  switch (record.phase) {
    case "ORDERED":
      return end({ ...record, ending }, nowNs);
    case "PROVISIONING":
    case "ACTIVE": {
      const feedback = feedbackOf(record, { result: false, deleted: false });
      const result = change.result ?? record.result;
      const next: LeaseRecord = { ...fresh(record), phase: "DECOMMISSIONING", ending, result, feedback };
      return become(withEvent(next, "ENDING", describeEnding(ending), nowNs), "it ends");
    }
    case "DECOMMISSIONING":
      // Else its order could be sent again, and would run.
      if (isWanted && record.ending?.cause === "PROVISION_FAILED")
        return become({ ...record, ending }, "it ends for good");
      return nothing(record);
    case "FAILED":
      return isWanted ? end({ ...record, ending }, nowNs) : nothing(record);
    case "ENDED":
      return nothing(record);
  }
}

function transitionCompacted(record: LeaseRecord, orderHash: Uint8Array): LeaseTransition {
  if (!isSettled(record)) return stay("it is not over, or not all of that is told");
  if (record.orderHash !== undefined) return stay("its data are gone");
  const { order, result } = record;
  // An error is told again should the order come again, and has no data.
  const kept = result === undefined || isError(record) ? result : { ...result, data: "" };
  // Its heir may still have to take its workload over, with the exits that were counted of it.
  const crashes = record.heir === undefined ? undefined : record.crashes;
  return become(
    { ...record, order: { ...order, data: "" }, result: kept, crashes, orderHash },
    "nobody asks for its data any more",
  );
}

function transitionProvisioned(record: LeaseRecord, result: Result, nowNs: bigint): LeaseTransition {
  if (record.phase !== "PROVISIONING") return nothing(record);
  const feedback = feedbackOf(record, { result: true, deleted: false });
  const next: LeaseRecord = { ...fresh(record), phase: "ACTIVE", result, feedback };
  const { reference } = record.order;
  const isAnew = reference !== undefined && record.madeFor === undefined;
  const message = isAnew ? `anew: lease ${reference}, which it was to take over, is not known` : "";
  return become(withEvent(next, "PROVISIONED", message, nowNs), "it is there");
}

/** Nothing of it is taken down: from this write on, what is there is the other lease's. */
function transitionMigrated(record: LeaseRecord, heir: string, nowNs: bigint): LeaseTransition {
  if (record.phase !== "ACTIVE") return nothing(record);
  const message = `to lease ${heir}`;
  const ending: Ending = { cause: "MIGRATED", message, atNs: nowNs, request: undefined };
  const gone = over({ ...record, ending, heir }, "ENDED", nowNs);
  return become(withEvent(gone, "MIGRATED", message, nowNs), "its workload is another lease's");
}

function transitionTakenOver(
  record: LeaseRecord,
  { madeFor, crashes }: Extract<LeaseChange, { kind: "taken-over" }>,
  nowNs: bigint,
): LeaseTransition {
  const { phase, takesOver } = record;
  if ((phase !== "PROVISIONING" && phase !== "DECOMMISSIONING") || takesOver === undefined) return nothing(record);
  const next: LeaseRecord = { ...fresh(record), takesOver: undefined, madeFor, crashes };
  return become(withEvent(next, "MIGRATED", `from lease ${takesOver}`, nowNs), "the workload is its own");
}

function transitionFailed(record: LeaseRecord, result: Result, nowNs: bigint): LeaseTransition {
  const { phase } = record;
  if (phase !== "ORDERED" && phase !== "PROVISIONING") return nothing(record);
  const ending: Ending = { cause: "PROVISION_FAILED", message: result.message, atNs: nowNs, request: undefined };
  const failed = withEvent({ ...fresh(record), result, ending }, "FAILED", result.message, nowNs);
  if (phase === "PROVISIONING")
    return become({ ...failed, phase: "DECOMMISSIONING" }, "it failed, and what is there of it goes");
  return become(over(failed, "FAILED", nowNs), "it failed before anything was there");
}

function transitionDelayed(
  record: LeaseRecord,
  { message, notBeforeNs }: Extract<LeaseChange, { kind: "delayed" }>,
  nowNs: bigint,
): LeaseTransition {
  if (record.phase !== "PROVISIONING" && record.phase !== "DECOMMISSIONING") return nothing(record);
  const attempts = record.attempts + 1;
  const delayed: LeaseRecord = { ...record, attempts, notBeforeNs, trouble: message };
  const because = "it is tried again later";
  // What fails again and again says the same.
  if (attempts === 1) return become(withEvent(delayed, "DELAYED", message, nowNs), because);
  const isNews = isStuck(delayed, nowNs) && !isStuck(record, nowNs);
  return become(isNews ? withEvent(delayed, "STUCK", message, nowNs) : delayed, because);
}

/** When it is asked for again is no part of it: what waits for days would be written every minute. */
function transitionWaits(record: LeaseRecord, message: string): LeaseTransition {
  if (record.phase !== "PROVISIONING") return nothing(record);
  if (message === "" || message === record.trouble) return stay("it waits for what it has waited for");
  return become({ ...record, trouble: message }, "it waits for something");
}

function transitionChecked(
  record: LeaseRecord,
  { trouble, result, remade = [] }: Extract<LeaseChange, { kind: "checked" }>,
  nowNs: bigint,
): LeaseTransition {
  if (record.phase !== "ACTIVE") return nothing(record);
  if (trouble === record.trouble && result === undefined && remade.length === 0) return stay("it is as it was");
  const next: LeaseRecord = { ...record, trouble };
  if (trouble !== "") {
    const because = "it is not as it should be";
    return become(record.trouble === "" ? withEvent(next, "TROUBLED", trouble, nowNs) : next, because);
  }
  const because = "it is as it should be again";
  const again = remade.length === 0 ? "" : `made again: ${remade.join(", ")}`;
  if (result === undefined) return become(withEvent(next, "RESTORED", again, nowNs), because);
  const told: LeaseRecord = { ...next, result, feedback: feedbackOf(record, { result: true, deleted: false }) };
  return become(withEvent(told, "RESTORED", [again, "with another result"].filter(Boolean).join("; "), nowNs), because);
}

/** A result that has come since then has its own. */
function withSignature({ result }: LeaseRecord, resigned: Resigned | undefined): LeaseRecord["result"] {
  if (result === undefined || resigned === undefined || Buffer.compare(result.signature, resigned.before) !== 0)
    return result;
  return { ...result, signature: resigned.after };
}

function transitionFeedback(
  record: LeaseRecord,
  change: Extract<LeaseChange, { kind: "told" | "telling-delayed" | "telling-refused" }>,
  nowNs: bigint,
): LeaseTransition {
  const { feedback } = record;
  if (change.number !== feedback.number || !(feedback.result || feedback.deleted))
    return stay("something else is to be told now");
  if (change.kind === "told") {
    const told = { ...record, result: withSignature(record, change.resigned), feedback: { ...feedback, ...TOLD } };
    return become(told, "its source knows what it came to");
  }
  if (change.kind === "telling-delayed") {
    const delayed = { ...feedback, attempts: feedback.attempts + 1, notBeforeNs: change.notBeforeNs };
    return become({ ...record, feedback: delayed }, "its source is told later");
  }
  const { message, notBeforeNs } = change;
  const refusals = feedback.refusals + 1;
  if (notBeforeNs === undefined) {
    const givenUp = { ...record, feedback: { ...feedback, ...TOLD } };
    return become(
      withEvent(givenUp, "ANSWER_REFUSED", `given up after ${refusals}: ${message}`, nowNs),
      "it is given up",
    );
  }
  const refused = { ...record, feedback: { ...feedback, refusals, notBeforeNs } };
  const isFirst = refusals === 1;
  return become(
    isFirst ? withEvent(refused, "ANSWER_REFUSED", message, nowNs) : refused,
    "its source is told again after a long time",
  );
}

/** Nothing of it is there any more. */
function end(record: LeaseRecord, nowNs: bigint): LeaseTransition {
  const { ending } = record;
  const phase = ending?.cause === "PROVISION_FAILED" ? "FAILED" : "ENDED";
  const message = ending === undefined ? "" : describeEnding(ending);
  return become(
    withEvent(over({ ...record, takesOver: undefined }, phase, nowNs), "DECOMMISSIONED", message, nowNs),
    "nothing of it is there",
  );
}

function over(record: LeaseRecord, phase: "ENDED" | "FAILED", nowNs: bigint): LeaseRecord {
  const feedback = feedbackOf(record, { result: isError(record), deleted: true });
  return { ...fresh(record), phase, endedAtNs: nowNs, feedback };
}

type Tell = Pick<FeedbackPending, "result" | "deleted">;

const TOLD = { result: false, deleted: false, attempts: 0, refusals: 0, notBeforeNs: 0n };

function feedbackOf({ feedback }: LeaseRecord, what: Tell): FeedbackPending {
  return { ...TOLD, ...what, repeats: 0, number: feedback.number + 1 };
}

/** Without what belongs to the attempts of the phase that it leaves. */
function fresh(record: LeaseRecord): LeaseRecord {
  return { ...record, attempts: 0, notBeforeNs: 0n, trouble: "" };
}

function isError({ result }: LeaseRecord): boolean {
  return result?.state === "error";
}

/** What has kept it from becoming ACTIVE: once it is over nothing else would tell. */
function neverThere({ phase, trouble }: LeaseRecord): string {
  return phase === "PROVISIONING" && trouble !== "" ? describeWait(trouble) : "";
}

/** What the end of a lease says that never became ACTIVE. */
export function describeWait(because: string): string {
  return `it was not ACTIVE yet: ${because}`;
}

function describeEnding({ cause, message }: Ending): string {
  return message === "" ? cause : `${cause}: ${message}`;
}

function become(next: LeaseRecord, because: string): LeaseTransition {
  return { next, because };
}

function stay(because: string): LeaseTransition {
  return { next: undefined, because };
}

function nothing({ phase }: LeaseRecord): LeaseTransition {
  return stay(`it is ${phase}`);
}
