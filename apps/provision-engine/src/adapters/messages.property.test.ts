import { MAX_DURATION_NS } from "@muster/leases";
import { toEnd, toOrder, toRenewal, toWireOrder } from "@muster/leases/wire";
import { muster } from "@muster/proto";
import fc from "fast-check";
import { expect, it } from "vitest";
import { makeLeaseRecord } from "../../test/a-lease.ts";
import type { LeaseRecord } from "../domain/lease.ts";
import { withEvent } from "../domain/lease-change.ts";
import { recordCodec } from "./messages.ts";

const text = fc.string({ unit: "grapheme", maxLength: 8 });
const time = fc.bigInt({ min: -62_135_596_800_000_000_000n, max: 2n * MAX_DURATION_NS });
const count = fc.nat({ max: 2 ** 31 - 1 });
const large = fc.nat({ max: Number.MAX_SAFE_INTEGER });
const bytes = fc.uint8Array({ maxLength: 64 });
const part = { id: text, engine: text, user: text, signature: bytes };
const maybe = <Value>(value: fc.Arbitrary<Value>) => fc.option(value, { nil: undefined });

const order = fc.record({
  ...part,
  type: text,
  data: text,
  createdNs: time,
  durationNs: fc.bigInt({ min: -MAX_DURATION_NS, max: MAX_DURATION_NS }),
  reference: maybe(text.filter((each) => each !== "")),
  version: count,
  signatureFormat: fc.constantFrom("muster-lease-v1", "legacy"),
});
const record = fc.record({
  order,
  source: text,
  phase: fc.constantFrom("ORDERED", "PROVISIONING", "ACTIVE", "DECOMMISSIONING", "ENDED", "FAILED"),
  run: count,
  result: maybe(
    fc.record({
      id: text,
      type: text,
      createdNs: time,
      state: fc.constantFrom("error", "ok", "deleted"),
      message: text,
      data: text,
      signature: bytes,
    }),
  ),
  expiresAtNs: time,
  renewal: maybe(fc.record({ ...part, expiresAtNs: time, sequence: large })),
  ending: maybe(
    fc.record({
      cause: fc.constantFrom("EXPIRED", "REQUESTED", "WITHDRAWN", "CRASHED", "PROVISION_FAILED", "MIGRATED"),
      message: text,
      atNs: time,
      request: maybe(fc.record({ ...part, createdNs: time })),
    }),
  ),
  attempts: count,
  notBeforeNs: time,
  trouble: text,
  feedback: fc.record({
    result: fc.boolean(),
    deleted: fc.boolean(),
    number: large,
    attempts: count,
    refusals: count,
    repeats: count,
    notBeforeNs: time,
  }),
  outbox: fc.array(
    fc.record({
      id: text,
      lease: text,
      eventType: fc.constantFrom(
        "ORDERED",
        "PROVISIONED",
        "RESENT",
        "RENEWED",
        "ENDING",
        "DECOMMISSIONED",
        "FAILED",
        "ANSWER_REFUSED",
        "DELAYED",
        "TROUBLED",
        "RESTORED",
        "MIGRATED",
        "STUCK",
      ),
      message: text,
      atNs: time,
      traceparent: text,
    }),
    { maxLength: 3 },
  ),
  events: large,
  endedAtNs: maybe(time),
  fence: large,
  requestId: text,
  traceparent: text,
  crashes: maybe(
    fc.record({
      sinceNs: time,
      exits: count,
      pods: fc.array(fc.record({ pod: text, exits: count, lastNs: time }), { maxLength: 3 }),
    }),
  ),
  takesOver: maybe(fc.string({ minLength: 1 })),
  madeFor: maybe(fc.record({ id: text, run: count })),
  heir: maybe(fc.string({ minLength: 1 })),
  orderHash: maybe(fc.uint8Array({ minLength: 32, maxLength: 32 })),
}) satisfies fc.Arbitrary<LeaseRecord>;

/** Converts bytes to numbers: decoded bytes are a Buffer, which does not equal a Uint8Array. */
const plain = (value: unknown): unknown =>
  value instanceof Uint8Array
    ? [...value]
    : Array.isArray(value)
      ? value.map(plain)
      : typeof value === "object" && value !== null
        ? Object.fromEntries(Object.entries(value).map(([name, field]) => [name, plain(field)]))
        : value;

it("decodes a record to its original, to the nanosecond", () => {
  fc.assert(
    fc.property(record, (each) => {
      expect(plain(recordCodec.decode(recordCodec.encode(each)))).toEqual(plain({ record: each }));
    }),
  );
});

const { EndRequest, LeaseRecord: Message, Order, Renewal } = muster.provision.v1;

it("reads the data of an order byte for byte, and refuses data that are not text", () => {
  const bytesOf = (data: Uint8Array) => toOrder(Order.create({ data })).data;
  const json = new TextEncoder().encode('\uFEFF{"a": "é"}');
  expect([...new TextEncoder().encode(bytesOf(json))]).toEqual([...json]);
  expect(() => bytesOf(new Uint8Array([0x22, 0xff, 0x22]))).toThrow();
});

it("reads fields that a message lacks as empty", () => {
  expect(toOrder(Order.create())).toMatchObject({
    id: "",
    user: "",
    data: "",
    createdNs: 0n,
    durationNs: 0n,
    reference: undefined,
  });
  expect(toRenewal(Renewal.create())).toMatchObject({ id: "", expiresAtNs: 0n, sequence: 0 });
  expect(toEnd(EndRequest.create())).toMatchObject({ id: "", createdNs: 0n });
});

const feedback = {};
const ordered = toWireOrder(makeLeaseRecord().order);

it.each([
  ["it has no order", { feedback }],
  ["it has no feedback state", { order: ordered }],
  ["0 is no phase that this version knows", { order: ordered, feedback }],
  ["9 is no phase that this version knows", { order: ordered, feedback, phase: 9 }],
  ['"" is no cause of an end that this version knows', { order: ordered, feedback, phase: 1, ending: {} }],
  ["9 is no state of a result that this version knows", { order: ordered, feedback, phase: 1, result: { state: 9 } }],
])("reports %s instead of misreading a record", (unreadable, message) => {
  expect(recordCodec.decode(Message.encode(message).finish())).toEqual({ unreadable });
});

it("reads and keeps an event that only another version knows", () => {
  const [known] = withEvent(makeLeaseRecord(), "ORDERED", "", 1n).outbox;
  const later = { ...makeLeaseRecord(), outbox: [{ ...known, eventType: "FROZEN" }] } as LeaseRecord;
  expect(recordCodec.decode(recordCodec.encode(later))).toMatchObject({ record: { outbox: later.outbox } });
});
