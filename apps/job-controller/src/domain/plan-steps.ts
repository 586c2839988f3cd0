import type { RequestUnit } from "./build-units.ts";
import type { Member } from "./job.ts";
import type { JobStatus } from "./job-status.ts";
import type { GroupSpec } from "./pod-group.ts";

/** One pod to create, and its machine. With `isShared`, the pod gets a part of the machine. */
export type PodOrder = Member & { readonly node: string; readonly isShared?: boolean };

/**
 * Why a pod is deleted, and the functions that set it.
 * - failed, machine-lost, already-completed: `planType` (`plan-pods.ts`); whether a failed pod is replaced, `decidePodFailure` (`decide-pod-failure.ts`)
 * - duplicate-index, index-out-of-range: `planType`, from `slicePods` (`slice-pods.ts`)
 * - type-removed: `planPods` (`plan-pods.ts`)
 * - gang-restarts: `planPods` for pods of an earlier attempt, `planRegrouping` (`plan-job.ts`)
 * - ready-timeout: `planRegrouping`, after `requeueUnreadyGang` (`plan-ready-timeout.ts`)
 * - preempted: `planPreemptedGang` and `planPreemptedMembers` (`plan-preemption.ts`), `planType` for pods that such a plan has left
 * - suspended: `planSuspended` (`plan-job.ts`); handed-over: `planHandOver` (`plan-hand-over.ts`); job-over: `planCleanUp` (`plan-clean-up.ts`)
 */
export type DeleteReason =
  | "duplicate-index"
  | "index-out-of-range"
  | "type-removed"
  | "already-completed"
  | "machine-lost"
  | "failed"
  | "gang-restarts"
  | "ready-timeout"
  | "suspended"
  | "preempted"
  | "handed-over"
  | "job-over";

export type ReleaseReason =
  | "suspended"
  | "preempted"
  | "handed-over"
  | "job-over"
  | "gang-restarts"
  | "ready-timeout"
  | "needs-changed"
  | "scaled-down"
  | "machine-lost";

/** Why the objects beside the pods of a job are deleted. */
export type StopReason = "suspended" | "preempted" | "ready-timeout" | "job-over";

/** A step towards the desired state. Later steps may rely on earlier ones. Each step may run twice without harm. */
export type JobStep =
  | {
      readonly kind: "reserve";
      readonly unit: RequestUnit;
      readonly priority: number;
      /** The original priority of the job, if its queue lowers it. */
      readonly loweredFrom?: number;
      readonly because: RequestUnit["because"];
    }
  | { readonly kind: "release"; readonly unitId: string; readonly because: ReleaseReason }
  /** The step before the pods of the unit end, because the ledger may have withdrawn the preemption. `because` is the ledger's code. */
  | { readonly kind: "accept-preemption"; readonly unitId: string; readonly because: string }
  /** The step after the pods of the unit have ended: the unit waits again at its old position. */
  | { readonly kind: "requeue"; readonly unitId: string; readonly because: "preempted" }
  | { readonly kind: "create-companions"; readonly names: readonly string[]; readonly because: "missing" }
  | {
      readonly kind: "create-pods";
      readonly pods: readonly PodOrder[];
      readonly attempt: number;
      readonly because: "missing";
    }
  | {
      readonly kind: "delete-pod";
      readonly pod: string;
      readonly uid: string;
      readonly type: string;
      readonly because: DeleteReason;
    }
  | {
      readonly kind: "force-pod";
      readonly pod: string;
      readonly uid: string;
      readonly because: "machine-lost" | "preempted";
    }
  | { readonly kind: "create-service"; readonly service: string; readonly because: "missing" }
  | {
      readonly kind: "delete-service";
      readonly service: string;
      readonly because: StopReason | "scaled-down";
    }
  | { readonly kind: "sync-budget"; readonly minAvailable: number; readonly because: "missing" | "changed" }
  | { readonly kind: "delete-budget"; readonly because: StopReason | "handed-over" | "not-wanted" }
  | {
      readonly kind: "sync-group";
      readonly apiVersion: string;
      readonly group: GroupSpec;
      readonly because: "missing" | "changed";
    }
  | {
      readonly kind: "delete-group";
      readonly apiVersion: string;
      readonly because: StopReason | "handed-over" | "not-wanted";
    }
  | { readonly kind: "delete-job"; readonly because: "ttl-over" };

export type JobPlan = {
  /** Written before the steps that rely on it, and otherwise after them. */
  readonly status: JobStatus;
  readonly steps: readonly JobStep[];
  /** The time until the next pass without a change; undefined if no pass is due. */
  readonly recheckInMs: number | undefined;
};
