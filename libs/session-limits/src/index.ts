export { POD_NAME_LENGTH_MAX, SESSION_LIMITS, sessionTextBytes } from "./session-limits.ts";
export type { SizedComponent } from "./session-limits.ts";
