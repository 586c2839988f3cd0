import { metrics } from "@opentelemetry/api";
import type { Logger } from "./logger.ts";

/** Ids of other installations that one line names. */
const MAX_NAMED = 10;

/**
 * Builds the report of a sweep that keeps objects of other installations. Each sweep passes the installation id of each kept object. Logs every change of their
 * number, and exports the number as a metric by `what`, which has few values. `own`: id of this installation.
 */
export function reportForeignObjects(
  logger: Pick<Logger, "info" | "warn">,
  { what, own }: { readonly what: string; readonly own: string },
): (installations: readonly string[]) => void {
  const gauge = metrics.getMeter("@muster/service").createGauge("muster.sweep.foreign", {
    unit: "{object}",
    description: "Objects of other installations that the last sweep has met, and left alone",
  });
  let before = 0;
  return (installations) => {
    const found = installations.length;
    gauge.record(found, { "muster.sweep.resource": what });
    if (found === before) return;
    before = found;
    const others = [...new Set(installations)].sort().slice(0, MAX_NAMED);
    if (found === 0) logger.info({ what, own }, "no objects of other installations are left");
    else logger.warn({ what, found, others, own }, "objects of other installations are left alone");
  };
}
