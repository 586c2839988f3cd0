const NS_PER_MS = 1_000_000n;
const NS_PER_S = 1_000_000_000n;

/** The largest that 64 bits hold: a lease of this duration never ends. */
export const DURATION_NS_MAX = 2n ** 63n - 1n;

/** As protobuf's Timestamp and Duration have them. */
export type SecondsAndNanos = { readonly seconds: number; readonly nanos: number };

export function nsFrom({ seconds, nanos }: SecondsAndNanos): bigint {
  return BigInt(seconds) * NS_PER_S + BigInt(nanos);
}

export function nsFromMs(ms: number): bigint {
  return BigInt(ms) * NS_PER_MS;
}

/** A time: what is before 1970 has negative seconds, and nanoseconds that count forward. */
export function timestampOf(ns: bigint): SecondsAndNanos {
  const nanos = ((ns % NS_PER_S) + NS_PER_S) % NS_PER_S;
  return { seconds: Number((ns - nanos) / NS_PER_S), nanos: Number(nanos) };
}

/** A duration: seconds and nanoseconds have one sign. */
export function durationOf(ns: bigint): SecondsAndNanos {
  return { seconds: Number(ns / NS_PER_S), nanos: Number(ns % NS_PER_S) };
}

/** When an order ends by itself. */
export function endOf(order: { readonly createdNs: bigint; readonly durationNs: bigint }): bigint {
  return order.createdNs + order.durationNs;
}

/** Over strictly after the time, so that a lease has all of its duration. */
export function isOver(endsAtNs: bigint, nowNs: bigint): boolean {
  return nowNs > endsAtNs;
}

/** Milliseconds until it is over: at least 0, rounded up, and never more than a timer can hold. */
export function waitMsUntil(endsAtNs: bigint, nowNs: bigint, timerMsMax: number): number {
  if (isOver(endsAtNs, nowNs)) return 0;
  const waitMs = (endsAtNs - nowNs) / NS_PER_MS + 1n;
  return waitMs > BigInt(timerMsMax) ? timerMsMax : Number(waitMs);
}

const RFC3339 = /^(\d{4}-\d{2}-\d{2})[Tt](\d{2}:\d{2}:\d{2})(?:\.(\d{1,9}))?([Zz]|[+-]\d{2}:\d{2})$/;

/** RFC 3339 with up to nine decimals; undefined: it is none. */
export function parseRfc3339(text: string): bigint | undefined {
  const [, date, time, decimals = "", zone = ""] = RFC3339.exec(text) ?? [];
  if (date === undefined || time === undefined) return undefined;
  const utc = new Date(`${date}T${time}Z`);
  const atMs = Date.parse(`${date}T${time}${zone.toUpperCase()}`);
  // The 30th of February would otherwise be taken for a day of March.
  if (Number.isNaN(atMs) || utc.toISOString() !== `${date}T${time}.000Z`) return undefined;
  return nsFromMs(atMs) + BigInt(decimals.padEnd(9, "0"));
}
