import { expect, it } from "vitest";
import { FaultError } from "@muster/faults";
import { muster } from "@muster/proto";
import { makeLeaseRecord } from "../../test/a-lease.ts";
import type { LeaseRecord } from "../domain/lease.ts";
import { openLeaseRegistry } from "../holdings/lease-registry.ts";
import { toWireLease, explainAnswer, type LeaseExplainCalls } from "./lease-message.ts";

const NETWORK = { id: "1-1", type: "network", data: '{"name":"home"}' };

function reported(network: Partial<Omit<LeaseRecord, "order">>, users: readonly string[] = []) {
  const holdings = openLeaseRegistry({}, {});
  const record = makeLeaseRecord({ order: NETWORK, phase: "DECOMMISSIONING", ...network });
  holdings.learn({ record, revision: 1 });
  for (const id of users) {
    const order = { id, type: "volume", data: '{"size":1,"type":"ssd","network":"home"}' };
    holdings.learn({ record: makeLeaseRecord({ order, phase: "ACTIVE", expiresAtNs: 7_000_000_001n }), revision: 1 });
  }
  return toWireLease({ holdings, nowNs: () => 0n }, { record, revision: 1 });
}

it("lists the leases that block the end of a network, with their ends, and is not stuck", () => {
  const message = reported({}, ["1-2", "1-3", "1-4", "1-5", "1-6", "1-7"]);
  expect(message.waitingBecause).toBe("it is in use by 1-2, 1-3, 1-4, 1-5, 1-6 and 1 more");
  expect(message).toMatchObject({ stuck: false, usedByCount: 6 });
  expect(message.usedBy).toHaveLength(5);
  expect(message.usedBy?.[0]).toMatchObject({ id: "1-2", type: "volume", expiresAt: { seconds: 7, nanos: 1 } });
});

it.each<[what: string, record: Partial<Omit<LeaseRecord, "order">>, stuck: boolean, because: string]>([
  ["is being removed", {}, false, ""],
  ["is not removed at the first attempt", { attempts: 1, trouble: "away" }, false, "away"],
  ["cannot be removed", { attempts: 10, trouble: "away" }, true, "away"],
  ["is active, and in use", { phase: "ACTIVE", expiresAtNs: 1n }, false, ""],
])("shows for a lease that %s whether it needs the operator", (_what, record, stuck, waitingBecause) => {
  expect(reported(record)).toMatchObject({ stuck, waitingBecause, usedBy: [], usedByCount: 0 });
});

const { ExplainReservationReply } = muster.reservation.v1;
const LEASES = { holdings: openLeaseRegistry({}, {}), nowNs: () => 0n };
const WAITING = makeLeaseRecord({ order: { id: "3-2", type: "machine" }, phase: "PROVISIONING", run: 2 });

/** A ledger in which every owner waits, or that does not answer. */
function callsOf(ledger: "answers" | "away" | "no queue"): {
  readonly calls: LeaseExplainCalls;
  readonly asked: unknown[];
} {
  const asked: unknown[] = [];
  const calls: LeaseExplainCalls = {
    reservations: {
      explainReservation: (request) => {
        asked.push(request.owner);
        if (ledger === "away")
          return Promise.reject(new FaultError({ code: "unavailable", dependency: "reservation", retryAfterMs: 1 }));
        if (ledger === "no queue")
          return Promise.reject(new FaultError({ code: "not_found", kind: "reservation", id: "3-2-2" }));
        return Promise.resolve(ExplainReservationReply.create({ code: "POOL_AVAILABILITY", message: "0 of 1" }));
      },
      listReservations: () => Promise.reject(new Error("is not asked")),
    },
    nodes: { explainDemand: () => Promise.reject(new Error("is not asked")) },
    podsLeft: () => Promise.reject(new Error("is not asked")),
    whyNoQueue: () =>
      ledger === "no queue" ? Promise.resolve("none is named") : Promise.reject(new Error("is not asked")),
  };
  return { calls, asked };
}

it("asks the ledger about the run of a lease that waits for machines", async () => {
  const { calls, asked } = callsOf("answers");
  expect(await explainAnswer(LEASES, calls, WAITING)).toMatchObject({
    ...{ kind: "lease", name: "3-2", phase: "PROVISIONING", isOver: false },
    reasons: [{ code: "POOL_AVAILABILITY", message: "0 of 1" }],
    reservation: { code: "POOL_AVAILABILITY" },
  });
  expect(asked).toEqual([{ kind: "lease", id: "3-2-2" }]);
});

it("has a code for a lease that has no queue", async () => {
  const { reasons } = await explainAnswer(LEASES, callsOf("no queue").calls, WAITING);
  expect(reasons).toMatchObject([{ code: "QUEUE_UNKNOWN", message: "its machines are not requested: none is named" }]);
});

it("explains it without a ledger that does not answer, and reports that", async () => {
  const { reasons } = await explainAnswer(LEASES, callsOf("away").calls, WAITING);
  expect(reasons).toMatchObject([{ code: "PROVISIONING" }, { code: "LEDGER_AWAY" }]);
});

it.each([
  ["of another type", makeLeaseRecord({ order: { type: "container" }, phase: "PROVISIONING" }), false],
  ["that is active", makeLeaseRecord({ order: { type: "machine" }, phase: "ACTIVE" }), false],
  ["that is over", makeLeaseRecord({ order: { type: "machine" }, phase: "ENDED" }), true],
])("asks no service about a lease %s", async (_what, lease, isOver) => {
  const { calls, asked } = callsOf("answers");
  expect(await explainAnswer(LEASES, calls, lease)).toMatchObject({ phase: lease.phase, isOver });
  expect(asked).toEqual([]);
});
