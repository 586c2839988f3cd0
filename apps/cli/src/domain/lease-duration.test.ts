import { MAX_DURATION_NS } from "@muster/leases";
import { expect, it } from "vitest";
import { readLeaseDuration } from "./lease-duration.ts";

it.each([
  ["2h", { ns: 7_200_000_000_000n }],
  ["forever", { ns: MAX_DURATION_NS }],
  ["0s", { trouble: "must be longer than zero" }],
  ["200000d", { trouble: "is longer than 106751d, the maximum; `forever` has no end" }],
  ["99999999999999999999999d", { trouble: "is longer than 106751d, the maximum; `forever` has no end" }],
  ["2", { trouble: "must be a duration with its unit, such as 2h or 1d12h, or forever" }],
])("reads the duration %s, or describes its error", (text, read) => {
  expect(readLeaseDuration(text)).toEqual(read);
});
