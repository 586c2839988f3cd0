import type { ExplainCalls } from "@muster/ledger-client";
import { FaultError } from "@muster/faults";
import { muster } from "@muster/proto";
import { expect, it } from "vitest";
import { aLease } from "../../test/a-lease.ts";
import { openHoldings } from "../holdings/holdings.ts";
import { explainAnswer } from "./explain-answer.ts";

const { ExplainReservationReply } = muster.reservation.v1;
const LEASES = { holdings: openHoldings({}, {}), nowNs: () => 0n };
const WAITING = aLease({ order: { id: "3-2", type: "machine" }, phase: "PROVISIONING", run: 2 });

/** A ledger in which every owner waits, or that does not answer. */
function callsOf(ledger: "answers" | "away"): { readonly calls: ExplainCalls; readonly asked: unknown[] } {
  const asked: unknown[] = [];
  const calls: ExplainCalls = {
    reservations: {
      explainReservation: (request) => {
        asked.push(request.owner);
        if (ledger === "away")
          return Promise.reject(new FaultError({ code: "unavailable", dependency: "reservation", retryAfterMs: 1 }));
        return Promise.resolve(ExplainReservationReply.create({ code: "POOL_AVAILABILITY", message: "0 of 1" }));
      },
      listReservations: () => Promise.reject(new Error("is not asked")),
    },
    nodes: { explainDemand: () => Promise.reject(new Error("is not asked")) },
    podsLeft: () => Promise.reject(new Error("is not asked")),
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

it("explains it without a ledger that does not answer, and adds that", async () => {
  const { reasons } = await explainAnswer(LEASES, callsOf("away").calls, WAITING);
  expect(reasons).toMatchObject([{ code: "PROVISIONING" }, { code: "LEDGER_AWAY" }]);
});

it.each([
  ["of another type", aLease({ order: { type: "container" }, phase: "PROVISIONING" }), false],
  ["that is active", aLease({ order: { type: "machine" }, phase: "ACTIVE" }), false],
  ["that is over", aLease({ order: { type: "machine" }, phase: "ENDED" }), true],
])("asks no service about a lease %s", async (_what, lease, isOver) => {
  const { calls, asked } = callsOf("answers");
  expect(await explainAnswer(LEASES, calls, lease)).toMatchObject({ phase: lease.phase, isOver });
  expect(asked).toEqual([]);
});
