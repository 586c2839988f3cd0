import { setImmediate as nextTurn } from "node:timers/promises";
import { muster } from "@muster/proto";
import type { SnapshotCodec } from "@muster/store";
import { restoreLedger, type Beneficiary, type Ledger } from "../domain/ledger/ledger.ts";
import type { Reservation } from "../domain/ledger/reservation.ts";
import { noPastUse } from "../domain/ledger/past-use.ts";
import type { Steps } from "../domain/ledger/steps.ts";
import type { Queue } from "../domain/ledger/queue.ts";
import { toLedgerBeneficiary, toWireBeneficiaries } from "./preemption-messages.ts";
import { toPastShares, toQueue, toWirePastUse, toWireQueue } from "./queue-messages.ts";
import { internNeeds, toReservation, toWireRequested } from "./messages.ts";

const wire = muster.reservation.v1;
const { LedgerSnapshot, LedgerRequested, LedgerLimited } = wire;

/** Reservations per step, so that one step takes a few milliseconds. */
const PER_PIECE = 1000;
/** Maximum time that reading a snapshot blocks the event loop. */
const TURN_MS = 20;

/** First byte of a LedgerSnapshot field: field number and wire type. */
const RESERVATION_TAG = 0x0a;
const NEXT_ID_TAG = 0x10;
const LIMIT_TAG = 0x1a;
const QUEUE_TAG = 0x22;
const BENEFICIARY_TAG = 0x2a;
const PAST_USE_TAG = 0x32;
const TAGS = [RESERVATION_TAG, NEXT_ID_TAG, LIMIT_TAG, QUEUE_TAG, BENEFICIARY_TAG, PAST_USE_TAG];

/** Encodes and decodes one LedgerSnapshot in steps. Concatenated protobuf messages of one type decode as one message that has all their reservations. */
export const snapshotCodec: SnapshotCodec<Ledger> = {
  *pieces(ledger) {
    let reservations: muster.reservation.v1.LedgerRequested.$Properties[] = [];
    for (const reservation of ledger.reservations.values()) {
      reservations.push(toWireRequested(reservation));
      if (reservations.length < PER_PIECE) continue;
      yield LedgerSnapshot.encode({ reservations }).finish();
      reservations = [];
    }
    const limits = [...ledger.limits.entries()].map(([ownerKind, limit]) => ({ ownerKind, limit }));
    const queues = [...ledger.queues.values()].map(toWireQueue);
    const beneficiaries = toWireBeneficiaries(ledger.beneficiaries);
    const pastUse = [...ledger.pastUse.entries()].map(([parent, shares]) => toWirePastUse(parent, shares));
    const rest = { limits, queues, beneficiaries, pastUse };
    yield LedgerSnapshot.encode({ reservations, nextId: ledger.nextSequence, ...rest }).finish();
  },
  assemble: (pieces) => inTurns(assemble(pieces)),
};

function* assemble(pieces: readonly Uint8Array[]): Steps<Ledger> {
  const reservations: Reservation[] = [];
  const limits = new Map<string, number>();
  const queues: Queue[] = [];
  const beneficiaries: Beneficiary[] = [];
  let pastUse = noPastUse;
  const needsOf = internNeeds();
  let nextId = 0;
  let rest = Buffer.alloc(0);
  for (const piece of pieces) {
    rest = Buffer.concat([rest, piece]);
    let at = 0;
    for (let field = readField(rest, at); field !== undefined; field = readField(rest, at)) {
      at = field.end;
      if (field.tag === NEXT_ID_TAG) nextId = field.value;
      else {
        const bytes = rest.subarray(field.end - field.value, field.end);
        if (field.tag === LIMIT_TAG) {
          const { ownerKind, limit } = LedgerLimited.decode(bytes);
          limits.set(ownerKind, limit);
        } else if (field.tag === QUEUE_TAG) queues.push(toQueue(wire.Queue.decode(bytes)));
        else if (field.tag === BENEFICIARY_TAG)
          beneficiaries.push(toLedgerBeneficiary(wire.LedgerBeneficiary.decode(bytes)));
        else if (field.tag === PAST_USE_TAG) pastUse = pastUse.set(...toPastShares(wire.LedgerPastUse.decode(bytes)));
        else reservations.push(toReservation(LedgerRequested.decode(bytes), needsOf));
      }
      if (reservations.length % PER_PIECE === 0) yield;
    }
    rest = rest.subarray(at);
  }
  if (rest.length > 0) throw new Error("the snapshot ends in the middle of a reservation");
  return yield* restoreLedger(reservations, nextId, { limits, queues, beneficiaries, pastUse });
}

/** Returns undefined if the field is incomplete. `value` is the length of an embedded message. */
function readField(bytes: Buffer, at: number): { tag: number; value: number; end: number } | undefined {
  const tag = bytes[at];
  if (tag === undefined) return undefined;
  if (!TAGS.includes(tag)) throw new Error(`the snapshot has a field of the unknown tag ${tag}`);
  let value = 0;
  for (let [next, scale] = [at + 1, 1]; ; next += 1, scale *= 128) {
    const byte = bytes[next];
    if (byte === undefined) return undefined;
    value += (byte % 128) * scale;
    if (byte >= 128) continue;
    const end = next + 1 + (tag === NEXT_ID_TAG ? 0 : value);
    return end > bytes.length ? undefined : { tag, value, end };
  }
}

/** Runs the steps and yields to the event loop every few milliseconds. */
async function inTurns<Result>(steps: Steps<Result>): Promise<Result> {
  for (let begin = performance.now(); ;) {
    const next = steps.next();
    if (next.done === true) return next.value;
    if (performance.now() - begin < TURN_MS) continue;
    await nextTurn();
    begin = performance.now();
  }
}
