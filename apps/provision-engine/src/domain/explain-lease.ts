import { formatElapsed } from "@muster/faults";
import { buildReason, buildWaitReason, type StateReason, type SeenMachines } from "@muster/ledger-client/explanation";
import type { LeaseRecord } from "./lease.ts";

/** Leases that use another lease: the first few of them, and their number. */
export type LeaseUsers = {
  readonly count: number;
  readonly some: readonly Pick<LeaseRecord, "order" | "phase" | "expiresAtNs">[];
};

/** The state of a lease for its explanation. */
export type LeaseSeen = {
  readonly record: LeaseRecord;
  /** Why the lease makes no progress; empty: it progresses, or is complete. */
  readonly waitingBecause: string;
  /** Why a lease of machines has no queue; absent: it has a queue, or needs none. */
  readonly whyNoQueue?: string;
  /** True if the lease cannot be removed, or its end cannot be written. */
  readonly isStuck: boolean;
  /** The leases that have to end before this one. */
  readonly users: LeaseUsers;
};

/**
 * Explains the phase of a lease: ORDERED, WAITING, PROVISIONING, NOT_YET, ACTIVE, TROUBLED, NOT_TAKEN_DOWN, IN_USE, the cause of its end, FAILED,
 * QUEUE_UNKNOWN, or the ledger's code for its wait. `machines`: the machines that a lease waits for.
 */
export function explainLease(seen: LeaseSeen, machines: SeenMachines | undefined, nowMs: number): StateReason {
  const { record, waitingBecause } = seen;
  const { id } = record.order;
  switch (record.phase) {
    case "ORDERED":
      return waitingBecause === ""
        ? { code: "ORDERED", message: "it was accepted, and begins next", next: ENGINE }
        : buildReason("WAITING", waitingBecause);
    case "PROVISIONING":
      return buildWaitReason(machines) ?? explainQueue(seen) ?? explainProvisioning(waitingBecause);
    case "ACTIVE":
      if (waitingBecause !== "")
        return {
          code: "TROUBLED",
          message: `it was active, and a part of it is in trouble: ${waitingBecause}`,
          next: "the engine recreates what it can; order the rest again",
        };
      return {
        code: "ACTIVE",
        message: `it is complete; it ends ${describeEnd(record, nowMs)}`,
        next: `\`muster lease renew ${id} --for 1h\` lets it end later`,
      };
    case "DECOMMISSIONING":
      return explainEnding(seen, nowMs);
    case "ENDED":
      return explainEnded(seen);
    case "FAILED":
      return {
        code: "FAILED",
        message: describeDifference(seen),
        next: "send its order again to retry it: the same file with this id as metadata.name",
      };
  }
}

/** The phase of a lease and since when; 0: the record does not contain the time. */
export function getLeasePhase(record: Pick<LeaseRecord, "order" | "phase" | "result" | "ending" | "endedAtNs">): {
  readonly phase: string;
  readonly sinceMs: number;
} {
  const { phase } = record;
  return { phase, sinceMs: toMs(computeSinceNs(record) ?? 0n) };
}

function computeSinceNs({ order, phase, result, ending, endedAtNs }: Parameters<typeof getLeasePhase>[0]) {
  switch (phase) {
    case "ORDERED":
      return order.createdNs;
    case "PROVISIONING":
      return undefined;
    case "ACTIVE":
      return result?.createdNs;
    case "DECOMMISSIONING":
      return ending?.atNs;
    case "ENDED":
    case "FAILED":
      return endedAtNs ?? ending?.atNs;
  }
}

const ENGINE = "`muster doctor` says whether an engine runs";

function explainQueue({ whyNoQueue }: LeaseSeen): StateReason | undefined {
  if (whyNoQueue === undefined) return undefined;
  const next = "name a queue without queues below it in PROVISION_QUEUE of the provision-engine";
  return { code: "QUEUE_UNKNOWN", message: `its machines are not requested: ${whyNoQueue}`, next };
}

function explainProvisioning(waitingBecause: string): StateReason {
  return waitingBecause === ""
    ? buildReason("PROVISIONING", "it is being made")
    : buildReason("NOT_YET", `it is being provisioned, and retried: ${waitingBecause}`);
}

/** Explains the end of a lease. A wait for other leases, or a retry, is not a failure. */
function explainEnding(seen: LeaseSeen, nowMs: number): StateReason {
  const { record, isStuck, users, waitingBecause } = seen;
  const { ending } = record;
  const code = ending?.cause ?? "ENDING";
  if (isStuck)
    return {
      code: "NOT_TAKEN_DOWN",
      message: `its resources cannot be removed, and the removal is retried: ${describeDifference(seen)}`,
      next: "fix the cause; `muster doctor` checks the services",
    };
  if (users.count > 0) {
    const cause = [code, ending?.message ?? ""].filter((each) => each !== "").join(": ");
    return {
      code: "IN_USE",
      message: `it ends (${cause}), and stays until the leases that use it have ended: ${describeUsers(users, nowMs)}`,
      next: `wait, or end each of them: \`muster lease end ${users.some[0]?.order.id ?? "ID"}\``,
    };
  }
  const how = waitingBecause === "" ? "it is taken down" : "its resources are removed, and the removal is retried";
  return buildReason(code, `${how}: ${describeDifference(seen)}`);
}

function explainEnded(seen: LeaseSeen): StateReason {
  const { ending, result } = seen.record;
  const down =
    result === undefined ? "it never became ACTIVE, and all of its resources are removed" : "all of it is taken down";
  return {
    code: ending?.cause ?? "ENDED",
    message: `${down}: ${describeDifference(seen)}`,
    next:
      ending?.cause === "CRASHED"
        ? "fix the workload before you order another one, which would end in the same way"
        : "order another one: an id is used once",
  };
}

/** Describes why the lease differs from its order; empty without a difference. */
function describeDifference({ record, waitingBecause }: LeaseSeen): string {
  const { phase, ending, result } = record;
  if (phase === "FAILED" && result !== undefined) return withoutPrefix(result.message);
  const end = ending && [ending.cause, withoutPrefix(ending.message)].filter((each) => each !== "").join(": ");
  return [end ?? "", waitingBecause].filter((each) => each !== "").join("; ");
}

/** Removes the prefix that controllers recognise. */
function withoutPrefix(message: string): string {
  return message.replace(/^failed to apply provision: /, "");
}

/** Leases that use another lease, with their times: `container 4711-2 (ends in 38m10s), 3 more`. */
function describeUsers({ some, count }: LeaseUsers, nowMs: number): string {
  const named = some.map((each) => `${each.order.type} ${each.order.id} (ends ${describeEnd(each, nowMs)})`);
  const more = count - named.length;
  return [...named, ...(more > 0 ? [`${more} more`] : [])].join(", ");
}

/** Describes when the lease ends, relative to now. */
function describeEnd({ phase, expiresAtNs }: Pick<LeaseRecord, "phase" | "expiresAtNs">, nowMs: number): string {
  if (phase === "ENDED" || phase === "FAILED") return "over";
  if (phase === "DECOMMISSIONING") return "now";
  const leftMs = toMs(expiresAtNs) - nowMs;
  if (leftMs > NEVER_MS) return "never";
  return leftMs < 0 ? "now" : `in ${formatElapsed(leftMs)}`;
}

/** Durations are limited to 292 years. */
const NEVER_MS = 200 * 366 * 86_400_000;

function toMs(ns: bigint): number {
  return Number(ns / 1_000_000n);
}
