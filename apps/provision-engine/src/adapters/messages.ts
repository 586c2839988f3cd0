import { toTimestamp, type Result } from "@muster/leases";
import {
  toTimeText,
  toEnd,
  toNs,
  toOrder,
  toRenewal,
  toWireEnd,
  toWireOrder,
  toWireRenewal,
} from "@muster/leases/wire";
import { enums, toLowercaseNames, muster } from "@muster/proto";
import { makeProtoCodec, type Codec } from "@muster/store";
import type { StoredValue } from "../holdings/records.ts";
import {
  ENDING_CAUSES,
  type LeaseEnding,
  type FeedbackPending,
  type LeaseEvent,
  type LeaseRecord,
  type LeaseOrigin,
  type CrashWindow,
} from "../domain/lease.ts";

const wire = muster.provision.v1;

/** Maximum size of a page of leases or events, so that a reply fits a NATS message. A single item may exceed it. */
export const PAGE_BYTES = 512 * 1024;

const STATES = toLowercaseNames(enums.ResultState);

const records = makeProtoCodec(wire.LeaseRecord);

/** Decoding never throws, so that an unreadable record is not mistaken for a missing one. */
export const recordCodec: Codec<StoredValue, LeaseRecord> = {
  encode: (record) => records.encode(toWireRecord(record)),
  decode: (bytes) => {
    try {
      return { record: toRecord(records.decode(bytes)) };
    } catch (error) {
      return { unreadable: error instanceof Error ? error.message : String(error) };
    }
  },
};

export function toWireResult({ createdNs, state, data, ...rest }: Result): muster.provision.v1.Result.$Properties {
  return {
    ...rest,
    created: toTimestamp(createdNs),
    state: STATES.numbers[state],
    dataJson: new TextEncoder().encode(data),
  };
}

function toResult({ id, type, created, state, message, signature, dataJson }: muster.provision.v1.Result): Result {
  return {
    id,
    type,
    createdNs: toNs(created),
    state: STATES.requireName(state, "state of a result"),
    message,
    data: toTimeText(dataJson),
    signature,
  };
}

export function toWireEvent({ atNs, ...rest }: LeaseEvent): muster.provision.v1.LeaseEvent.$Properties {
  return { ...rest, at: toTimestamp(atNs) };
}

export function toEvent(event: muster.provision.v1.LeaseEvent): LeaseEvent {
  const { id, lease, eventType, message, at, traceparent } = event;
  return { id, lease, eventType, message, atNs: toNs(at), traceparent };
}

/** The wire number of a record's phase. */
export function toWirePhase({ phase }: Pick<LeaseRecord, "phase">): number {
  return enums.LeasePhase.numbers[phase];
}

export function toWireRecord(record: LeaseRecord): muster.provision.v1.LeaseRecord.$Properties {
  const { order, result, expiresAtNs, renewal, ending, notBeforeNs, feedback, outbox, endedAtNs, crashes, ...rest } =
    record;
  return {
    ...rest,
    order: toWireOrder(order),
    phase: toWirePhase(record),
    result: result && toWireResult(result),
    expiresAt: toTimestamp(expiresAtNs),
    renewal: renewal && toWireRenewal(renewal),
    ending: ending && toWireEnding(ending),
    notBefore: toTimestamp(notBeforeNs),
    feedback: toWireFeedback(feedback),
    outbox: outbox.map(toWireEvent),
    endedAt: endedAtNs === undefined ? undefined : toTimestamp(endedAtNs),
    crashes: crashes && toWireCrashes(crashes),
  };
}

function toRecord(message: muster.provision.v1.LeaseRecord): LeaseRecord {
  const { source, run, attempts, trouble, events, fence, requestId, traceparent } = message;
  const { order, result, renewal, ending, feedback, endedAt, crashes, madeFor } = message;
  if (order === undefined) throw new Error("it has no order");
  if (feedback === undefined) throw new Error("it has no feedback state");
  return {
    order: toOrder(order),
    source,
    phase: enums.LeasePhase.requireName(message.phase, "phase"),
    run,
    result: result && toResult(result),
    expiresAtNs: toNs(message.expiresAt),
    renewal: renewal && toRenewal(renewal),
    ending: ending && toEnding(ending),
    attempts,
    notBeforeNs: toNs(message.notBefore),
    trouble,
    feedback: toFeedback(feedback),
    outbox: message.outbox.map(toEvent),
    events,
    endedAtNs: endedAt && toNs(endedAt),
    fence,
    requestId,
    traceparent,
    crashes: crashes && toCrashes(crashes),
    takesOver: message.takesOver === "" ? undefined : message.takesOver,
    madeFor: madeFor && toOrigin(madeFor),
    heir: message.heir === "" ? undefined : message.heir,
    orderHash: message.orderHash.length === 0 ? undefined : message.orderHash,
  };
}

function toOrigin({ id, run }: muster.provision.v1.LeaseOrigin): LeaseOrigin {
  return { id, run };
}

function toWireCrashes({ sinceNs, exits, pods }: CrashWindow): muster.provision.v1.CrashWindow.$Properties {
  const counted = pods.map(({ lastNs, ...rest }) => ({ ...rest, last: toTimestamp(lastNs) }));
  return { since: toTimestamp(sinceNs), exits, pods: counted };
}

function toCrashes({ since, exits, pods }: muster.provision.v1.CrashWindow): CrashWindow {
  const counted = pods.map(({ last, pod, exits: ofPod }) => ({ pod, exits: ofPod, lastNs: toNs(last) }));
  return { sinceNs: toNs(since), exits, pods: counted };
}

function toWireEnding({ atNs, request, ...rest }: LeaseEnding): muster.provision.v1.Ending.$Properties {
  return { ...rest, at: toTimestamp(atNs), request: request && toWireEnd(request) };
}

function toEnding({ cause, message, at, request }: muster.provision.v1.Ending): LeaseEnding {
  const known = ENDING_CAUSES.find((each) => each === cause);
  if (known === undefined) throw new Error(`"${cause}" is no cause of an end that this version knows`);
  return { cause: known, message, atNs: toNs(at), request: request && toEnd(request) };
}

function toWireFeedback({ notBeforeNs, ...rest }: FeedbackPending): muster.provision.v1.FeedbackPending.$Properties {
  return { ...rest, notBefore: toTimestamp(notBeforeNs) };
}

function toFeedback(pending: muster.provision.v1.FeedbackPending): FeedbackPending {
  const { result, deleted, number, attempts, refusals, repeats, notBefore } = pending;
  return { result, deleted, number, attempts, refusals, repeats, notBeforeNs: toNs(notBefore) };
}
