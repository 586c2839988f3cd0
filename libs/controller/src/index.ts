export { runController } from "./controller.ts";
export type { ControllerOptions, Lead, Reconcile, Reconciled } from "./controller.ts";
export { DEFAULT_RATE_LIMITS, rateLimiter, tokenBucket } from "./rate-limiter.ts";
export type { RateLimiter, RateLimits } from "./rate-limiter.ts";
export { reconciler } from "./reconciler.ts";
export type { Observed, Passes, PassSpan, PlannedStep, Round } from "./reconciler.ts";
export { startResync } from "./resync.ts";
export { workQueue } from "./work-queue.ts";
export type { Priority, WorkQueue, WorkQueueOptions, WorkQueueStats } from "./work-queue.ts";
