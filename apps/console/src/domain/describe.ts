import { formatDuration } from "@muster/faults";
import type { JobEvent, WaitReason } from "../adapters/messages.ts";

/** Formats the time between two moments with at most its two largest units: `3m`, `2h5m`. */
export function formatAge(fromMs: number, nowMs: number): string {
  const ms = Math.max(0, nowMs - fromMs);
  if (ms < 1000) return "0s";
  const units = [86_400_000, 3_600_000, 60_000, 1000];
  const largest = units.findIndex((unit) => ms >= unit);
  const smallest = units[Math.min(largest + 1, units.length - 1)] ?? 1000;
  return formatDuration(Math.floor(ms / smallest) * smallest);
}

/** Formats `2026-03-01 12:00:05` in the zone of the browser. */
export function formatTime(ms: number): string {
  if (ms === 0) return "";
  const date = new Date(ms);
  const two = (value: number): string => String(value).padStart(2, "0");
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return `${day} ${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

/** Formats ` (x3 over 5m)` like kubectl; empty for the first occurrence of an event. */
export function describeRepeats({ count, firstAtMs, atMs }: JobEvent): string {
  if (count <= 1) return "";
  return firstAtMs > 0 && firstAtMs < atMs ? ` (x${count} over ${formatAge(firstAtMs, atMs)})` : ` (x${count})`;
}

/** Formats an amount of a resource for people: cores for cpu, binary units for bytes. */
export function formatAmount(resource: string, amount: number): string {
  if (resource === "cpu") return String(amount / 1000);
  if (!/memory|storage/.test(resource)) return String(amount);
  const units = ["", "Ki", "Mi", "Gi", "Ti", "Pi"];
  const power = amount < 1 ? 0 : Math.min(units.length - 1, Math.floor(Math.log2(amount) / 10));
  const value = amount / 1024 ** power;
  return `${Number.isInteger(value) ? value : value.toFixed(1)}${units[power] ?? ""}`;
}

/** Describes why a reservation waits, for people. */
export function describeWait({ code, pool, requested, available, ahead, queue, quota }: WaitReason): string {
  const ofPool = pool === "" ? "machines" : `machines of ${pool}`;
  switch (code) {
    case "POOL_AVAILABILITY":
      return `${requested} ${ofPool} are needed, and ${available} are free`;
    case "HELD_FOR_OLDER":
      return `${ofPool} are kept for an older request`;
    case "CONCURRENCY_LIMIT":
      return "as many of this kind have machines as the limit allows";
    case "POOLS_NOT_KNOWN_YET":
      return "the watcher has not listed all nodes yet";
    case "POOL_TOO_SMALL":
      return `${requested} ${ofPool} are needed, which is more than the pool has`;
    case "WAITING_FOR_TOPOLOGY":
      return `${requested} ${ofPool} are needed in one domain, and ${available} are free`;
    case "WAITING_FOR_QUOTA":
      return quota === undefined
        ? `the quota of ${queue} does not suffice`
        : `${queue} needs ${formatAmount(quota.resource, quota.requested)} ${quota.resource}, and can get ${formatAmount(quota.resource, quota.available)}`;
    case "KEPT_FOR_OWNER":
      return "the quota that it would borrow is kept for its owner";
    case "BEHIND_STRICT_HEAD":
      return `${queue} is strict, and another request is first`;
    case "QUEUE_UNKNOWN":
      return `queue ${queue} does not exist`;
    case "QUEUE_HELD":
      return `queue ${queue} admits nothing`;
    case "FRAGMENTED":
      return `the free amounts of ${pool} suffice in sum, but not on single machines`;
    case "BEHIND_HIGHER_PRIORITY":
      return "the machines or quota that it needs are kept for a request of higher priority";
    case "BEHIND_FAIR_SHARE":
      return "the machines or quota that it needs are kept for a request of a queue that has less of its share";
    case "WAITING_FOR_PREEMPTED":
      return "the work that is preempted for it has not ended yet";
    default:
      return ahead > 0 ? `${ahead} requests are ahead` : "";
  }
}

const ESCAPE = String.fromCodePoint(0x1b);
const BELL = String.fromCodePoint(0x07);
/** Matches terminal sequences, carriage returns, and every control character except tabs and line ends. */
const CONTROLS = new RegExp(
  [
    `${ESCAPE}\\[[0-?]*[ -/]*[@-~]`,
    `${ESCAPE}\\][^${BELL}${ESCAPE}]*(?:${BELL}|${ESCAPE}\\\\)`,
    `${ESCAPE}[@-Z\\\\-_]`,
    "(?![\\t\\n])\\p{Cc}",
  ].join("|"),
  "gu",
);

/** Removes all text that a terminal would interpret: colours, cursor movements, control characters. */
export function cleanLog(text: string): string {
  return text.replaceAll(CONTROLS, "");
}
