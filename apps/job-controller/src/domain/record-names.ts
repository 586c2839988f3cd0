import { buildOwnerId } from "./build-units.ts";
import { isTrue, removeCondition, type JobStatus } from "./job-status.ts";
import type { Snapshot } from "./snapshot.ts";
import { transitionConditions } from "./transition-conditions.ts";

const NAMES_SHOWN = 3;

/** Notes members that cannot be created because foreign pods have their names; only the deletion of those pods helps. */
export function recordNames({ namesTaken, nowMs, units, job }: Snapshot, status: JobStatus): JobStatus {
  const gang = units.find(({ id }) => id === buildOwnerId(job));
  // A ledger that does not answer has released no machines.
  const isHeld = gang?.state === "granted" || (gang?.state === "unknown" && isTrue(status, "PodNamesTaken"));
  if (!isHeld || namesTaken.length === 0) return removeCondition(status, "PodNamesTaken");
  const shown = namesTaken.slice(0, NAMES_SHOWN).map(({ pod, owner }) => `pod ${pod} belongs to ${owner}`);
  const more = namesTaken.length - shown.length;
  const message = `${shown.join(", ")}${more > 0 ? `, and ${more} more` : ""}; this job needs the name and waits for it: delete what has it, or give this job another name`;
  return transitionConditions(
    status,
    { type: "PodNamesTaken", status: "True", reason: "NameConflict", message },
    nowMs,
  );
}
