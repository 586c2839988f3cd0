import { expect, it } from "vitest";
import { makeEndedPod } from "../../test/samples.ts";
import { decideEndMs } from "./decide-end-time.ts";

const NOW_MS = 1_700_000_000_000;
const CREATED_MS = NOW_MS - 60_000;

it.each<[string, number | undefined, number]>([
  ["at the time of its node", NOW_MS - 5000, NOW_MS - 5000],
  ["at its node's time, if that clock is slightly ahead", NOW_MS + 10_000, NOW_MS + 10_000],
  ["at its creation, if its node's clock is far ahead", NOW_MS + 3_600_000, CREATED_MS],
  ["at its creation, if its node's clock is behind", CREATED_MS - 1, CREATED_MS],
  ["at its creation, by default", undefined, CREATED_MS],
])("assumes that a pod ended %s", (_title, finishedMs, expected) => {
  expect(decideEndMs(makeEndedPod("worker-0", 1, { createdMs: CREATED_MS, finishedMs }), NOW_MS)).toBe(expected);
});
