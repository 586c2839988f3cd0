import { decideBrake as decideSweepBrake, type Brake, type BrakePolicy } from "@muster/ledger-client/plan-sweep";
import type { CleanupSnapshot, CleanupStep } from "./plan-cleanup.ts";

/** Facts about the lease records that clean-up relies on. */
export type Census = {
  /** Number of leases of this engine that have a record. */
  readonly records: number;
  /** When the bucket of records was created, by the clock of NATS. */
  readonly bucketCreatedMs: number;
};

/** Tolerated difference between the clocks of Kubernetes and NATS. */
const MAX_CLOCK_SKEW_MS = 60_000;

/** Decides whether clean-up needs confirmation; undefined if it may continue. `confirmed` is the number of leftover objects that a user has confirmed. */
export function decideBrake(
  steps: readonly CleanupStep[],
  { truth }: Pick<CleanupSnapshot, "truth">,
  { records, bucketCreatedMs: bucketMadeMs }: Census,
  confirmed: number,
  policy: BrakePolicy,
): Brake | undefined {
  const leftOver = steps.filter((step) => step.kind !== "keep");
  const older = leftOver.filter(
    ({ object: { lease, createdMs: madeMs } }) =>
      truth.get(lease?.id ?? "")?.kind === "none" && madeMs !== undefined && madeMs + MAX_CLOCK_SKEW_MS < bucketMadeMs,
  );
  const counts = { left: leftOver.length, olderThanStore: older.length, found: steps.length };
  return decideSweepBrake({ ...counts, owners: records, owner: "lease", confirmed }, policy);
}
