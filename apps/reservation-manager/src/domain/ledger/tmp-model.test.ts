import fc from "fast-check";
import { expect, it } from "vitest";
import { findHold } from "../decisions/fit.ts";
import { explainWaiting } from "../decisions/explain-waiting.ts";
import { policy } from "../../../test/random-world.ts";
import { NaiveLedger } from "../../../test/naive-ledger.ts";
import { firstNodes, operations, startRun, step, type Run } from "../../../test/random-world.ts";
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

function show({ world }: Run): string[] {
  return [...world.ledger.reservations.values()].map(({ sequence, grant }) => {
    const nodes = (grant?.machines ?? []).map(({ node }) => node).join(" ");
    return `${sequence} [${nodes}]`;
  });
}

it("decides what a ledger decides that looks at everything each time: errors in their order with pools in name order, priority, age, the hold, limits", () => {
  const stats = { g: 0, s: 0, mixed: 0, hold: 0, held: 0 };
  fc.assert(
    fc.property(operations, (steps) => {
      const run = startRun(firstNodes);
      let seen = 0;
      const naive = new NaiveLedger(firstNodes);
      for (const operation of steps) {
        expect(sayVerdict(step(run, operation))).toBe(naive.step(operation));
        expect(show(run)).toEqual(naive.show());
        for (const e of run.events.slice(seen)) if (e.kind === "granted") { stats.g += 1; if (e.machines.some((m) => m.shared)) stats.s += 1; if (e.machines.some((m) => m.shared) && e.machines.some((m) => !m.shared)) stats.mixed += 1; }
        seen = run.events.length;
        const h = findHold(run.world, policy, run.nowMs); if (h?.needs.some((n) => n.shared.length > 0)) stats.hold += 1;
        for (const r of run.world.ledger.reservations.values()) { if (!h || r.grant || !r.needs.some((n) => n.shared)) continue; const w = explainWaiting(r, run.world, h); if (w?.code === "HELD_FOR_OLDER") stats.held += 1; }
      }
    }),
    { numRuns: 40000 },
  );
  console.log(stats);
});
