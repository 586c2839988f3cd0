import type { ForcePolicy } from "@muster/health";
import type { SetAlerts } from "./adapters/alerts.ts";
import type { AuditLog } from "./adapters/audit-log.ts";
import type { FarmRecords } from "./adapters/records.ts";
import type { World } from "./adapters/views.ts";
import type { RolloutWait } from "./domain/decide-stuck.ts";
import type { ReplicaSet } from "./domain/replica-set.ts";
import type { Rollout } from "./domain/rollout.ts";
import type { SetPolicy } from "./domain/set-snapshot.ts";
import type { MachineDeps, MachinesOwned } from "./pass-machines.ts";
import type { PodDeps, PodsOwned } from "./pass-pods.ts";

/** The dependencies of passes over sets. */
export type PassDeps = PodDeps & {
  readonly newId: () => string;
  readonly sets: FarmRecords<ReplicaSet>;
  readonly rollouts: FarmRecords<Rollout>;
  readonly world: Pick<World, "nodesFor" | "podsOf" | "occupied" | "takenFrom" | "contestFor" | "rollout">;
  readonly auditLog: Pick<AuditLog, "publish">;
  readonly scheduler: MachineDeps["scheduler"];
  readonly queueOf: MachineDeps["queueOf"];
  readonly templateHash: (set: ReplicaSet) => string;
  /** Whether the stored records look like the loss of all records. */
  readonly failsafe: () => boolean;
  readonly policy: SetPolicy;
  readonly force: ForcePolicy;
  /** Pods and rolling updates raise an alert after being unhealthy or stuck for this long. */
  readonly unhealthyMs: number;
  readonly alerts: Pick<SetAlerts, "raise" | "resolve">;
};

/** A set that a farm owns, and the farm's memory of it. */
export type SetOwnership = MachinesOwned &
  PodsOwned & {
    /** Since when the pod of each placement has been unready. */
    readonly unreadySince: Map<number, number>;
    rolloutWait: RolloutWait | undefined;
    /** True if no former owner of the rolling update of this name can still write its sets. */
    isRolloutFenced: boolean;
    /** The traceparent of the last request, once all of its effects are complete: later changes belong to no request. */
    doneUnder: string | undefined;
    /** Why no pass follows: the set is gone, another farm owns it, or this farm has to release it. */
    end: "gone" | "lost" | "released" | undefined;
  };
