import fc from "fast-check";
import { expect, it } from "vitest";
import { NaiveLedger } from "../../../test/naive-ledger.ts";
import { firstNodes, operations, policy, startRun, stepRun, type LedgerRun } from "../../../test/random-world.ts";
import type { Verdict } from "../decisions/decide-reservation.ts";

function sayVerdict(verdict: Verdict | undefined): string {
  if (verdict === undefined) return "";
  if (verdict.kind === "limit") return verdict.kind;
  if (verdict.kind !== "refuse") return `${verdict.kind} ${verdict.sequence}`;
  const { fault } = verdict;
  switch (fault.code) {
    case "pool_unknown":
      return `${fault.code} ${fault.pool}`;
    case "pool_capacity":
      return `${fault.code} ${fault.pool} ${fault.requested} of ${fault.capacity}`;
    case "pool_availability":
      return `${fault.code} ${fault.pool} ${fault.requested} of ${fault.available}`;
    default:
      return fault.code;
  }
}

function show({ world }: LedgerRun): string[] {
  return [...world.ledger.reservations.values()].map(({ sequence, grant }) => {
    const nodes = (grant?.machines ?? []).map(({ node }) => node).join(" ");
    return `${sequence} [${nodes}]`;
  });
}

it("decides as a ledger without indexes: errors in their order with pools in name order, priority, age, the hold, limits", () => {
  fc.assert(
    fc.property(operations, (steps) => {
      const run = startRun(firstNodes);
      const naive = new NaiveLedger(firstNodes, policy.holdAfterMs);
      for (const operation of steps) {
        expect(sayVerdict(stepRun(run, operation))).toBe(naive.step(operation));
        expect(show(run)).toEqual(naive.show());
      }
    }),
    { numRuns: Number(process.env["MUSTER_LEDGER_WORLDS"] ?? 500) },
  );
});
