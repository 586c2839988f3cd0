import { formatDuration } from "@muster/faults";

/** Names of moments: `createdAtMs`, `sinceMs`, `untilMs`. Every other name that ends with `Ms` is a duration. */
const MOMENT = /(?:^at|At|^since|Since|^until|Until)Ms$/;

/**
 * Builds the stable format for `-o json` and `-o yaml` of Muster's data: at any depth, `createdAtMs` becomes `createdAt` in ISO 8601, and `timeoutMs` becomes
 * `timeout` as in documents. Foreign data, such as a result, must not pass through it, because their names stay.
 */
export function buildRecord(value: object): Record<string, unknown> {
  return Object.fromEntries(Object.entries(value).map(recordEntry));
}

function recordEntry([name, value]: readonly [string, unknown]): [string, unknown] {
  if (!name.endsWith("Ms") || (typeof value !== "number" && value !== undefined)) return [name, recordValue(value)];
  return [
    name.slice(0, -2),
    MOMENT.test(name) ? formatIsoTime(value) : value === undefined ? value : formatDuration(value),
  ];
}

function recordValue(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(recordValue);
  return typeof value === "object" && value !== null ? buildRecord(value) : value;
}

/** Omits dates that JavaScript cannot format. */
export function formatIsoTime(ms: number | undefined): string | undefined {
  if (ms === undefined) return undefined;
  const date = new Date(ms);
  return Number.isNaN(date.getTime()) ? undefined : date.toISOString();
}
