import { startScheduler, type SchedulerOptions } from "./scheduler/start-scheduler.ts";

export type ControlPlaneOptions = SchedulerOptions;

/** What a cluster needs beside its API server: somebody who places pods. Disposing leaves every decision as it is. */
export async function startControlPlane(options: ControlPlaneOptions): Promise<AsyncDisposable> {
  return startScheduler(options);
}
