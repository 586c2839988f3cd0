import { expect, it } from "vitest";
import { ended } from "../../test/samples.ts";
import { decideEndMs } from "./decide-end-time.ts";

const NOW_MS = 1_700_000_000_000;
const CREATED_MS = NOW_MS - 60_000;

it.each<[string, number | undefined, number]>([
  ["when its node says", NOW_MS - 5000, NOW_MS - 5000],
  ["now, when its node's clock is a little ahead", NOW_MS + 10_000, NOW_MS + 10_000],
  ["when it was made, when its node's clock is far ahead", NOW_MS + 3_600_000, CREATED_MS],
  ["when it was made, when its node's clock is behind", CREATED_MS - 1, CREATED_MS],
  ["when it was made, by default", undefined, CREATED_MS],
])("assumes that a pod ended %s", (_title, finishedMs, expected) => {
  expect(decideEndMs(ended("worker-0", 1, { createdMs: CREATED_MS, finishedMs }), NOW_MS)).toBe(expected);
});
