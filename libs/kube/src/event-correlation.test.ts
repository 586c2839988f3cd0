import { makeFixedClock } from "@muster/testkit";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { DEFAULT_EVENT_LIMITS, makeEventCorrelation, type EventLimits, type EventTarget } from "./event-correlation.ts";
import { makeRecentMap } from "./recent-map.ts";

const pod: EventTarget = { apiVersion: "v1", kind: "Pod", namespace: "ns", name: "p", uid: "1" };
const many = { burst: 1_000_000 };

function correlated(limits: Partial<EventLimits> = many) {
  const clock = makeFixedClock(0);
  const correlation = makeEventCorrelation({ ...DEFAULT_EVENT_LIMITS, ...limits }, clock.now);
  const observe = (
    message: string,
    more: { reason?: string; target?: EventTarget; type?: "Normal" | "Warning" } = {},
  ) =>
    correlation.observe(
      more.target ?? pod,
      { type: more.type ?? "Normal", reason: more.reason ?? "Made", message },
      clock.now(),
    );
  return { clock, observe, correlation };
}

describe("an event", () => {
  it("equal to an earlier one is counted, with the times of the first and the last", () => {
    const { clock, observe } = correlated();
    observe("a");
    clock.advance(5000);
    expect(observe("a").occurrence).toMatchObject({ message: "a", count: 2, firstMs: 0, lastMs: 5000 });
  });

  it.each<[string, Parameters<ReturnType<typeof correlated>["observe"]>[1]]>([
    ["reason", { reason: "Lost" }],
    ["type", { type: "Warning" }],
    ["object", { target: { ...pod, name: "q" } }],
    ["object of the same name", { target: { ...pod, uid: "2" } }],
  ])("of another %s is another event", (_title, more) => {
    const { observe } = correlated();
    observe("a");
    expect(observe("a", more).occurrence.count).toBe(1);
  });

  it("stays separate until ten differ only in their message, and is then combined", () => {
    const { observe } = correlated();
    const first = Array.from({ length: 10 }, (_, at) => observe(`m${at}`).occurrence);
    expect(new Set(first.map(({ key }) => key)).size).toBe(10);
    const [eleventh, twelfth] = [observe("m10").occurrence, observe("m11").occurrence];
    expect(twelfth).toBe(eleventh);
    expect(twelfth).toMatchObject({ message: "(combined from similar events): m11", count: 2 });
    expect(observe("m3").occurrence).toMatchObject({ message: "m3", count: 2 });
    expect(observe("m0", { reason: "Lost" }).occurrence.message).toBe("m0");
  });

  it("is separate again after ten minutes without a similar one", () => {
    const { clock, observe } = correlated();
    for (let at = 0; at < 20; at += 1) observe(`m${at}`);
    clock.advance(10 * 60_000);
    expect(observe("new").occurrence.message).toMatch(/^\(combined/);
    clock.advance(10 * 60_000 + 1);
    expect(observe("newer").occurrence.message).toBe("newer");
  });

  it("is not written after 25 about its object; then one is written every five minutes", () => {
    const { clock, observe } = correlated({});
    const writes = (times: number) => Array.from({ length: times }, () => observe("a").write).filter(Boolean).length;
    expect(writes(100)).toBe(25);
    expect(observe("a", { target: { ...pod, name: "other" } }).write).toBe(true);
    clock.advance(5 * 60_000 - 1);
    expect(writes(10)).toBe(0);
    clock.advance(1);
    expect(writes(10)).toBe(1);
    expect(observe("a").occurrence.count).toBe(121);
  });

  it("is truncated to the limit of the API", () => {
    expect(correlated().observe("x".repeat(5000)).occurrence.message).toHaveLength(1024);
  });
});

it("counts every event exactly once, combined or not", () => {
  const event = fc.record({
    message: fc.integer({ min: 0, max: 30 }).map(String),
    reason: fc.constantFrom("A", "B"),
    gapMs: fc.oneof(fc.constant(0), fc.constant(11 * 60_000)),
  });
  fc.assert(
    fc.property(fc.array(event, { maxLength: 200 }), (events) => {
      const { clock, observe } = correlated();
      const seen = new Set<ReturnType<typeof observe>["occurrence"]>();
      for (const { message, reason, gapMs } of events) {
        clock.advance(gapMs);
        seen.add(observe(message, { reason }).occurrence);
      }
      expect([...seen].reduce((sum, { count }) => sum + count, 0)).toBe(events.length);
    }),
  );
});

it("remembers a limited number of events", () => {
  const { observe, correlation } = correlated({ ...many, maxRemembered: 5, maxSimilar: 100 });
  const keys = Array.from({ length: 8 }, (_, at) => observe(`m${at}`).occurrence.key);
  expect(keys.map((key) => correlation.get(key)?.message)).toEqual([
    ...[0, 1, 2].map(() => undefined),
    ...[3, 4, 5, 6, 7].map((at) => `m${at}`),
  ]);
});

it("forgets the least recently used", () => {
  const map = makeRecentMap<string>(2);
  for (const key of ["a", "b", "a", "c"]) map.getOr(key, () => key);
  expect(["a", "b", "c"].map((key) => map.get(key))).toEqual(["a", undefined, "c"]);
  expect(map.size).toBe(2);
});
