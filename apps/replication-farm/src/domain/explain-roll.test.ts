import { expect, it } from "vitest";
import { aRoll, placedOn } from "../../test/a-set.ts";
import { explainRoll } from "./explain-roll.ts";
import type { RollSnapshot } from "./plan-roll.ts";
import type { Roll } from "./roll.ts";

const old = placedOn(["a", "b"], { roll: "web-2" });
const fresh = placedOn(["d"], { name: "web-2", roll: "web-2" });

it.each<[why: RegExp, roll: Partial<Roll>, rest?: Partial<RollSnapshot>]>([
  [/^$/, { oldDesired: 2, minimum: 1 }],
  [/^it is paused$/, { oldDesired: 2, phase: "PAUSED" }],
  [/^it waits 60 s/, { oldDesired: 2, delayMs: 60_000, lastStepAtMs: 1 }],
  [/^the watcher is silent/, { oldDesired: 2 }, { blind: true }],
  [
    /^0 of 1 in web-2 are healthy, so that web keeps 2: 2 of both/,
    { oldDesired: 2 },
    { fresh: { set: fresh, healthy: 0 } },
  ],
  [/^web-2 has 1 of 3 places/, { oldDesired: 2, newDesired: 3 }],
  [/^web or web-2 has not yet given up/, { oldDesired: 1 }],
  [/^web has 2 places left/, { oldDesired: 0, newDesired: 3, phase: "FINISHING" }],
])("%s is why it waits", (why, roll, rest) => {
  const snapshot = { nowMs: 2, roll: aRoll(roll), old: { set: old, healthy: 2 }, fresh: { set: fresh, healthy: 1 } };
  expect(explainRoll({ ...snapshot, blind: false, ...rest })).toMatch(why);
});
