import type { ForcePolicy } from "@muster/health";
import type { Alerts } from "./adapters/alerts.ts";
import type { AuditLog } from "./adapters/audit-log.ts";
import type { Records } from "./adapters/records.ts";
import type { World } from "./adapters/views.ts";
import type { ReplicaSet } from "./domain/replica-set.ts";
import type { Roll } from "./domain/roll.ts";
import type { SetPolicy } from "./domain/set-snapshot.ts";
import type { MachineDeps, MachinesOwned } from "./pass-machines.ts";
import type { PodDeps, PodsOwned } from "./pass-pods.ts";

/** What the passes over sets need from outside. */
export type PassDeps = PodDeps & {
  readonly newId: () => string;
  readonly sets: Records<ReplicaSet>;
  readonly rolls: Records<Roll>;
  readonly world: Pick<World, "nodesFor" | "podsOf" | "occupied" | "takenFrom" | "contestFor" | "roll">;
  readonly auditLog: Pick<AuditLog, "publish">;
  readonly scheduler: MachineDeps["scheduler"];
  readonly templateHash: (set: ReplicaSet) => string;
  /** What is known looks like the loss of everything. */
  readonly failsafe: () => boolean;
  readonly policy: SetPolicy;
  readonly force: ForcePolicy;
  /** What is not as it should be for so long is told. */
  readonly unhealthyMs: number;
  readonly alerts: Pick<Alerts, "raise" | "resolve">;
};

/** A set that a farm owns, and what is remembered of it as long as it does. */
export type Owned = MachinesOwned &
  PodsOwned & {
    /** Since when the pod of each place that is not ready has not been so. */
    readonly unreadySince: Map<number, number>;
    /** What the rolling update of this name has been waiting for, and since when. */
    rollWait: { readonly at: string; readonly sinceMs: number } | undefined;
    /** When time alone may let the rolling update of this name go on. */
    rollAtMs: number;
    /** The traceparent of what was asked for last, once all of it was done: what comes after it nobody has asked for. */
    doneUnder: string | undefined;
  };
