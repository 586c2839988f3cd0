import type { CleanupSnapshot, CleanupStep } from "./plan-cleanup.ts";

/** What is known of the records that clean-up believes. */
export type Census = {
  /** Leases of this engine that have one. */
  readonly records: number;
  /** When their bucket was made, by the clock of NATS. */
  readonly bucketMadeMs: number;
};

export type BrakePolicy = {
  /** So many objects may look left over at one look, and so large a part of all that was found. */
  readonly mostObjects: number;
  readonly mostPercent: number;
};

/** Why nothing is removed, although so many objects look left over: that records are lost is likelier. */
export type Brake = { readonly left: number; readonly because: string };

/** Of so few, any part may be left over. */
export const FEW = 10;

/** Clocks that differ by less are taken for one. */
const TOLERANCE_MS = 60_000;

/**
 * Whether clean-up has to ask first; undefined: it may go on. Who has lost records sees leftovers everywhere, so what looks left over counts from the first look on. `confirmed`: somebody has seen that so many are
 * left over, and wants it so.
 */
export function decideBrake(
  steps: readonly CleanupStep[],
  { truth }: Pick<CleanupSnapshot, "truth">,
  { records, bucketMadeMs }: Census,
  confirmed: number,
  { mostObjects, mostPercent }: BrakePolicy,
): Brake | undefined {
  const leftOver = steps.filter((step) => step.do !== "keep");
  const left = leftOver.length;
  if (left === 0 || left <= confirmed) return undefined;
  const hold = (because: string): Brake => ({ left, because });
  if (records === 0) return hold(`${left} objects look left over, but this engine has no record of any lease`);
  const older = leftOver.filter(
    ({ object: { lease, madeMs } }) =>
      truth.get(lease?.id ?? "")?.is === "none" && madeMs !== undefined && madeMs + TOLERANCE_MS < bucketMadeMs,
  ).length;
  if (older > 0) return hold(`${older} of ${left} objects that look left over are older than the bucket of records`);
  if (left > mostObjects) return hold(`${left} objects look left over, more than ${mostObjects}`);
  if (left > FEW && left * 100 > steps.length * mostPercent)
    return hold(`${left} of ${steps.length} objects look left over, more than ${mostPercent} %`);
  return undefined;
}
