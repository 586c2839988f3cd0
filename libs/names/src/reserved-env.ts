const RESERVED = new Set([
  "POD_NAME",
  "POD_IP",
  "POD_TIMEOUT",
  "KILL_AFTER",
  "QPS_WORKERS",
  "SCENARIO_JSON",
  "WORKER_KIND",
  "DRIVER_PORT",
  "TRACEPARENT",
  "TRACESTATE",
]);

/** True for environment variables that Muster sets itself in the pods of a session; a component that sets one would not get its value. */
export function isReservedEnvName(name: string): boolean {
  return RESERVED.has(name) || name.startsWith("MUSTER_");
}
