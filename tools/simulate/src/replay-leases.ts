import { readFileSync } from "node:fs";
import { describeReason } from "@muster/provision-engine/describe-reason";
import { planLease } from "@muster/provision-engine/plan-lease";
import { FORMAT, readDecision, type StoredDecision } from "@muster/provision-engine/stored-decision";
import type { NextStep } from "./replay.ts";

/** Reads decisions about leases, one per line; undefined where the file has another format. */
export function readDecisions(file: string): StoredDecision[] | undefined {
  const text = readFileSync(file, "utf8").trim();
  return text.startsWith(`{"format":"${FORMAT}"`) ? text.split("\n").map(readDecision) : undefined;
}

/** Plans the next step of the engine for each lease. */
export function planLeases(decisions: readonly StoredDecision[]): NextStep[] {
  return decisions.map(({ snapshot, policy, nowNs }) => {
    const plan = planLease(snapshot, policy, nowNs);
    const step = plan.kind === "change" ? `change ${plan.change.kind}` : plan.kind;
    return { who: `lease ${snapshot.lease.id}`, step, because: describeReason(plan.because) };
  });
}
