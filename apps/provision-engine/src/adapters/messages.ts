import { timestampOf, type Result, type ResultState } from "@muster/leases";
import { textOf, toEnd, toNs, toOrder, toRenewal, toWireEnd, toWireOrder, toWireRenewal } from "@muster/leases/wire";
import { muster, type PropertiesOf } from "@muster/proto";
import { protoCodec, type Codec } from "@muster/store";
import type { CrashWindow } from "../domain/count-exits.ts";
import type { Ending, EndingCause, FeedbackPending, LeaseEvent, LeaseRecord, Origin, Phase } from "../domain/lease.ts";

const wire = muster.provision.v1;
type WireResult = PropertiesOf<typeof wire.Result>;
type WireEvent = PropertiesOf<typeof wire.LeaseEvent>;
type WireRecord = PropertiesOf<typeof wire.LeaseRecord>;

/** What stands under a key: a record, or bytes that are none, which are left as they are. */
export type Readable = { readonly record: LeaseRecord } | { readonly unreadable: string };

/** Of leases, or of their history: whatever they weigh, a reply is no larger than NATS takes. One alone may be larger than this. */
export const PAGE_BYTES = 512 * 1024;

/** A message inside another that was decoded has all its fields of one value, though the type says that any may be missing. */
type Decoded<Properties> = {
  readonly [Name in Exclude<keyof Properties, "$unknowns">]-?: NonNullable<Properties[Name]>;
};

const PHASES = {
  ORDERED: wire.LeasePhase.LEASE_PHASE_ORDERED,
  PROVISIONING: wire.LeasePhase.LEASE_PHASE_PROVISIONING,
  ACTIVE: wire.LeasePhase.LEASE_PHASE_ACTIVE,
  DECOMMISSIONING: wire.LeasePhase.LEASE_PHASE_DECOMMISSIONING,
  ENDED: wire.LeasePhase.LEASE_PHASE_ENDED,
  FAILED: wire.LeasePhase.LEASE_PHASE_FAILED,
} as const satisfies Record<Phase, number>;

const STATES = {
  error: wire.ResultState.RESULT_STATE_ERROR,
  ok: wire.ResultState.RESULT_STATE_OK,
  deleted: wire.ResultState.RESULT_STATE_DELETED,
} as const satisfies Record<ResultState, number>;

const CAUSES: Readonly<Record<EndingCause, true>> = {
  EXPIRED: true,
  REQUESTED: true,
  WITHDRAWN: true,
  CRASHED: true,
  PROVISION_FAILED: true,
  MIGRATED: true,
};

const records = protoCodec(wire.LeaseRecord);

/** Decoding never throws, so that a reader meets a record that is none under its name, and does not take it for one that is not there. */
export const recordCodec: Codec<Readable, LeaseRecord> = {
  encode: (record) => records.encode(toWireRecord(record)),
  decode: (bytes) => {
    try {
      return { record: toRecord(records.decode(bytes)) };
    } catch (error) {
      return { unreadable: error instanceof Error ? error.message : String(error) };
    }
  },
};

export function toWireResult({ createdNs, state, data, ...rest }: Result): WireResult {
  return {
    ...rest,
    created: timestampOf(createdNs),
    state: STATES[state],
    dataJson: new TextEncoder().encode(data),
  };
}

function toResult(message: WireResult): Result {
  const { id, type, message: text, signature, dataJson } = decoded(message);
  return {
    id,
    type,
    createdNs: toNs(message.created),
    state: named(STATES, message.state, "state of a result"),
    message: text,
    data: textOf(dataJson),
    signature,
  };
}

export function toWireEvent({ atNs, ...rest }: LeaseEvent): WireEvent {
  return { ...rest, at: timestampOf(atNs) };
}

export function toEvent(message: WireEvent): LeaseEvent {
  const { id, lease, eventType, message: text, traceparent } = decoded(message);
  return { id, lease, eventType, message: text, atNs: toNs(message.at), traceparent };
}

/** The number of a record's phase. */
export function phaseOf({ phase }: Pick<LeaseRecord, "phase">): muster.provision.v1.LeasePhase {
  return PHASES[phase];
}

export function toWireRecord(record: LeaseRecord): WireRecord {
  const { order, phase, result, expiresAtNs, renewal, ending, notBeforeNs, feedback, outbox, endedAtNs, ...more } =
    record;
  const { crashes, takesOver, madeFor, heir, orderHash, ...rest } = more;
  return {
    ...rest,
    order: toWireOrder(order),
    phase: PHASES[phase],
    result: result ? toWireResult(result) : null,
    expiresAt: timestampOf(expiresAtNs),
    renewal: renewal ? toWireRenewal(renewal) : null,
    ending: ending ? toWireEnding(ending) : null,
    notBefore: timestampOf(notBeforeNs),
    feedback: toWireFeedback(feedback),
    outbox: outbox.map(toWireEvent),
    endedAt: endedAtNs === undefined ? null : timestampOf(endedAtNs),
    crashes: crashes ? toWireCrashes(crashes) : null,
    takesOver: takesOver ?? "",
    madeFor: madeFor ?? null,
    heir: heir ?? "",
    orderHash: orderHash ?? new Uint8Array(),
  };
}

function toRecord(message: muster.provision.v1.LeaseRecord): LeaseRecord {
  const { source, run, attempts, trouble, events, fence, requestId, traceparent } = message;
  const { order, result, renewal, ending, feedback, endedAt } = message;
  if (order === null || order === undefined) throw new Error("it has no order");
  if (feedback === null || feedback === undefined) throw new Error("it does not say what is to be told");
  return {
    order: toOrder(order),
    source,
    phase: named(PHASES, message.phase, "phase"),
    run,
    result: unlessMissing(result, toResult),
    expiresAtNs: toNs(message.expiresAt),
    renewal: unlessMissing(renewal, toRenewal),
    ending: unlessMissing(ending, toEnding),
    attempts,
    notBeforeNs: toNs(message.notBefore),
    trouble,
    feedback: toFeedback(decoded(feedback)),
    outbox: message.outbox.map(toEvent),
    events,
    endedAtNs: unlessMissing(endedAt, toNs),
    fence,
    requestId,
    traceparent,
    crashes: unlessMissing(message.crashes, toCrashes),
    takesOver: message.takesOver === "" ? undefined : message.takesOver,
    madeFor: unlessMissing(message.madeFor, toOrigin),
    heir: message.heir === "" ? undefined : message.heir,
    orderHash: message.orderHash.length === 0 ? undefined : message.orderHash,
  };
}

function toOrigin(message: PropertiesOf<typeof wire.LeaseOrigin>): Origin {
  const { id, run } = decoded(message);
  return { id, run };
}

function toWireCrashes({ sinceNs, exits, pods }: CrashWindow): PropertiesOf<typeof wire.CrashWindow> {
  const counted = pods.map(({ lastNs, ...rest }) => ({ ...rest, last: timestampOf(lastNs) }));
  return { since: timestampOf(sinceNs), exits, pods: counted };
}

function toCrashes(message: PropertiesOf<typeof wire.CrashWindow>): CrashWindow {
  const { exits, pods } = decoded(message);
  const counted = pods.map((each) => ({ pod: each.pod ?? "", exits: each.exits ?? 0, lastNs: toNs(each.last) }));
  return { sinceNs: toNs(message.since), exits, pods: counted };
}

function toWireEnding({ atNs, request, ...rest }: Ending): PropertiesOf<typeof wire.Ending> {
  return { ...rest, at: timestampOf(atNs), request: request ? toWireEnd(request) : null };
}

function toEnding(message: PropertiesOf<typeof wire.Ending>): Ending {
  const { cause, message: text } = decoded(message);
  if (!isKeyOf(CAUSES, cause)) throw new Error(`"${cause}" is no cause of an end that this version knows`);
  return { cause, message: text, atNs: toNs(message.at), request: unlessMissing(message.request, toEnd) };
}

function toWireFeedback({ notBeforeNs, ...rest }: FeedbackPending): PropertiesOf<typeof wire.FeedbackPending> {
  return { ...rest, notBefore: timestampOf(notBeforeNs) };
}

function toFeedback(message: Decoded<PropertiesOf<typeof wire.FeedbackPending>>): FeedbackPending {
  const { result, deleted, number, attempts, refusals, repeats } = message;
  return { result, deleted, number, attempts, refusals, repeats, notBeforeNs: toNs(message.notBefore) };
}

function named<Name extends string>(names: Readonly<Record<Name, number>>, value: unknown, what: string): Name {
  for (const name in names) if (names[name] === value) return name;
  throw new Error(`${String(value)} is no ${what} that this version knows`);
}

function isKeyOf<Key extends string>(known: Readonly<Record<Key, unknown>>, text: string): text is Key {
  return Object.hasOwn(known, text);
}

function decoded<Properties extends object>(message: Properties): Decoded<Properties> {
  return message as Decoded<Properties>;
}

function unlessMissing<Message, Value>(
  message: Message | null | undefined,
  read: (message: Message) => Value,
): Value | undefined {
  return message === null || message === undefined ? undefined : read(message);
}
