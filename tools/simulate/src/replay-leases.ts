import { readFileSync } from "node:fs";
import { planLease } from "@muster/provision-engine/plan-lease";
import { FORMAT, readDecision, type StoredDecision } from "@muster/provision-engine/stored-decision";
import type { NextStep } from "./replay.ts";

/** Decisions about leases from a file with one on each line; undefined: it is a file of something else. */
export function readDecisions(file: string): StoredDecision[] | undefined {
  const text = readFileSync(file, "utf8").trim();
  return text.startsWith(`{"format":"${FORMAT}"`) ? text.split("\n").map(readDecision) : undefined;
}

/** What the engine would do for each lease. */
export function planLeases(decisions: readonly StoredDecision[]): NextStep[] {
  return decisions.map(({ snapshot, policy, nowNs }) => {
    const plan = planLease(snapshot, policy, nowNs);
    const step = plan.kind === "change" ? `change ${plan.change.kind}` : plan.kind;
    return { who: `lease ${snapshot.lease.id}`, step, because: plan.because };
  });
}
