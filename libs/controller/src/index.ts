export { runController } from "./controller.ts";
export type { Lead, Reconcile, Reconciled } from "./controller.ts";
export { tokenBucket } from "./rate-limiter.ts";
export { inPass, reconciler } from "./reconciler.ts";
export type { Observed, Passes, PassSpan, PlannedStep, Round } from "./reconciler.ts";
export { runParts } from "./run-parts.ts";
export { openStopGrace } from "./stop-grace.ts";
export { workQueue } from "./work-queue.ts";
export type { WorkQueue } from "./work-queue.ts";
