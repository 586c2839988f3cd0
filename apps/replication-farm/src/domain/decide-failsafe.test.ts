import { expect, it } from "vitest";
import { makeRollout, makeSet, makeSpec } from "../../test/a-set.ts";
import { decideFailsafe } from "./decide-failsafe.ts";

const none = makeSet({ spec: makeSpec({ replicasDesired: 0 }) });

it.each([
  ["no set", [], [], "no-sets"],
  ["sets that all desire 0 replicas", [none, none], [], "no-replicas"],
  ["one set that desires replicas", [none, makeSet({ spec: makeSpec({ replicasDesired: 1 }) })], [], undefined],
  ["a daemon set", [makeSet({ spec: makeSpec({ daemon: true }) })], [], undefined],
  ["a rolling update that desires replicas", [none], [makeRollout()], undefined],
] as const)("with %s it reports that", (_title, sets, rollouts, verdict) => {
  expect(decideFailsafe(sets, rollouts)).toBe(verdict);
});
