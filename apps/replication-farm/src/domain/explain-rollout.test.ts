import { expect, it } from "vitest";
import { makeRollout, makePlacedSet } from "../../test/a-set.ts";
import { explainRollout } from "./explain-rollout.ts";
import type { RolloutSnapshot } from "./plan-rollout.ts";
import type { Rollout } from "./rollout.ts";

const old = makePlacedSet(["a", "b"], { rollout: "web-2" });
const fresh = makePlacedSet(["d"], { name: "web-2", rollout: "web-2" });

it.each<[why: RegExp, rollout: Partial<Rollout>, rest?: Partial<RolloutSnapshot>]>([
  [/^$/, { oldDesired: 2, minimum: 1 }],
  [/^it is paused$/, { oldDesired: 2, phase: "PAUSED" }],
  [/^it waits 60 s/, { oldDesired: 2, delayMs: 60_000, lastStepAtMs: 1 }],
  [/^the watcher is silent/, { oldDesired: 2 }, { blind: true }],
  [
    /^0 of 1 replicas of web-2 are healthy, so web keeps 2: together they must keep 2 healthy$/,
    { oldDesired: 2 },
    { fresh: { set: fresh, healthy: 0 } },
  ],
  [/^web-2 has 1 of 3 placements/, { oldDesired: 2, newDesired: 3 }],
  [/^web or web-2 has not removed its surplus placements yet/, { oldDesired: 1 }],
  [/^web has 2 placements left/, { oldDesired: 0, newDesired: 3, phase: "FINISHING" }],
])("%s is why it waits", (why, rollout, rest) => {
  const snapshot = {
    nowMs: 2,
    rollout: makeRollout(rollout),
    old: { set: old, healthy: 2 },
    fresh: { set: fresh, healthy: 1 },
  };
  expect(explainRollout({ ...snapshot, blind: false, ...rest })).toMatch(why);
});
