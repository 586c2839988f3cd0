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

/** Whether Muster sets the environment variable itself in the pods of a session; the value of a component would have no effect. */
export function isReservedEnvName(name: string): boolean {
  return RESERVED.has(name) || name.startsWith("MUSTER_");
}
