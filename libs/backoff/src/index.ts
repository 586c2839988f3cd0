export { backoffMs, pause, TIMER_MS_MAX, within } from "./backoff.ts";
export type { BackoffLimits } from "./backoff.ts";
