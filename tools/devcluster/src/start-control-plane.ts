import { type NodeLifecycleOptions, startNodeLifecycle } from "./node-lifecycle/start-node-lifecycle.ts";
import { type SchedulerOptions, startScheduler } from "./scheduler/start-scheduler.ts";

export type ControlPlaneOptions = SchedulerOptions & NodeLifecycleOptions;

/** Starts the parts of a cluster beside its API server: the scheduler and the node lifecycle. Disposing leaves every decision unchanged. */
export async function startControlPlane(options: ControlPlaneOptions): Promise<AsyncDisposable> {
  await using started = new AsyncDisposableStack();
  started.use(await startScheduler(options));
  started.use(await startNodeLifecycle(options));
  return started.move();
}
