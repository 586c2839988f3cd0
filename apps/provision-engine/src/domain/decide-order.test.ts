import {
  buildEndBytes,
  buildLegacyOrderBytes,
  buildOrderBytes,
  buildRenewalBytes,
  MAX_DURATION_NS,
  computeEndNs,
  type EndRequest,
  type Order,
  SEALED_PREFIX,
  type Renewal,
} from "@muster/leases";
import { digest, readSigner, type Signer, verifySignature } from "@muster/leases/keys";
import { MAX_DATA_BYTES } from "@muster/leases/data";
import { describe, expect, it } from "vitest";
import { makeLeaseRecord, makeOrder } from "../../test/a-lease.ts";
import { decideOrder, MAX_CLOCK_SKEW_NS, type OrderPolicy, type OrderVerdict } from "./decide-order.ts";
import { decideEnd, decideRenewal, decideWithdrawal, type RequestVerdict } from "./decide-request.ts";
import type { LeaseRecord, LeasePhase } from "./lease.ts";
import { hashOrder } from "./signed-content.ts";
import { transitionLease } from "./transition-lease.ts";

const user = readSigner("user", "01".repeat(32));
const other = readSigner("other", "02".repeat(32));
const POLICY: OrderPolicy = {
  engine: "main",
  verifySignatures: true,
  legacySignatures: false,
  unsealedSecrets: false,
  maxOrderAgeNs: 5_000_000_000n,
  maxListedAgeNs: 8_000_000_000n,
};
const NOW = 10_000_000_000n;
const CONTEXT = { nowNs: NOW, verify: verifySignature, digest, source: "nats", requestId: "r", traceparent: "t" };

function signedOrder(changes: Partial<Order> = {}, by: Signer = user): Order {
  const order = makeOrder({ user: user.userId, createdNs: NOW, durationNs: 1_000_000_000n, ...changes });
  return { ...order, signature: by.sign(buildOrderBytes(order)) };
}
const decide = (order: Order, stored?: LeaseRecord, policy: Partial<OrderPolicy> = {}): OrderVerdict =>
  decideOrder(order, stored, CONTEXT, { ...POLICY, ...policy });
const refused = (field: string, reason: unknown, answer: "nothing" | "error" | "deleted" = "nothing") => ({
  kind: "refuse",
  fault: { code: "invalid_request", field, reason },
  answer,
  because: "invalid_request",
});
const FORGED = "does not match this user and content: the content was altered, or another key signed it";

describe("an order", () => {
  it("that is new creates a lease with an event", () => {
    const order = signedOrder();
    const verdict = decide(order);
    expect(verdict).toMatchObject({ kind: "create", record: { order, phase: "ORDERED", run: 1, source: "nats" } });
    expect(verdict).toMatchObject({ record: { expiresAtNs: computeEndNs(order), requestId: "r", traceparent: "t" } });
    expect(verdict).toMatchObject({
      record: { outbox: [{ id: `1-1.${order.createdNs}.1`, eventType: "ORDERED", atNs: NOW }] },
    });
  });

  it("of an unknown type or with wrong data is accepted, so that it gets an answer", () => {
    expect(decide(signedOrder({ type: "public_ip", data: "" })).kind).toBe("create");
  });

  it("that never ends is accepted", () => {
    expect(decide(signedOrder({ durationNs: MAX_DURATION_NS })).kind).toBe("create");
  });

  const altered: readonly [keyof Order, Partial<Order>][] = [
    ["id", { id: "1-2" }],
    ["type", { type: "volume" }],
    ["data", { data: "{} " }],
    ["createdNs", { createdNs: NOW + 1n }],
    ["durationNs", { durationNs: 1_000_000_001n }],
    ["reference", { reference: "1-0" }],
    ["version", { version: 1 }],
  ];
  it.each(altered)("whose %s was altered is refused without an answer", (_field, changes) => {
    expect(decide({ ...signedOrder(), ...changes })).toEqual(refused("signature", FORGED));
  });

  it.each<[string, Order, ReturnType<typeof refused>]>([
    ["that another key signed", signedOrder({}, other), refused("signature", FORGED)],
    ["in the name of another user", { ...signedOrder(), user: other.userId }, refused("signature", FORGED)],
    ["without a signature", { ...signedOrder(), signature: new Uint8Array() }, refused("signature", "is missing")],
    [
      "of a user without a key",
      signedOrder({ user: "12" }),
      refused("user", '"12" is not a user id: base58 of a public key of 32 bytes is needed'),
    ],
    ["for another engine", signedOrder({ engine: "x" }), refused("engine", '"x" is not this one, which is "main"')],
    ["without an id", signedOrder({ id: "a" }), refused("id", '"a" has no hyphen: <number>-<number> is needed')],
    ["without a type", signedOrder({ type: "" }), refused("type", '"" is not the name of a type')],
    [
      "with too much data",
      signedOrder({ data: "x".repeat(MAX_DATA_BYTES + 1) }),
      refused("data", "is larger than 65536 bytes"),
    ],
    ["without a duration", signedOrder({ durationNs: 0n }), refused("duration", "is not above zero")],
    ["of a negative duration", signedOrder({ durationNs: -1n }), refused("duration", "is not above zero")],
    [
      "of a duration above the maximum",
      signedOrder({ durationNs: MAX_DURATION_NS + 1n }),
      refused("duration", "is above the maximum of 2^63 - 1 ns"),
    ],
    ["without a time", signedOrder({ createdNs: 0n }), refused("created", "is missing")],
    [
      "that is over",
      signedOrder({ createdNs: 1n, durationNs: 1n }),
      refused("duration", "ended 9s999ms ago", "deleted"),
    ],
    [
      "created too far in the future",
      signedOrder({ createdNs: NOW + MAX_CLOCK_SKEW_NS + 1n }),
      refused("created", "is 5m ahead; 5m are tolerated", "error"),
    ],
  ])("%s is refused with the reason", (_title, order, verdict) => {
    expect(decide(order)).toEqual(verdict);
  });

  it("that is unknown is too old after a while, which is longer for a controller", () => {
    const old = (ageNs: bigint) => signedOrder({ createdNs: NOW - ageNs, durationNs: MAX_DURATION_NS });
    expect(decide(old(5_000_000_000n)).kind).toBe("create");
    const older = old(5_000_000_001n);
    const reason = "is 5s ago, and orders older than 5s are not accepted (PROVISION_ORDER_AGE_MS); sign a new one";
    expect(decide(older)).toEqual(refused("created", reason, "deleted"));
    const listed = (order: Order) => decideOrder(order, undefined, { ...CONTEXT, source: "http" }, POLICY);
    expect(listed(older).kind).toBe("create");
    expect(listed(old(8_000_000_000n)).kind).toBe("create");
    const tooOld = "is 8s ago, and orders older than 8s are not accepted (PROVISION_LISTED_AGE_MS); sign a new one";
    expect(listed(old(8_000_000_001n))).toEqual(refused("created", tooOld, "deleted"));
    expect(decide(older, makeLeaseRecord({ order: older }))).toMatchObject({
      kind: "change",
      change: { kind: "resent" },
    });
  });

  it("is valid until exactly its end, and as far ahead as the clock skew allows", () => {
    expect(decide(signedOrder({ createdNs: NOW - 1_000_000_000n })).kind).toBe("create");
    expect(decide(signedOrder({ createdNs: NOW + MAX_CLOCK_SKEW_NS })).kind).toBe("create");
  });

  it("with a plain secret is refused, unless that is allowed or its lease exists", () => {
    const open = signedOrder({ type: "zdb", data: '{"size":1,"password":"hush"}' });
    const reason = "is not sealed to this engine: any client that may get leases could read it";
    expect(decide(open)).toEqual(refused("data.password", reason, "error"));
    const torn = signedOrder({ type: "zdb", data: '{"size":1,"password":"hush",}' });
    const unreadable = "is not JSON, so its secrets cannot be found, and are not stored";
    expect(decide(torn)).toEqual(refused("data", unreadable, "error"));
    expect(decide(open, undefined, { unsealedSecrets: true }).kind).toBe("create");
    expect(decide(open, makeLeaseRecord({ order: open })).kind).toBe("change");
    expect(decide(signedOrder({ type: "zdb", data: `{"password":"${SEALED_PREFIX}x"}` })).kind).toBe("create");
  });

  it("that is repeated, even after its end, only has its answer sent again", () => {
    const order = signedOrder({ createdNs: 1n, durationNs: 1n });
    for (const phase of ["ACTIVE", "ENDED", "FAILED"] as const)
      expect(decide(order, makeLeaseRecord({ phase, order }))).toMatchObject({
        kind: "change",
        change: { kind: "resent" },
      });
  });

  it("whose data are no longer stored is recognised by every byte, and restores them", () => {
    const order = signedOrder({ data: '{"say":"hello"}' });
    const over = makeLeaseRecord({ phase: "FAILED", order });
    const { next } = transitionLease(over, { kind: "compacted", orderHash: hashOrder(order, digest) }, NOW);
    expect(next?.order.data).toBe("");
    const verdict = decide(order, next);
    expect(verdict).toEqual({
      kind: "change",
      change: { kind: "resent", data: order.data },
      because: "lease-exists",
    });
    const exists = { kind: "refuse", fault: { code: "already_exists", kind: "lease", id: "1-1" } };
    expect(decide(signedOrder({ data: '{"say":"hullo"}' }), next)).toMatchObject(exists);
    expect(decide(signedOrder({ data: "" }), next)).toMatchObject(exists);
  });

  it("with the id of another one does not change that one", () => {
    const exists = { kind: "refuse", fault: { code: "already_exists", kind: "lease", id: "1-1" }, answer: "nothing" };
    expect(decide(signedOrder({ data: "[]" }), makeLeaseRecord({ order: signedOrder() }))).toMatchObject(exists);
    const foreign = signedOrder({ user: other.userId }, other);
    expect(decide(foreign, makeLeaseRecord({ order: signedOrder() }))).toMatchObject(exists);
  });

  it("is accepted unsigned only if signatures are not verified", () => {
    expect(decide(makeOrder({ createdNs: NOW, user: "12" }), undefined, { verifySignatures: false }).kind).toBe(
      "create",
    );
  });

  it("with a legacy signature is accepted only if that is allowed", () => {
    const order = makeOrder({ createdNs: NOW, user: user.userId, signatureFormat: "legacy" });
    const legacy = { ...order, signature: user.sign(buildLegacyOrderBytes(order)) };
    const reason = "legacy is not accepted here: it does not cover id, time and duration";
    expect(decide(legacy)).toEqual(refused("signature_format", reason));
    expect(decide(legacy, undefined, { legacySignatures: true }).kind).toBe("create");
    const asNew: Order = { ...legacy, signatureFormat: "muster-lease-v1" };
    expect(decide(asNew, undefined, { legacySignatures: true })).toEqual(refused("signature", FORGED));
  });
});

const lease = (changes: Partial<LeaseRecord> = {}): LeaseRecord =>
  makeLeaseRecord({ order: signedOrder(), ...changes });
const END = computeEndNs(signedOrder());

function aRenewal(changes: Partial<Renewal> = {}, by: Signer = user): Renewal {
  const wish = { id: "1-1", engine: "main", user: by.userId, expiresAtNs: END + 5n, sequence: 1, ...changes };
  return { ...wish, signature: by.sign(buildRenewalBytes(wish, { createdNs: NOW })) };
}
const renew = (renewal: Renewal, stored: LeaseRecord | undefined = lease()): RequestVerdict =>
  decideRenewal(renewal, stored, CONTEXT, POLICY);
const notFound = {
  kind: "refuse",
  fault: { code: "not_found", kind: "lease", id: "1-1" },
  because: "not_found",
};
const wrong = (field: string, reason: string) => ({
  kind: "refuse",
  fault: { code: "invalid_request", field, reason },
  because: "invalid_request",
});

describe("a renewal", () => {
  it("of its own user gives a lease more time", () => {
    const renewal = aRenewal();
    expect(renew(renewal)).toMatchObject({ kind: "change", change: { kind: "renewed", renewal } });
  });

  it("that is already applied changes nothing", () => {
    expect(renew(aRenewal(), lease({ renewal: aRenewal(), expiresAtNs: END + 5n }))).toMatchObject({ kind: "nothing" });
  });

  it.each<[string, Renewal, LeaseRecord | undefined, object]>([
    [
      "of an older sequence",
      aRenewal(),
      lease({ renewal: aRenewal({ sequence: 3 }) }),
      wrong("sequence", "1 is not above 3, the last one"),
    ],
    ["of sequence 0", aRenewal({ sequence: 0 }), lease(), wrong("sequence", "0 is not above 0, the last one")],
    [
      "that does not extend the lease",
      aRenewal({ expiresAtNs: END }),
      lease(),
      wrong("expires_at", "is not after the present end of the lease"),
    ],
    [
      "beyond all",
      aRenewal({ expiresAtNs: NOW + MAX_DURATION_NS + 1n }),
      lease(),
      wrong("expires_at", "is beyond the maximum duration"),
    ],
    ["of a lease that is over", aRenewal(), lease({ expiresAtNs: NOW - 1n }), wrong("id", "lease 1-1 is over")],
    [
      "of a lease that ends",
      aRenewal(),
      lease({ phase: "DECOMMISSIONING", ending: { cause: "CRASHED", message: "", request: undefined, atNs: NOW } }),
      wrong("id", "lease 1-1 is being taken down (CRASHED)"),
    ],
    ["of a lease that has failed", aRenewal(), lease({ phase: "FAILED" }), wrong("id", "lease 1-1 has failed")],
    ["that was altered", { ...aRenewal(), expiresAtNs: END + 6n }, lease(), wrong("signature", FORGED)],
    [
      "of an earlier lease of the id",
      aRenewal(),
      lease({ order: signedOrder({ createdNs: NOW - 1n }) }),
      wrong("signature", FORGED),
    ],
    ["for another engine", aRenewal({ engine: "x" }), lease(), wrong("engine", '"x" is not this one, which is "main"')],
    ["by another user", aRenewal({}, other), lease(), notFound],
    ["of no lease", aRenewal(), undefined, notFound],
  ])("%s is refused", (_title, renewal, stored, verdict) => {
    expect(decideRenewal(renewal, stored, CONTEXT, POLICY)).toEqual(verdict);
  });
});

describe("an end", () => {
  const anEnd = (changes: Partial<EndRequest> = {}, by: Signer = user): EndRequest => {
    const wish = { id: "1-1", engine: "main", user: by.userId, createdNs: NOW, ...changes };
    return { ...wish, signature: by.sign(buildEndBytes(wish, { createdNs: NOW })) };
  };
  const end = (request: EndRequest, stored?: LeaseRecord): RequestVerdict =>
    decideEnd(request, stored, CONTEXT, POLICY);

  it("of its own user ends a lease, and changes nothing once it has ended", () => {
    const request = anEnd();
    const ending = { cause: "REQUESTED", message: "", request };
    expect(end(request, lease())).toMatchObject({ kind: "change", change: { kind: "ending", ending } });
    expect(end(request, lease({ phase: "ENDED" }))).toMatchObject({ kind: "nothing" });
  });

  it("is refused for another order of the id, before its order, and too far ahead", () => {
    const later = lease({ order: signedOrder({ createdNs: NOW + 1n }) });
    expect(end(anEnd(), later)).toEqual(wrong("signature", FORGED));
    const at = (createdNs: bigint) => end(anEnd({ createdNs }), lease());
    expect(at(NOW - MAX_CLOCK_SKEW_NS)).toMatchObject({ kind: "change" });
    expect(at(NOW - MAX_CLOCK_SKEW_NS - 1n)).toEqual(wrong("created", "is before its order"));
    expect(at(NOW + MAX_CLOCK_SKEW_NS)).toMatchObject({ kind: "change" });
    expect(at(NOW + MAX_CLOCK_SKEW_NS + 1n)).toEqual(wrong("created", "is more than 5 minutes ahead"));
  });

  it("is refused from any other user, and with a signature for something else", () => {
    expect(end(anEnd({}, other), lease())).toEqual(notFound);
    expect(end(anEnd())).toEqual(notFound);
    expect(end({ ...anEnd(), signature: aRenewal().signature }, lease())).toEqual(wrong("signature", FORGED));
    expect(end({ ...anEnd(), signature: signedOrder().signature }, lease())).toEqual(wrong("signature", FORGED));
  });
});

describe("a withdrawal", () => {
  it.each<[LeasePhase, string]>([
    ["ACTIVE", "ending"],
    ["ORDERED", "ending"],
    ["FAILED", "ending"],
    ["ENDED", "resent"],
  ])("by the source of a lease that is %s: %s", (phase, kind) => {
    expect(decideWithdrawal("1-1", "nats", lease({ phase }))).toMatchObject({ kind: "change", change: { kind } });
  });

  it("by another source, or of no lease, changes nothing", () => {
    expect(decideWithdrawal("1-1", "http", lease())).toEqual(wrong("id", "lease 1-1 came from nats, not from http"));
    expect(decideWithdrawal("1-1", "http", undefined)).toEqual(notFound);
  });
});
