import { QUEUE_UNKNOWN } from "@muster/ledger-client/choose-queue";
import { buildOwnerId } from "./build-units.ts";
import { findCondition, type JobStatus } from "./job-status.ts";
import type { GrantedUnit } from "./member-machines.ts";
import { recordSilence } from "./record-silence.ts";
import type { JobPolicy, Snapshot, UnitSeen } from "./snapshot.ts";
import { transitionConditions, wasWrittenRecently, roundToSecond } from "./transition-conditions.ts";

/** Notes whether the job has its machines, and why not. The message is written at most every `explainEveryMs`. */
export function recordMachines(snapshot: Snapshot, status: JobStatus, policy: JobPolicy): JobStatus {
  const { nowMs } = snapshot;
  const gang = snapshot.units.find(({ id }) => id === buildOwnerId(snapshot.job));
  switch (gang?.state) {
    case "granted": {
      // A time in the future comes from another leader's clock, and would delay the deadline by the difference of the clocks.
      const startMs = Math.min(status.startMs ?? Infinity, roundToSecond(nowMs));
      const started = { ...status, startMs };
      const before = findCondition(status, "MachinesReserved");
      const change = describeGrant(snapshot, gang);
      if (
        change.reason === "MembersWait" &&
        before?.reason === change.reason &&
        wasWrittenRecently(before, nowMs, policy)
      )
        return started;
      return transitionConditions(started, { type: "MachinesReserved", status: "True", ...change }, nowMs);
    }
    case "waiting":
      return recordWait(status, gang.because, policy, nowMs);
    case "refused":
      return recordWait(status, describeChoice(snapshot) ?? gang.because, policy, nowMs);
    case "unknown":
      return recordSilence(status, nowMs);
    case "none":
    case undefined: {
      const because = describeChoice(snapshot);
      return because === undefined ? status : recordWait(status, because, policy, nowMs);
    }
  }
}

type Because = { readonly code: string; readonly text: string };

/** Describes why no machines are requested; undefined if machines are requested, or the reason is unknown. */
function describeChoice({ queue }: Snapshot): Because | undefined {
  return queue?.kind === "unknown" ? { code: QUEUE_UNKNOWN, text: queue.message } : undefined;
}

function recordWait(status: JobStatus, { code, text }: Because, policy: JobPolicy, nowMs: number): JobStatus {
  const before = findCondition(status, "MachinesReserved");
  if (before?.status === "False" && before.reason === code && wasWrittenRecently(before, nowMs, policy)) return status;
  const change = { type: "MachinesReserved", status: "False", reason: code, message: text } as const;
  return transitionConditions(status, change, nowMs);
}

/** Describes the reserved machines, and the missing right or machines for single members. */
function describeGrant(
  { units, job, companionsRefused }: Snapshot,
  gang: GrantedUnit,
): { reason: string; message: string } {
  const reserved = countGrant(gang);
  if (companionsRefused !== undefined)
    return { reason: "RightsMissing", message: `${reserved}, but ${companionsRefused}` };
  const awaited = units.filter((unit) => unit.id !== buildOwnerId(job)).filter(isUnitPending);
  const [first, ...others] = awaited.toSorted((a, b) => (a.id < b.id ? -1 : 1));
  if (first === undefined) return { reason: "MachinesGranted", message: reserved };
  const more = others.length === 0 ? "" : `, and ${others.length} more`;
  const message = `${reserved}, but ${first.components.join(", ")} waits for another one: ${first.because.text}${more}`;
  return { reason: "MembersWait", message };
}

function countGrant({ nodes, shares }: GrantedUnit): string {
  const parts = shares?.size ?? 0;
  const counts = [
    { count: nodes.size - parts, one: "1 machine", many: "machines" },
    { count: parts, one: "1 part of a machine", many: "parts of machines" },
  ].filter(({ count }) => count > 0);
  const texts = counts.map(({ count, one, many }) => (count === 1 ? one : `${count} ${many}`));
  return `${texts.join(" and ")} ${texts.length === 1 && counts[0]?.count === 1 ? "is" : "are"} reserved`;
}

function isUnitPending(unit: UnitSeen): unit is Extract<UnitSeen, { readonly state: "waiting" | "refused" }> {
  return unit.state === "waiting" || unit.state === "refused";
}
