import { WIRE_CODE, type Fault } from "@muster/faults";
import { muster } from "@muster/proto";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  decodeFault,
  encodeFault,
  encodeMessage,
  toFaultFromWire,
  buildFaultOfCode,
  toWireFault,
  copyDefaults,
  tryDecode,
} from "./messages.ts";
import { findReplyFault, header, toReply, toFaultReply, parseTimeout } from "./wire-headers.ts";

const text = fc.string({ unit: "binary", maxLength: 40 }).filter((value) => value.isWellFormed());
const uint32 = fc.nat({ max: 2 ** 32 - 1 });
const uint64 = fc.maxSafeNat();

/** Has a generator for each variant: a missing one fails to compile. */
const variants: { [Code in Fault["code"]]: fc.Arbitrary<Extract<Fault, { code: Code }>> } = {
  invalid_request: fc.record({ code: fc.constant("invalid_request"), field: text, reason: text }),
  not_found: fc.record({ code: fc.constant("not_found"), kind: text, id: text }),
  already_exists: fc.record({ code: fc.constant("already_exists"), kind: text, id: text }),
  conflict: fc.record({
    code: fc.constant("conflict"),
    id: text,
    expectedRevision: uint64,
    actualRevision: uint64,
  }),
  pool_unknown: fc.record(
    { code: fc.constant("pool_unknown"), pool: text, known: fc.array(text, { minLength: 1 }) },
    { requiredKeys: ["code", "pool"] },
  ),
  pool_capacity: fc.record(
    {
      ...{ code: fc.constant("pool_capacity"), pool: text, requested: uint32, capacity: uint32 },
      short: fc.array(fc.record({ resource: text, requested: uint32, largest: uint32 }), { minLength: 1 }),
    },
    { requiredKeys: ["code", "pool", "requested", "capacity"] },
  ),
  pool_availability: fc.record({
    code: fc.constant("pool_availability"),
    pool: text,
    requested: uint32,
    available: uint32,
  }),
  queue_unknown: fc.record(
    { code: fc.constant("queue_unknown"), queue: text, known: fc.array(text, { minLength: 1 }) },
    { requiredKeys: ["code", "queue"] },
  ),
  quota_exceeded: fc.record({
    ...{ code: fc.constant("quota_exceeded"), queue: text, pool: text, resource: text },
    ...{ requested: uint64, most: uint64 },
  }),
  reservation_differs: fc.record({ code: fc.constant("reservation_differs"), ownerKind: text, ownerId: text }),
  limit_exceeded: fc.record({ code: fc.constant("limit_exceeded"), what: text, limit: uint64, retryAfterMs: uint64 }),
  unavailable: fc.record({ code: fc.constant("unavailable"), dependency: text, retryAfterMs: uint64 }),
  deadline_exceeded: fc.record({ code: fc.constant("deadline_exceeded"), operation: text, timeoutMs: uint64 }),
  cancelled: fc.record({ code: fc.constant("cancelled"), operation: text }),
  internal: fc.record({ code: fc.constant("internal"), operation: text }),
};

describe("faults on the wire", () => {
  it.each(Object.entries(variants))("are decoded as they were sent: %s", (_code, variant: fc.Arbitrary<Fault>) => {
    fc.assert(
      fc.property(variant, (fault) => {
        expect(decodeFault(encodeFault(fault), 0, "")).toEqual(fault);
        expect(findReplyFault(toFaultReply(fault))).toEqual(fault);
      }),
    );
  });

  it("carry the number, the stable word and a text for peers that know no detail", () => {
    const wire = toWireFault({ code: "pool_unknown", pool: "gpu" });
    expect(wire).toMatchObject({ code: 5, reason: "POOL_UNKNOWN", message: "pool gpu does not exist" });
  });

  it.each(Object.entries(WIRE_CODE))("with a detail of a newer peer keep number and text: %s", (_code, number) => {
    // Field 99 is a detail that this version does not have.
    const known = muster.common.v1.Fault.encode({ code: number, reason: "NEW_THING", message: "a new thing" }).finish();
    const bytes = Uint8Array.from([...known, 0x9a, 0x06, 0x02, 0x0a, 0x00]);
    const fault = decodeFault(bytes, number, "");
    // Pool faults share their number with simpler faults: only the number is kept.
    const plain = WIRE_CODE[fault.code] === number || (number === 9 && fault.code === "invalid_request");
    expect(plain).toBe(true);
    expect(Object.values(fault)).toContain("a new thing");
  });

  it("are internal when even the number is new", () => {
    const wire = muster.common.v1.Fault.create({ code: 77, message: "odd" });
    expect(toFaultFromWire(wire)).toEqual({ code: "internal", operation: "odd" });
  });

  it.each([
    [new Uint8Array(), "no body"],
    [new Uint8Array([0xff, 0xff]), "a body that is no fault"],
  ])("are read from the headers if the body is not from Muster", (payload) => {
    const headers = new Map([
      [header.errorCode, "5"],
      [header.errorText, "no such thing"],
    ]);
    expect(findReplyFault({ payload, headers })).toEqual({ code: "not_found", kind: "", id: "no such thing" });
  });

  it("are undefined if the reply has none", () => {
    expect(findReplyFault(toReply(new Uint8Array([1])))).toBeUndefined();
  });

  it("never break a header line", () => {
    const fault: Fault = { code: "invalid_request", field: "name", reason: "has\r\nX-Injected: 1" };
    expect(toFaultReply(fault).headers.get(header.errorText)).not.toMatch(/[\r\n]/);
  });
});

describe("the timeout header", () => {
  it.each([
    ["1500", 1500],
    ["0", 0],
    ["99999999999999", 2 ** 31 - 1],
    ["-5", 5000],
    ["soon", 5000],
    ["Infinity", 5000],
    [undefined, 5000],
  ])("%s gives %d ms", (value, expected) => {
    const headers = new Map(value === undefined ? [] : [[header.timeout, value]]);
    expect(parseTimeout(headers, 5000)).toBe(expected);
  });
});

it.each<[number, Fault]>([
  [1, { code: "cancelled", operation: "text" }],
  [3, { code: "invalid_request", field: "some_reason", reason: "text" }],
  [4, { code: "deadline_exceeded", operation: "text", timeoutMs: 0 }],
  [5, { code: "not_found", kind: "some_reason", id: "text" }],
  [6, { code: "already_exists", kind: "some_reason", id: "text" }],
  [8, { code: "limit_exceeded", what: "text", limit: 0, retryAfterMs: 0 }],
  [9, { code: "invalid_request", field: "some_reason", reason: "text" }],
  [10, { code: "conflict", id: "text", expectedRevision: 0, actualRevision: 0 }],
  [11, { code: "invalid_request", field: "some_reason", reason: "text" }],
  [14, { code: "unavailable", dependency: "text", retryAfterMs: 0 }],
  [13, { code: "internal", operation: "text" }],
])("the status number %d has a plain fault", (code, fault) => {
  expect(buildFaultOfCode(code, "SOME_REASON", "text")).toEqual(fault);
});

it("a status number without a text is described by its reason, and without one by itself", () => {
  expect(buildFaultOfCode(1, "REASON", "")).toEqual({ code: "cancelled", operation: "REASON" });
  expect(buildFaultOfCode(1, "", "")).toEqual({ code: "cancelled", operation: "status 1" });
});

it("a decoded message equals the encoded one, and has its defaults as own properties after copyDefaults", () => {
  const { Fault: WireFault } = muster.common.v1;
  const bytes = encodeMessage(WireFault, { code: 5, notFound: { kind: "pod" } });
  const decoded = tryDecode(WireFault, bytes);
  expect(decoded).toMatchObject({ code: 5, notFound: { kind: "pod", id: "" } });
  expect({ ...decoded }).not.toHaveProperty("reason");
  copyDefaults(decoded!);
  const own = { ...decoded, notFound: { ...decoded?.notFound } };
  expect(own).toMatchObject({ code: 5, reason: "", message: "", notFound: { kind: "pod", id: "" } });
  expect(Object.values(own).some((value) => typeof value === "function")).toBe(false);
});
