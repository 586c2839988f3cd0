import { metrics } from "@opentelemetry/api";

/** Statuses of answers that refuse a request for its user: without a valid token, without the right, above the rate. */
const REFUSALS: ReadonlySet<number> = new Set([401, 403, 429]);

/** Counts the answers that refuse a request. Created once per server, after telemetry has started. */
export function refusalCounter(): (status: number) => void {
  const refusals = metrics.getMeter("@muster/gateway").createCounter("muster.gateway.refusals", {
    unit: "{request}",
    description:
      "Requests over HTTP that were refused, by status: no valid token (401), no right (403), above a rate (429)",
  });
  return (status) => {
    if (REFUSALS.has(status)) refusals.add(1, { "muster.gateway.status": String(status) });
  };
}
