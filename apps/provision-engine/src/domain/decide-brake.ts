import { decideBrake as decideSweepBrake, type Brake, type BrakePolicy } from "@muster/ledger-client/plan-sweep";
import type { CleanupSnapshot, CleanupStep } from "./plan-cleanup.ts";

/** What is known of the records that clean-up believes. */
export type Census = {
  /** Leases of this engine that have one. */
  readonly records: number;
  /** When their bucket was made, by the clock of NATS. */
  readonly bucketCreatedMs: number;
};

/** Clocks that differ by less are taken for one. */
const MAX_CLOCK_SKEW_MS = 60_000;

/** Whether clean-up has to ask first; undefined: it may continue. `confirmed`: a user has confirmed that so many objects are left over. */
export function decideBrake(
  steps: readonly CleanupStep[],
  { truth }: Pick<CleanupSnapshot, "truth">,
  { records, bucketCreatedMs: bucketMadeMs }: Census,
  confirmed: number,
  policy: BrakePolicy,
): Brake | undefined {
  const leftOver = steps.filter((step) => step.do !== "keep");
  const older = leftOver.filter(
    ({ object: { lease, createdMs: madeMs } }) =>
      truth.get(lease?.id ?? "")?.kind === "none" && madeMs !== undefined && madeMs + MAX_CLOCK_SKEW_MS < bucketMadeMs,
  );
  const counts = { left: leftOver.length, olderThanStore: older.length, found: steps.length };
  return decideSweepBrake({ ...counts, owners: records, owner: "lease", confirmed }, policy);
}
