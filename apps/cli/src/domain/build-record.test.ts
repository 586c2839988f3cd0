import fc from "fast-check";
import { expect, it } from "vitest";
import { buildRecord } from "./build-record.ts";

it.each<[object, object]>([
  [{ createdAtMs: 0 }, { createdAt: "1970-01-01T00:00:00.000Z" }],
  [{ atMs: 1500 }, { at: "1970-01-01T00:00:01.500Z" }],
  [
    { sinceMs: 0, waitingSinceMs: 1 },
    { since: "1970-01-01T00:00:00.000Z", waitingSince: "1970-01-01T00:00:00.001Z" },
  ],
  [{ holders: [{ owner: "job/a", sinceMs: 0 }] }, { holders: [{ owner: "job/a", since: "1970-01-01T00:00:00.000Z" }] }],
  [{ hold: { drainUntilMs: 0 } }, { hold: { drainUntil: "1970-01-01T00:00:00.000Z" } }],
  [{ intervalMs: 90_000 }, { interval: "1m30s" }],
  [
    { grantedAtMs: undefined, timeoutMs: undefined },
    { grantedAt: undefined, timeout: undefined },
  ],
  [{ createdAtMs: Number.MAX_VALUE }, { createdAt: undefined }],
  [
    { atMs: "later", Ms: [1, null] },
    { atMs: "later", Ms: [1, null] },
  ],
])("writes %j as %j", (value, record) => {
  expect(JSON.stringify(buildRecord(value))).toBe(JSON.stringify(record));
});

it("replaces each number whose name ends in Ms, and keeps everything else", () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      const text = JSON.stringify(buildRecord({ value, seenAtMs: 5 }));
      expect(text).not.toMatch(/Ms":-?\d/);
      // JSON has no -0.
      const written: unknown = JSON.parse(JSON.stringify(value));
      if (!/Ms"/.test(JSON.stringify(value))) expect(JSON.parse(text)).toMatchObject({ value: written });
    }),
  );
});
