import { expect, it } from "vitest";
import { aLease } from "../../test/a-lease.ts";
import type { LeaseRecord } from "../domain/lease.ts";
import { openHoldings } from "../holdings/holdings.ts";
import { leaseMessage } from "./lease-message.ts";

const NETWORK = { id: "1-1", type: "network", data: '{"name":"home"}' };

function reported(network: Partial<Omit<LeaseRecord, "order">>, users: readonly string[] = []) {
  const holdings = openHoldings({}, {});
  const record = aLease({ order: NETWORK, phase: "DECOMMISSIONING", ...network });
  holdings.learn({ record, revision: 1 });
  for (const id of users) {
    const order = { id, type: "volume", data: '{"size":1,"type":"ssd","network":"home"}' };
    holdings.learn({ record: aLease({ order, phase: "ACTIVE", expiresAtNs: 7_000_000_001n }), revision: 1 });
  }
  return leaseMessage({ holdings, nowNs: () => 0n }, { record, revision: 1 });
}

it("lists the leases that a network waits for, with their ends, and is not stuck", () => {
  const message = reported({}, ["1-2", "1-3", "1-4", "1-5", "1-6", "1-7"]);
  expect(message.waitingBecause).toBe("it is in use by 1-2, 1-3, 1-4, 1-5, 1-6 and 1 more");
  expect(message).toMatchObject({ stuck: false, usedByCount: 6 });
  expect(message.usedBy).toHaveLength(5);
  expect(message.usedBy?.[0]).toMatchObject({ id: "1-2", type: "volume", expiresAt: { seconds: 7, nanos: 1 } });
});

it.each<[what: string, record: Partial<Omit<LeaseRecord, "order">>, stuck: boolean, because: string]>([
  ["is taken down", {}, false, ""],
  ["was not taken down at once", { attempts: 1, trouble: "away" }, false, "away"],
  ["cannot be taken down", { attempts: 10, trouble: "away" }, true, "away"],
  ["is there, and used", { phase: "ACTIVE", expiresAtNs: 1n }, false, ""],
])("shows for a lease that %s whether it needs the operator", (_what, record, stuck, waitingBecause) => {
  expect(reported(record)).toMatchObject({ stuck, waitingBecause, usedBy: [], usedByCount: 0 });
});
