import { describeFault, type Fault } from "@muster/faults";

/** Maps each area of the bus to its service. */
const APPS: ReadonlyMap<string, string> = new Map([
  ["session", "session-controller"],
  ["job", "job-controller"],
  ["reservation", "reservation-manager"],
  ["watch", "watcher"],
  ["farm", "replication-farm"],
  ["node", "node-scaler"],
  ["provision", "provision-engine"],
]);

/** In these services only the leader answers; other replicas do not. */
export const LEADER_ONLY: ReadonlySet<string> = new Set(["reservation-manager", "node-scaler"]);

/** Returns the app that serves an area of the bus. */
export function getAppOfArea(area: string): string {
  return APPS.get(area) ?? area;
}

/** Describes a fault in the user's terms: an area of the bus without a server is a service that does not answer. */
export function describeTrouble(fault: Fault): string {
  const service = fault.code === "unavailable" ? APPS.get(fault.dependency) : undefined;
  return service === undefined
    ? describeFault(fault)
    : `the ${service} service does not answer: no replica of it is connected${LEADER_ONLY.has(service) ? " and leads" : ""}`;
}
