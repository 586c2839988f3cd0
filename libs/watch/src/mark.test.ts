import { bucketKeys } from "@muster/proto";
import { expect, it } from "vitest";
import { followMark } from "./mark.ts";

const FRESH_MS = 90_000;
const NOW_MS = 1_700_000_000_000;
const HOUR_MS = 3_600_000;

it.each([
  ["as soon as it is written", 0, [], true],
  ["until it is too old", -FRESH_MS, [], true],
  ["not when it is too old", -FRESH_MS - 1, [], false],
  ["not when it is too far ahead", FRESH_MS + 1, [], false],
  ["not when the time comes that it names, and it was never renewed", HOUR_MS, [HOUR_MS], false],
  ["when the time comes that it names, and it is renewed", HOUR_MS, [HOUR_MS - FRESH_MS, FRESH_MS], true],
])("accepts a mark %s", (_title, aheadMs, steps, believed) => {
  let monotonicMs = 5;
  let renew = (_key: string): void => undefined;
  const marks = {
    onChange: (listener: (key: string) => void) => {
      renew = listener;
      return () => undefined;
    },
  };
  const isBelieved = followMark(marks, () => NOW_MS + aheadMs, { freshMs: FRESH_MS, monotonicMs: () => monotonicMs });
  const [first = 0, second = 0] = steps;
  monotonicMs += first;
  if (second > 0) renew(bucketKeys.nodesComplete);
  monotonicMs += second;
  expect(isBelieved(NOW_MS + first + second)).toBe(believed);
});

it("rejects a missing mark", () => {
  const isBelieved = followMark({ onChange: () => () => undefined }, () => undefined, { freshMs: FRESH_MS });
  expect(isBelieved(NOW_MS)).toBe(false);
});
