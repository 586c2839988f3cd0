import { type NodeLifecycleOptions, startNodeLifecycle } from "./node-lifecycle/start-node-lifecycle.ts";
import { type SchedulerOptions, startScheduler } from "./scheduler/start-scheduler.ts";

export type ControlPlaneOptions = SchedulerOptions & NodeLifecycleOptions;

/** What a cluster needs beside its API server: somebody who places pods, and somebody who watches over nodes. Disposing leaves every decision as it is. */
export async function startControlPlane(options: ControlPlaneOptions): Promise<AsyncDisposable> {
  await using started = new AsyncDisposableStack();
  started.use(await startScheduler(options));
  started.use(await startNodeLifecycle(options));
  return started.move();
}
