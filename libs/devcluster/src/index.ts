export { startScheduler } from "./scheduler/start-scheduler.ts";
export type { SchedulerOptions } from "./scheduler/start-scheduler.ts";
