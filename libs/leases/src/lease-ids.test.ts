import { findFault } from "@muster/faults";
import { expect, it } from "vitest";
import { isLeaseId, splitId } from "./lease-ids.ts";

const faultFrom = (attempt: () => unknown): unknown => {
  try {
    attempt();
  } catch (error) {
    return findFault(error);
  }
  return undefined;
};
const tooLarge = "18446744073709551616";

it("splits an id into two unsigned 64-bit numbers", () => {
  expect(splitId("123-1")).toEqual({ reservation: 123n, workload: 1n });
  expect(isLeaseId("123-1")).toBe(true);
  expect(splitId("18446744073709551615-0")).toEqual({ reservation: 2n ** 64n - 1n, workload: 0n });
});

it.each([
  ["", '"" has no hyphen: <number>-<number> is needed'],
  ["123", '"123" has no hyphen: <number>-<number> is needed'],
  ["-1", 'the first half of "-1" is no unsigned 64-bit number: ""'],
  ["x-1", 'the first half of "x-1" is no unsigned 64-bit number: "x"'],
  ["1-", 'the second half of "1-" is no unsigned 64-bit number: ""'],
  ["1-2-3", 'the second half of "1-2-3" is no unsigned 64-bit number: "2-3"'],
  ["1--2", 'the second half of "1--2" is no unsigned 64-bit number: "-2"'],
  [`${tooLarge}-1`, `the first half of "${tooLarge}-1" is no unsigned 64-bit number: "${tooLarge}"`],
])("names the wrong half of %j", (id, reason) => {
  expect(faultFrom(() => splitId(id))).toEqual({ code: "invalid_request", field: "id", reason });
  expect(isLeaseId(id)).toBe(false);
});
