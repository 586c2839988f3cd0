import { expect, it } from "vitest";
import { makeRollout, makeSet, makeSpec } from "../../test/a-set.ts";
import { decideStuck, type RolloutWait } from "./decide-stuck.ts";

const WAIT = { kind: "wait", because: "minimum-healthy" } as const;

it("a rolling update is stuck only after its pods had their minReadySeconds as well", () => {
  let known: RolloutWait | undefined;
  const sets = [makeSet({ name: "a", spec: makeSpec({ minReadySeconds: 60 }) }), makeSet({ name: "b" })];
  const at = (nowMs: number) => {
    const { trouble, wait } = decideStuck(known, makeRollout({}), WAIT, { nowMs, unhealthyMs: 1000, sets });
    known = wait;
    return trouble;
  };
  expect(at(0)).toBeUndefined();
  expect(at(60_999)).toBeUndefined();
  expect(at(61_000)).toMatchObject({ code: "ROLL_STUCK" });
});
