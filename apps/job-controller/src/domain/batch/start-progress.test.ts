import { annotations } from "@muster/proto";
import fc from "fast-check";
import { expect, it } from "vitest";
import { formatStartProgress, NO_PROGRESS, PROGRESS_ANNOTATION, readStartProgress } from "./start-progress.ts";

const timeMs = fc.option(fc.integer({ min: 0, max: 4_000_000_000_000 }), { nil: undefined });

it("reads what it has written, from the annotation of progress", () => {
  const progress = fc.record({
    startMs: timeMs,
    regrouping: fc.boolean(),
    readyTimeouts: fc.nat(),
    lastReadyTimeoutMs: timeMs,
  });
  fc.assert(
    fc.property(progress, (given) => {
      expect(readStartProgress(formatStartProgress(given))).toEqual(given);
    }),
  );
  expect(formatStartProgress(NO_PROGRESS)).toBeUndefined();
  expect(PROGRESS_ANNOTATION).toBe(annotations.progress);
});

it.each([
  undefined,
  "",
  "{",
  "null",
  "[2]",
  '"text"',
  '{"startTime":5,"regrouping":"true","readyTimeouts":-1,"lastReadyTimeout":"soon"}',
  '{"readyTimeouts":1.5,"startTime":"no time"}',
])("ignores %s", (text) => {
  expect(readStartProgress(text)).toEqual(NO_PROGRESS);
});
