import fc from "fast-check";
import { expect, it } from "vitest";
import type { Unavailability } from "./demand.ts";
import {
  buildMark,
  buildShortages,
  dropExpired,
  rememberShortage,
  REMEMBERED_MS,
  type RequestedInstance,
  type CapacityShortage,
} from "./unavailability.ts";

const spot: RequestedInstance = { provider: "cloud", instanceType: "large", spot: true };
const onDemand: RequestedInstance = { ...spot, spot: false };
const full = (zone?: string, subnet?: string): CapacityShortage => ({
  kind: "no-capacity",
  zone,
  subnet,
  message: "full",
});

function memoryOf(...marks: readonly Unavailability[]): readonly Unavailability[] {
  return marks.reduce<readonly Unavailability[]>(rememberShortage, []);
}

it("remembers a shortage for ten minutes, to the millisecond", () => {
  const memory = memoryOf(buildMark(spot, full(), 1000));
  const isShort = (nowMs: number) => buildShortages(memory, nowMs).isUnavailable("cloud", "large", true, undefined);
  expect(REMEMBERED_MS).toBe(600_000);
  expect(isShort(1000 + 599_999)).toBe(true);
  expect(isShort(1000 + 600_000)).toBe(false);
});

it("does not extend the time when the shortage is found again", () => {
  const memory = memoryOf(buildMark(spot, full(), 1000), buildMark(spot, full(), 500_000));
  expect(memory).toEqual([buildMark(spot, full(), 1000)]);
});

it("remembers it again if it is found after its expiry", () => {
  const memory = memoryOf(buildMark(spot, full(), 1000), buildMark(spot, full(), 601_000));
  expect(memory).toEqual([buildMark(spot, full(), 601_000)]);
});

it("marks only spot for a shortage of spot, and only on-demand for one of on-demand", () => {
  const short = (asked: RequestedInstance) => buildShortages(memoryOf(buildMark(asked, full(), 0)), 1);
  expect(short(spot).isUnavailable("cloud", "large", true, undefined)).toBe(true);
  expect(short(spot).isUnavailable("cloud", "large", false, undefined)).toBe(false);
  expect(short(onDemand).isUnavailable("cloud", "large", true, undefined)).toBe(false);
  expect(short(onDemand).isUnavailable("cloud", "large", false, undefined)).toBe(true);
});

it("marks a type without spot as unavailable for spot, in all zones", () => {
  const found = buildMark(spot, { kind: "unsupported", message: "no spot" }, 0);
  expect(found).toMatchObject({ spot: true, zone: undefined, subnet: undefined, message: "no spot" });
  const shortages = buildShortages([found], 1);
  expect(shortages.isUnavailable("cloud", "large", true, "a")).toBe(true);
  expect(shortages.isUnavailable("cloud", "large", false, "a")).toBe(false);
});

it.each<[string, CapacityShortage, { a: boolean; b: boolean; any: boolean }]>([
  ["a zone", full("a"), { a: true, b: false, any: false }],
  ["a subnet whose zone is known", full("a", "subnet-1"), { a: true, b: false, any: false }],
  ["a subnet whose zone is not known", full(undefined, "subnet-1"), { a: true, b: true, any: true }],
  ["everywhere", full(), { a: true, b: true, any: true }],
])("records the scope of a shortage: %s", (_scope, shortage, expected) => {
  const shortages = buildShortages([buildMark(spot, shortage, 0)], 1);
  const isShort = (zone?: string) => shortages.isUnavailable("cloud", "large", true, zone);
  expect({ a: isShort("a"), b: isShort("b"), any: isShort() }).toEqual(expected);
});

it("distinguishes providers and instance types", () => {
  const shortages = buildShortages([buildMark(spot, full(), 0)], 1);
  expect(shortages.isUnavailable("other", "large", true, undefined)).toBe(false);
  expect(shortages.isUnavailable("cloud", "small", true, undefined)).toBe(false);
});

it("finds the oldest mark that covers a zone, in whatever order they are recorded", () => {
  const marks = [buildMark(spot, full("a"), 200), buildMark(spot, full(), 100), buildMark(spot, full("b"), 50)];
  for (const memory of [marks, marks.toReversed()]) {
    expect(buildShortages(memory, 300).find("cloud", "large", true, "a")?.sinceMs).toBe(100);
  }
});

const kinds = fc.record<RequestedInstance>({
  provider: fc.constantFrom("cloud", "other"),
  instanceType: fc.constantFrom("large", "small"),
  spot: fc.boolean(),
});
const findings = fc.array(
  fc.record({
    asked: kinds,
    shortage: fc.constantFrom(full(), full("a"), full("b"), full("a", "s1"), full(undefined, "s2")),
    afterMs: fc.integer({ min: 0, max: 400_000 }),
  }),
  { maxLength: 20 },
);

it("answers after any history, swept or not, as a search through all marks would", () => {
  fc.assert(
    fc.property(findings, kinds, fc.constantFrom(undefined, "a", "b"), (history, asked, zone) => {
      let nowMs = 0;
      let memory: readonly Unavailability[] = [];
      for (const { asked: kind, shortage, afterMs } of history) {
        nowMs += afterMs;
        memory = rememberShortage(memory, buildMark(kind, shortage, nowMs));
      }
      const covering = memory.some(
        (entry) =>
          entry.provider === asked.provider &&
          entry.instanceType === asked.instanceType &&
          entry.spot === asked.spot &&
          (entry.zone === undefined || entry.zone === zone) &&
          nowMs < entry.untilMs,
      );
      for (const kept of [memory, dropExpired(memory, nowMs)]) {
        const shortages = buildShortages(kept, nowMs);
        expect(shortages.isUnavailable(asked.provider, asked.instanceType, asked.spot, zone)).toBe(covering);
      }
      expect(dropExpired(memory, nowMs).every(({ untilMs }) => untilMs > nowMs)).toBe(true);
      expect(memory.every(({ sinceMs, untilMs }) => untilMs - sinceMs === REMEMBERED_MS)).toBe(true);
    }),
  );
});

it("marks a zone that the provider does not have", () => {
  const shortage: CapacityShortage = {
    ...full("zone-x"),
    kind: "no-capacity",
    zone: "zone-x",
    subnet: undefined,
    isUnknownZone: true,
  };
  expect(buildMark(spot, shortage, 1000)).toMatchObject({ zone: "zone-x", isUnknownZone: true });
  expect(buildMark(spot, full("zone-x"), 1000)).not.toHaveProperty("isUnknownZone");
});
