import { expect, it } from "vitest";
import { aRollout, aSet, aSpec } from "../../test/a-set.ts";
import { decideFailsafe } from "./decide-failsafe.ts";

const none = aSet({ spec: aSpec({ replicasDesired: 0 }) });

it.each([
  ["no set", [], [], "no-sets"],
  ["sets that all desire 0 replicas", [none, none], [], "no-replicas"],
  ["one set that desires replicas", [none, aSet({ spec: aSpec({ replicasDesired: 1 }) })], [], undefined],
  ["a daemon set", [aSet({ spec: aSpec({ daemon: true }) })], [], undefined],
  ["a rolling update that desires replicas", [none], [aRollout()], undefined],
] as const)("with %s it reports that", (_title, sets, rollouts, verdict) => {
  expect(decideFailsafe(sets, rollouts)).toBe(verdict);
});
