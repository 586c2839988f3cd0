import {
  buildEndBytes,
  buildLegacyOrderBytes,
  buildOrderBytes,
  buildRenewalBytes,
  buildResultBytes,
  MAX_DURATION_NS,
  computeEndNs,
} from "@muster/leases";
import { digest, readSigner, verifySignature } from "@muster/leases/keys";
import fc from "fast-check";
import { expect, it } from "vitest";
import { makeLease } from "../../test/a-lease.ts";
import { buildLeaseDescription } from "./build-lease-views.ts";
import { buildLeaseRecord, readLeaseRecord } from "./lease-record.ts";
import type { Lease, SignedLease } from "../adapters/lease-messages.ts";
import { isProven, verifyLease } from "./verify-lease.ts";

const user = readSigner("user", "01".repeat(32));
const engine = readSigner("engine", "02".repeat(32));

/** Signs every part of a lease with the correct key. */
function signed(legacy = false): Lease {
  const { order: plain, ...lease } = makeLease();
  const order = { ...plain, user: user.userId, signatureFormat: legacy ? ("legacy" as const) : plain.signatureFormat };
  const { id, engine: served, type } = order;
  const own = { id, engine: served, user: user.userId };
  const renewal = { ...own, expiresAtNs: lease.expiresAtNs + 1n, sequence: 3 };
  const endRequest = { ...own, createdNs: order.createdNs + 5n };
  const result = { id, type, createdNs: order.createdNs + 1n, state: "ok" as const, message: "", data: '{"é":1}' };
  return {
    ...lease,
    expiresAtNs: renewal.expiresAtNs,
    order: { ...order, signature: user.sign(legacy ? buildLegacyOrderBytes(order) : buildOrderBytes(order)) },
    renewal: { ...renewal, signature: user.sign(buildRenewalBytes(renewal, order)) },
    endRequest: { ...endRequest, signature: user.sign(buildEndBytes(endRequest, order)) },
    result: { ...result, signature: engine.sign(buildResultBytes(result)) },
  };
}

/** Returns the record as a reader of the JSON parses it. */
function read(record: unknown): SignedLease {
  const found = readLeaseRecord(JSON.parse(JSON.stringify(record)));
  if (!found.ok) throw new Error(found.findings.map(({ path, message }) => `${path.join(".")}: ${message}`).join("\n"));
  return found.value;
}

const verdictsOf = (lease: SignedLease, key?: string): string[] =>
  verifyLease(lease, key, verifySignature).map(({ what, verdict }) => `${what} ${verdict}`);

const compactOf = (whole: Lease): Lease => ({
  ...whole,
  phase: "ENDED",
  order: { ...whole.order, data: "" },
  result: { ...whole.result!, data: "" },
  orderHash: digest(buildOrderBytes(whole.order)),
});

it("contains everything that is signed, so that every reader of the JSON can verify it", () => {
  const lease = read(buildLeaseRecord(signed()));
  expect(verdictsOf(lease, engine.userId)).toEqual([
    "order ok",
    "renewal ok",
    "end request ok",
    "result ok",
    "expires ok",
  ]);
  expect(verdictsOf(lease)).toContain("result unchecked");
  expect(verdictsOf(lease, user.userId)).toContain("result wrong");
  expect(verdictsOf(lease, "none")).toContain("result wrong");
  const legacy = verifyLease(read(buildLeaseRecord(signed(true))), undefined, verifySignature);
  expect(legacy[0]).toMatchObject({ verdict: "ok", why: expect.stringContaining("the original's form") as string });
});

it("reports which checks remain for a lease whose data are removed, and checks all once they are restored", () => {
  const whole = signed();
  const { order, result } = whole;
  const lease = read(buildLeaseRecord(compactOf(whole)));
  expect(lease.orderHash).toEqual(digest(buildOrderBytes(order)));
  expect(verdictsOf(lease, engine.userId)).toEqual([
    "order gone",
    "renewal ok",
    "end request ok",
    "result gone",
    "expires ok",
  ]);
  expect(verdictsOf({ ...lease, order, result }, engine.userId)).toEqual(verdictsOf(whole, engine.userId));
  expect(verdictsOf({ ...lease, order: { ...order, data: "{}" } })).toContain("order wrong");
  expect(verdictsOf({ ...lease, order: { ...order, data: "" }, orderHash: undefined })).toContain("order wrong");
  const message = buildLeaseDescription({ ...whole, ...lease }, 0).join("\n");
  expect(message).toMatch(/data +not kept, because it is over\n/);
});

it("proves no order without data, and no end of it unless a renewal states the end", () => {
  const compact = compactOf(signed());
  const proofs = (lease: SignedLease) => isProven(verifyLease(lease, engine.userId, verifySignature));
  expect(proofs(signed())).toBe(true);
  expect(proofs(compact)).toBe(false);
  expect(verdictsOf({ ...compact, renewal: undefined, expiresAtNs: computeEndNs(compact.order) })).toEqual([
    "order gone",
    "end request ok",
    "result unchecked",
    "expires unchecked",
  ]);
});

it.each<[what: string, alter: (compact: Lease) => Lease, wrong: string]>([
  ["is not finished", (lease) => ({ ...lease, phase: "ACTIVE" }), "order wrong"],
  [
    "has neither the data of its order nor their hash",
    (lease) => ({ ...lease, orderHash: new Uint8Array() }),
    "order wrong",
  ],
  ["is not finished", (lease) => ({ ...lease, phase: "ACTIVE" }), "result wrong"],
  [
    "failed, and the engine keeps its result",
    (lease) => ({ ...lease, phase: "FAILED", result: { ...lease.result!, state: "error" } }),
    "result wrong",
  ],
])("does not treat the data of a lease that %s as removed", (_what, alter, wrong) => {
  expect(verdictsOf(read(buildLeaseRecord(alter(compactOf(signed())))), engine.userId)).toContain(wrong);
});

it("keeps each nanosecond and byte of the signed content", () => {
  const text = fc.string({ unit: "grapheme" });
  const ns = fc.bigInt({ min: 0n, max: MAX_DURATION_NS });
  fc.assert(
    fc.property(
      text,
      ns,
      ns,
      fc.uint8Array(),
      fc.option(text, { nil: undefined }),
      (data, createdNs, durationNs, signature, reference) => {
        const lease = makeLease();
        const order = { ...lease.order, data, createdNs, durationNs, signature: new Uint8Array(signature), reference };
        const { phase, expiresAtNs, renewal, endRequest, result, orderHash } = lease;
        expect(read(buildLeaseRecord({ ...lease, order }))).toEqual({
          order,
          phase,
          expiresAtNs,
          renewal,
          endRequest,
          result,
          orderHash,
        });
      },
    ),
  );
});

it.each<[field: string, alter: (lease: Lease) => Lease, wrong: string]>([
  ["data", (lease) => ({ ...lease, order: { ...lease.order, data: "{}" } }), "order wrong"],
  ["duration", (lease) => ({ ...lease, order: { ...lease.order, durationNs: 1n } }), "order wrong"],
  ["time of its end", (lease) => ({ ...lease, expiresAtNs: lease.expiresAtNs + 1n }), "expires wrong"],
  ["renewal", (lease) => ({ ...lease, renewal: { ...lease.renewal!, sequence: 4 } }), "renewal wrong"],
  ["end request", (lease) => ({ ...lease, endRequest: { ...lease.endRequest!, createdNs: 1n } }), "end request wrong"],
  ["result", (lease) => ({ ...lease, result: { ...lease.result!, data: "1" } }), "result wrong"],
])("detects that the %s was altered", (_field, alter, wrong) => {
  expect(verdictsOf(read(buildLeaseRecord(alter(signed()))), engine.userId)).toContain(wrong);
});

it.each<[record: unknown, finding: string]>([
  [[], ": must be a mapping, not a list"],
  [{}, ": is no output of `muster lease get ID -o json`: it has no order"],
  [{ ...buildLeaseRecord(signed()), expiresAt: "soon" }, "expiresAt: must be a time such as 2030-01-31T12:00:00Z"],
  [{ ...buildLeaseRecord(signed()), renewal: 5 }, "renewal: must be a mapping, not the number 5"],
])("describes the problem of a file without a lease (%#)", (record, finding) => {
  const found = readLeaseRecord(record);
  const findings = found.ok ? [] : found.findings.map(({ path, message }) => `${path.join(".")}: ${message}`);
  expect(findings).toEqual([finding]);
});
