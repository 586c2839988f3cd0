import type { Logger } from "@muster/service";
import type { PassDeps } from "./pass-deps.ts";
import type { World } from "./adapters/views.ts";
import type { FarmPods } from "./adapters/pods.ts";
import type { PoolScheduler } from "./adapters/pool-scheduler.ts";

export type FarmDeps = {
  readonly pass: PassDeps;
  readonly world: World;
  readonly pods: Pick<FarmPods, "list" | "delete">;
  readonly scheduler: Pick<PoolScheduler, "list" | "deallocate" | "onChange">;
  readonly logger: Pick<Logger, "info" | "warn" | "error">;
  /** Receives the installation of each foreign pod that the sweep has found. */
  readonly reportForeign: (installations: readonly string[]) => void;
  readonly resyncMs: number;
  readonly sweepMs: number;
};
