import { describe, expect, it } from "vitest";
import { isAvailable, nextAvailableAtMs } from "./decide-available.ts";
import type { SetPod } from "./set-snapshot.ts";

const READY = { health: "READY", deleting: false, sinceMs: 1000 } as const;
const named = (name: string, pod: Pick<SetPod, "health" | "deleting" | "sinceMs">): [string, SetPod] => [
  name,
  { name, uid: name, node: "n", ...pod },
];

describe("a pod counts once it has been ready for the minReadySeconds of its set", () => {
  it.each([
    ["just ready", READY, 5, 1000, false],
    ["a moment too early", READY, 5, 5999, false],
    ["long enough", READY, 5, 6000, true],
    ["immediately if minReadySeconds is 0", READY, 0, 1000, true],
    ["ready by a clock that is ahead", READY, 0, 999, false],
    ["not ready, however long", { ...READY, health: "NOT_READY" }, 0, 9_000_000, false],
    ["terminating", { ...READY, deleting: true }, 0, 9_000_000, false],
    ["not there", undefined, 0, 9_000_000, false],
  ] as const)("%s", (_title, pod, minReadySeconds, nowMs, expected) => {
    expect(isAvailable(pod, { minReadySeconds }, nowMs)).toBe(expected);
  });
});

it("the next pod that becomes available by time alone is the one that was ready first", () => {
  const pods = new Map([
    named("counts", { ...READY, sinceMs: 0 }),
    named("first", READY),
    named("second", { ...READY, sinceMs: 2000 }),
    named("never", { ...READY, health: "NOT_READY" }),
  ]);
  expect(nextAvailableAtMs(pods, { minReadySeconds: 5 }, 5500)).toBe(6000);
  expect(nextAvailableAtMs(pods, { minReadySeconds: 5 }, 7000)).toBe(Number.POSITIVE_INFINITY);
});
