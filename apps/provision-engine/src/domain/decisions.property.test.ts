import type { Order } from "@muster/leases";
import { digest, readSigner } from "@muster/leases/keys";
import fc from "fast-check";
import { expect, it } from "vitest";
import { openLeaseRegistry } from "../holdings/lease-registry.ts";
import { makeLeaseRecord, makeOrder } from "../../test/a-lease.ts";
import { decideOrder, type OrderVerdict } from "./decide-order.ts";
import { decidePolled, type PolledVerdict } from "./decide-polled.ts";
import { decideDecommission } from "./decide-admission.ts";
import { decideEnd, decideRenewal, decideWithdrawal, type RequestVerdict } from "./decide-request.ts";
import { mayHoldResources, type LeaseRecord, type LeasePhase } from "./lease.ts";
import { transitionLease } from "./transition-lease.ts";

const PHASES: readonly LeasePhase[] = ["ORDERED", "PROVISIONING", "ACTIVE", "DECOMMISSIONING", "ENDED", "FAILED"];
const POLICY = {
  engine: "main",
  verifySignatures: true,
  legacySignatures: false,
  unsealedSecrets: true,
  maxOrderAgeNs: 5_000n,
  maxListedAgeNs: 5_000n,
};
const signature = new Uint8Array(64);
const USER = readSigner("user", "01".repeat(32)).userId;
const OTHER = readSigner("other", "02".repeat(32)).userId;

const aWish = fc.record({
  kind: fc.constantFrom("order" as const, "renewal" as const, "end" as const, "withdrawal" as const),
  user: fc.constantFrom(USER, OTHER),
  isSigned: fc.boolean(),
  source: fc.constantFrom("nats", "http"),
  sequence: fc.nat({ max: 3 }),
  expiresAtNs: fc.bigInt({ min: 0n, max: 3_000n }),
});
const aRecord = fc
  .record({
    phase: fc.constantFrom(...PHASES),
    expiresAtNs: fc.bigInt({ min: 1n, max: 2_000n }),
    sequence: fc.nat({ max: 2 }),
  })
  .map(({ phase, expiresAtNs, sequence }) => {
    const order = { user: USER, createdNs: 100n, durationNs: 900n };
    const renewal = { id: "1-1", engine: "main", user: USER, expiresAtNs, sequence, signature };
    return makeLeaseRecord({ phase, order, expiresAtNs, renewal: sequence === 0 ? undefined : renewal });
  });

type Wish = typeof aWish extends fc.Arbitrary<infer Value> ? Value : never;

function decide(wish: Wish, stored: LeaseRecord | undefined, nowNs: bigint): RequestVerdict | OrderVerdict {
  const { kind, user, isSigned, source, sequence, expiresAtNs } = wish;
  const own = { id: "1-1", engine: "main", user, signature };
  const verify = (): boolean => isSigned;
  switch (kind) {
    case "order": {
      const order = makeOrder({ user, createdNs: 100n, durationNs: 900n });
      return decideOrder(order, stored, { nowNs, verify, digest, source, requestId: "", traceparent: "" }, POLICY);
    }
    case "renewal":
      return decideRenewal({ ...own, expiresAtNs, sequence }, stored, { nowNs, verify }, POLICY);
    case "end":
      return decideEnd({ ...own, createdNs: nowNs }, stored, { nowNs, verify }, POLICY);
    case "withdrawal":
      return decideWithdrawal("1-1", source, stored);
  }
}

it("changes a lease only for its own user or source, never shortens its time, and never restarts an ended one", () => {
  fc.assert(
    fc.property(aRecord, fc.array(aWish, { maxLength: 8 }), (first, wishes) => {
      let record = first;
      for (const wish of wishes) {
        const verdict = decide(wish, record, 500n);
        expect(verdict.kind).not.toBe("create");
        if (verdict.kind !== "change") continue;
        if (wish.kind === "withdrawal") expect(wish.source).toBe(record.source);
        else expect([wish.isSigned, wish.user]).toEqual([true, record.order.user]);
        const next = transitionLease(record, verdict.change, 500n).next ?? record;
        expect(next.expiresAtNs).toBeGreaterThanOrEqual(record.expiresAtNs);
        expect(next.renewal?.sequence ?? 0).toBeGreaterThanOrEqual(record.renewal?.sequence ?? 0);
        if (record.phase === "ENDED") expect(next.phase).toBe("ENDED");
        // A repeated request has no further effect.
        const again = decide(wish, next, 500n);
        const twice = again.kind === "change" ? transitionLease(next, again.change, 500n).next : undefined;
        expect((twice ?? next).phase).toBe(next.phase);
        expect((twice ?? next).expiresAtNs).toBe(next.expiresAtNs);
        record = next;
      }
    }),
  );
});

it("creates a lease only from an order that is signed and not over", () => {
  fc.assert(
    fc.property(aWish, fc.bigInt({ min: 0n, max: 2_000n }), (wish, nowNs) => {
      const verdict = decide(wish, undefined, nowNs);
      const isTaken = wish.kind === "order" && wish.isSigned && nowNs <= 1_000n;
      expect(verdict.kind).toBe(isTaken ? "create" : "refuse");
    }),
  );
});

it("does nothing for a controller that has the result", () => {
  const news = fc.record({ source: fc.constant("nats"), withdrawn: fc.boolean(), isAnswered: fc.boolean() });
  fc.assert(
    fc.property(fc.option(aRecord, { nil: undefined }), news, (stored, listed) => {
      let record = stored;
      const asked: PolledVerdict["kind"][] = [];
      for (let polls = 0; polls < 4; polls += 1) {
        const verdict = decidePolled({ ...listed, isAnswered: listed.isAnswered || polls > 0 }, record);
        asked.push(verdict.kind);
        if (verdict.kind === "withdraw" && record !== undefined) {
          const wished = decideWithdrawal("1-1", listed.source, record);
          if (wished.kind === "change") record = transitionLease(record, wished.change, 500n).next ?? record;
        }
        if (verdict.kind === "order") record ??= makeLeaseRecord({ phase: "ORDERED" });
        expect(verdict.kind === "order" && listed.withdrawn).toBe(false);
        expect(verdict.kind === "report-deleted" && record !== undefined).toBe(false);
      }
      if (!listed.withdrawn) expect(asked.slice(1)).toEqual(["nothing", "nothing", "nothing"]);
    }),
  );
});

it("keeps a network or a volume for exactly those leases of its user that may use it", () => {
  const other = fc.record({
    id: fc.constantFrom("2-1", "2-2", "2-3"),
    user: fc.constantFrom("user", "other"),
    phase: fc.constantFrom(...PHASES),
    network: fc.constantFrom("net", "web"),
    mounts: fc.subarray(["1-1", "1-9"]),
  });
  const asLease = ({
    id,
    user,
    phase,
    network,
    mounts,
  }: typeof other extends fc.Arbitrary<infer Value> ? Value : never) =>
    makeLeaseRecord({
      phase,
      order: {
        id,
        user,
        type: "container",
        data: JSON.stringify({
          image: "i",
          network,
          capacity: { cpu: 1, memory: 1024 },
          mounts: mounts.map((volume_id) => ({ volume_id, mountpoint: `/${volume_id}` })),
        }),
      },
    });
  const volume: Order = makeOrder({ id: "1-1", type: "volume", data: '{"size":1,"type":"ssd","network":"net"}' });
  const network: Order = makeOrder({ id: "1-2", type: "network", data: '{"name":"net"}' });
  fc.assert(
    fc.property(fc.uniqueArray(other, { selector: ({ id }) => id }), (others) => {
      const leases = others.map(asLease);
      const there = others.filter(({ user, phase }) => user === "user" && mayHoldResources(phase));
      const expected = (held: boolean): string => (held ? "later" : "yes");
      for (const all of [leases, leases.toReversed()]) {
        const holdings = openLeaseRegistry({}, {});
        for (const record of all) holdings.learn({ record, revision: 1 });
        expect(decideDecommission(holdings.around(volume)).kind).toBe(
          expected(there.some(({ mounts }) => mounts.includes("1-1"))),
        );
        expect(decideDecommission(holdings.around(network)).kind).toBe(
          expected(there.some((each) => each.network === "net")),
        );
      }
    }),
  );
});
