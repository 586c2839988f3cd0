const NS_PER_MS = 1_000_000n;
const NS_PER_S = 1_000_000_000n;

/** The maximum of 64 bits: a lease of this duration never ends. */
export const MAX_DURATION_NS = 2n ** 63n - 1n;

/** A Timestamp or Duration of protobuf. */
type SecondsAndNanos = { readonly seconds: number; readonly nanos: number };

export function toNanoseconds({ seconds, nanos }: SecondsAndNanos): bigint {
  return BigInt(seconds) * NS_PER_S + BigInt(nanos);
}

export function toNanosecondsFromMs(ms: number): bigint {
  return BigInt(ms) * NS_PER_MS;
}

/** Converts a time: before 1970 seconds are negative, and nanoseconds count forward. */
export function toTimestamp(ns: bigint): SecondsAndNanos {
  const nanos = ((ns % NS_PER_S) + NS_PER_S) % NS_PER_S;
  return { seconds: Number((ns - nanos) / NS_PER_S), nanos: Number(nanos) };
}

/** Converts a duration: seconds and nanoseconds have the same sign. */
export function toDuration(ns: bigint): SecondsAndNanos {
  return { seconds: Number(ns / NS_PER_S), nanos: Number(ns % NS_PER_S) };
}

/** Returns the end of an order that is not renewed. */
export function computeEndNs(order: { readonly createdNs: bigint; readonly durationNs: bigint }): bigint {
  return order.createdNs + order.durationNs;
}

/** Whether the lease has ended: strictly after its end, so that the lease has its whole duration. */
export function isOver(endsAtNs: bigint, nowNs: bigint): boolean {
  return nowNs > endsAtNs;
}

/** Milliseconds until the end: at least 0, rounded up, at most `maxTimerMs`. */
export function waitMsUntil(endsAtNs: bigint, nowNs: bigint, maxTimerMs: number): number {
  if (isOver(endsAtNs, nowNs)) return 0;
  const waitMs = (endsAtNs - nowNs) / NS_PER_MS + 1n;
  return waitMs > BigInt(maxTimerMs) ? maxTimerMs : Number(waitMs);
}

const RFC3339 = /^(\d{4}-\d{2}-\d{2})[Tt](\d{2}:\d{2}:\d{2})(?:\.(\d{1,9}))?([Zz]|[+-]\d{2}:\d{2})$/;

/** Parses RFC 3339 with up to nine decimals; undefined if it is invalid. */
export function parseRfc3339(text: string): bigint | undefined {
  const [, date, time, decimals = "", zone = ""] = RFC3339.exec(text) ?? [];
  if (date === undefined || time === undefined) return undefined;
  const utc = new Date(`${date}T${time}Z`);
  const atMs = Date.parse(`${date}T${time}${zone.toUpperCase()}`);
  // Date.parse would accept February 30 as a day of March.
  if (Number.isNaN(atMs) || utc.toISOString() !== `${date}T${time}.000Z`) return undefined;
  return toNanosecondsFromMs(atMs) + BigInt(decimals.padEnd(9, "0"));
}

/** Formats RFC 3339 in UTC with the necessary decimals; a time outside of the range of Date in nanoseconds. */
export function formatRfc3339(ns: bigint): string {
  const { seconds, nanos } = toTimestamp(ns);
  const date = new Date(seconds * 1000);
  if (Number.isNaN(date.getTime())) return `${ns}ns`;
  const decimals = String(nanos).padStart(9, "0").replace(/0+$/, "");
  return `${date.toISOString().slice(0, -5)}${decimals === "" ? "" : `.${decimals}`}Z`;
}

const UNIT_NS = {
  d: 86_400n * NS_PER_S,
  h: 3600n * NS_PER_S,
  m: 60n * NS_PER_S,
  s: NS_PER_S,
  ms: NS_PER_MS,
  us: 1000n,
  ns: 1n,
} as const;
type Unit = keyof typeof UNIT_NS;
const UNITS = ["d", "h", "m", "s", "ms", "us", "ns"] as const satisfies readonly Unit[];

const FOREVER = "forever";
const DURATION = /^(?:\d{1,20}(?:ms|us|ns|d|h|m|s))+$/;
const DURATION_PART = /(\d+)(ms|us|ns|d|h|m|s)/g;

/** Parses `2h`, `1d12h`, `90s` and `forever`; undefined if it is invalid or above MAX_DURATION_NS. */
export function parseDurationNs(text: string): bigint | undefined {
  if (text === FOREVER) return MAX_DURATION_NS;
  if (text.length > 128 || !DURATION.test(text)) return undefined;
  let ns = 0n;
  for (const [, amount = "", unit] of text.matchAll(DURATION_PART)) ns += BigInt(amount) * UNIT_NS[unit as Unit];
  return ns <= MAX_DURATION_NS ? ns : undefined;
}

/** The inverse of `parseDurationNs`. */
export function formatDurationNs(ns: bigint): string {
  if (ns === MAX_DURATION_NS) return FOREVER;
  let rest = ns;
  let text = "";
  for (const unit of UNITS) {
    const amount = rest / UNIT_NS[unit];
    rest %= UNIT_NS[unit];
    if (amount > 0n) text += `${amount}${unit}`;
  }
  return text === "" ? "0s" : text;
}
