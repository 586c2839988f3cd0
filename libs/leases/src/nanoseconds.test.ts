import fc from "fast-check";
import { expect, it } from "vitest";
import {
  MAX_DURATION_NS,
  toDuration,
  computeEndNs,
  formatDurationNs,
  formatRfc3339,
  isOver,
  toNanoseconds,
  parseDurationNs,
  parseRfc3339,
  toTimestamp,
  waitMsUntil,
} from "./nanoseconds.ts";

const anyNs = fc.bigInt({ min: -MAX_DURATION_NS, max: MAX_DURATION_NS });
const maxTimerMs = 2 ** 31 - 1;

it("keeps every nanosecond of times and durations, also beyond 2^53", () => {
  expect(toDuration(MAX_DURATION_NS)).toEqual({ seconds: 9_223_372_036, nanos: 854_775_807 });
  fc.assert(
    fc.property(anyNs, (ns) => {
      expect(toNanoseconds(toDuration(ns))).toBe(ns);
      expect(toNanoseconds(toTimestamp(ns))).toBe(ns);
      expect(toTimestamp(ns).nanos).toBeGreaterThanOrEqual(0);
    }),
  );
});

it("is over strictly after the end", () => {
  const endsAt = computeEndNs({ createdNs: 1_000n, durationNs: 500n });
  expect([1_499n, 1_500n, 1_501n].map((now) => isOver(endsAt, now))).toEqual([false, false, true]);
});

it("waits until it is over, and no longer than a timer holds", () => {
  const ns = fc.bigInt({ min: 0n, max: 10n ** 14n });
  expect(waitMsUntil(0n, 1n, maxTimerMs)).toBe(0);
  expect(waitMsUntil(MAX_DURATION_NS, 0n, maxTimerMs)).toBe(maxTimerMs);
  fc.assert(
    fc.property(ns, ns, (endsAt, now) => {
      const waitMs = waitMsUntil(endsAt, now, maxTimerMs);
      expect(isOver(endsAt, now + BigInt(waitMs) * 1_000_000n)).toBe(true);
      if (waitMs > 0) expect(isOver(endsAt, now + BigInt(waitMs - 1) * 1_000_000n)).toBe(false);
    }),
  );
});

it.each([
  ["1970-01-01T00:00:00Z", 0n],
  ["0001-01-01T00:00:00Z", -62_135_596_800_000_000_000n],
  ["2021-02-25T10:11:12.123456789Z", 1_614_247_872_123_456_789n],
  ["2021-02-25T12:11:12.1+02:00", 1_614_247_872_100_000_000n],
  ["1969-12-31T23:59:59.5Z", -500_000_000n],
  ["2021-02-30T00:00:00Z", undefined],
  ["2021-13-01T00:00:00Z", undefined],
  ["2021-02-25 10:11:12Z", undefined],
  ["2021-02-25T10:11:12", undefined],
  ["", undefined],
])("reads the time %j", (text, ns) => {
  expect(parseRfc3339(text)).toBe(ns);
});

it("reads every time that it writes as the same nanosecond", () => {
  expect(formatRfc3339(1_614_247_872_123_456_789n)).toBe("2021-02-25T10:11:12.123456789Z");
  expect(formatRfc3339(1_614_247_872_100_000_000n)).toBe("2021-02-25T10:11:12.1Z");
  expect(formatRfc3339(0n)).toBe("1970-01-01T00:00:00Z");
  fc.assert(fc.property(anyNs, (ns) => parseRfc3339(formatRfc3339(ns)) === ns));
});

it("reads every duration that it writes as the same nanosecond", () => {
  expect(formatDurationNs(MAX_DURATION_NS)).toBe("forever");
  fc.assert(
    fc.property(fc.bigInt({ min: 0n, max: MAX_DURATION_NS }), (ns) => parseDurationNs(formatDurationNs(ns)) === ns),
  );
});

it.each([
  ["2h", 7_200_000_000_000n],
  ["1d12h", 129_600_000_000_000n],
  ["90s", 90_000_000_000n],
  ["1ms1us1ns", 1_001_001n],
  ["forever", MAX_DURATION_NS],
  ["106751d", 9_223_286_400_000_000_000n],
  ["106752d", undefined],
  ["2", undefined],
  ["-2h", undefined],
  ["1.5h", undefined],
  ["2 h", undefined],
  ["", undefined],
])("reads the duration %j", (text, ns) => {
  expect(parseDurationNs(text)).toBe(ns);
});
