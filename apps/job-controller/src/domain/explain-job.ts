import {
  adviseWait,
  buildReason,
  buildWaitReason,
  type StateReason,
  type SeenMachines,
} from "@muster/ledger-client/explanation";
import { findCondition, isTrue, type Condition, type JobStatus } from "./job-status.ts";
import type { JobState } from "./summarise-state.ts";

/** The state of a job for its explanation. */
export type ObservedJobState = {
  /** The noun of its kind, in lower case: `tfjob`. */
  readonly kind: string;
  readonly name: string;
  readonly state: JobState;
  readonly status: JobStatus;
  readonly cancelRequested: boolean;
  /** Why the job waits, for people; empty if it does not. */
  readonly waitingBecause: string;
  readonly members: readonly { readonly component: string; readonly state: string }[];
  readonly createdAtMs: number;
};

/**
 * Explains why a job is in its phase: FINISHED, CANCELLING, SPEC_UNREADABLE, SUSPENDED, PREEMPTED, RESTARTING, NOT_TAKEN_YET, MEMBERS_NOT_READY, MEMBER_WAITS,
 * RUNNING, or the ledger's code for the wait of its gang. `machines` are those of the gang, or of a single member that waits for a separate machine.
 */
export function explainJob(job: ObservedJobState, machines: SeenMachines | undefined): StateReason {
  const { state, status, waitingBecause } = job;
  if (state === "Succeeded" || state === "Failed") return explainEnd(job);
  if (job.cancelRequested) return buildReason("CANCELLING", "its cancellation is under way");
  const unreadable = findCondition(status, "SpecUnreadable");
  if (unreadable?.status === "True")
    return {
      ...buildReason("SPEC_UNREADABLE", unreadable.message),
      next: "correct the field that the message names, or cancel the job",
    };
  switch (state) {
    case "Queued":
      return buildWaitReason(machines) ?? explainQueue(status, waitingBecause);
    case "Suspended":
      return {
        ...buildReason("SUSPENDED", "it is suspended, and holds no machines"),
        next: "`muster resume job/NAME`, or set spec.runPolicy.suspend to false",
      };
    case "Preempted": {
      const message = findCondition(status, "Preempted")?.message ?? "";
      return buildReason("PREEMPTED", message);
    }
    case "Restarting": {
      const wait = memberWait(machines);
      if (wait !== undefined) return wait;
      // The status states the pause that remained when it was written.
      const message = waitingBecause || (findCondition(status, "Restarting")?.message ?? "");
      return buildReason("RESTARTING", message === "" ? "members that failed are restarted" : message);
    }
    case "Starting":
    case "Running":
      return explainMembers(job, machines);
  }
}

/** Returns the phase of a job, and when the job entered it. */
export function getJobPhase({
  state,
  status,
  createdAtMs,
}: Pick<ObservedJobState, "state" | "status" | "createdAtMs">): {
  readonly phase: string;
  readonly sinceMs: number;
} {
  if (state === "Queued") return { phase: "QUEUED", sinceMs: createdAtMs };
  const sinceMs = trueCondition(status, state)?.lastTransitionMs ?? status.startMs ?? createdAtMs;
  return { phase: isCancelled(status) ? "CANCELLED" : state.toUpperCase(), sinceMs };
}

function trueCondition(status: JobStatus, state: Exclude<JobState, "Queued">): Condition | undefined {
  const type = state === "Starting" ? "MachinesReserved" : state;
  return isTrue(status, type) ? findCondition(status, type) : undefined;
}

/** Kubeflow has no condition for a cancellation: the cancellation is a reason of Failed. */
function isCancelled(status: JobStatus): boolean {
  return isTrue(status, "Failed") && findCondition(status, "Failed")?.reason === "Cancelled";
}

function explainEnd({ kind, name, status, members }: ObservedJobState): StateReason {
  if (isTrue(status, "Succeeded"))
    return buildReason("FINISHED", `it is over: ${findCondition(status, "Succeeded")?.message ?? ""}`);
  const { reason = "", message = "" } = findCondition(status, "Failed") ?? {};
  if (isCancelled(status)) return buildReason("FINISHED", `it is over, CANCELLED: ${message}`);
  const failed = members.find(({ state }) => state === "FAILED");
  const why = [reason, message].filter((part) => part !== "").join(": ");
  const next = failed === undefined ? "" : `muster logs ${kind}/${name} ${failed.component}`;
  return { code: "FINISHED", message: `it is over, FAILED: ${why}`, next };
}

function explainQueue(status: JobStatus, waits: string): StateReason {
  // The ledger keeps no refused request, so the condition has the reason.
  const refusal = findCondition(status, "MachinesReserved")?.reason ?? "";
  const code = refusal === "" ? "NOT_TAKEN_YET" : refusal;
  const message = waits === "" ? "the job-controller has not requested its machines yet" : waits;
  return { code, message, next: adviseWait({ code, pools: [] }) };
}

/** Returns undefined if no member waits for a machine. */
function memberWait(machines: SeenMachines | undefined): StateReason | undefined {
  const wait = buildWaitReason(machines);
  const names = machines?.components.join(", ") ?? "";
  return wait && { ...wait, code: "MEMBER_WAITS", message: `${names} waits for a machine: ${wait.message}` };
}

function explainMembers(
  { kind, name, state, members, waitingBecause }: ObservedJobState,
  machines: SeenMachines | undefined,
) {
  const wait = memberWait(machines);
  if (wait !== undefined) return wait;
  if (waitingBecause !== "")
    return { ...buildReason("MEMBERS_NOT_READY", waitingBecause), next: `muster describe ${kind} ${name}` };
  const pending = members.filter((member) => member.state === "PENDING").map(({ component }) => component);
  if (state === "Starting" || pending.length === members.length)
    return buildReason("MEMBERS_NOT_READY", "its machines are reserved; its pods are being started");
  const count = `${pending.length} member${pending.length === 1 ? "" : "s"}`;
  return buildReason(
    "RUNNING",
    `its members run${pending.length === 0 ? "" : `; ${count} not started yet: ${pending.join(", ")}`}`,
  );
}
