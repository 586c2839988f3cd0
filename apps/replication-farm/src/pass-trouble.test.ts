import { expect, it } from "vitest";
import { aRollout, aSet, aSpec } from "../test/a-set.ts";
import { findStuck } from "./pass-trouble.ts";
import type { Owned } from "./pass-deps.ts";

const WAIT = { kind: "wait", because: "minimum-healthy" } as const;

it("a rolling update is stuck only once its pods had the time to prove themselves, too", () => {
  const owned: Pick<Owned, "rolloutWait"> = { rolloutWait: undefined };
  const sets = [aSet({ name: "a", spec: aSpec({ minReadySeconds: 60 }) }), aSet({ name: "b" })];
  const at = (nowMs: number) => findStuck(owned, aRollout({}), WAIT, { nowMs, unhealthyMs: 1000, sets });
  expect(at(0)).toBeUndefined();
  expect(at(60_999)).toBeUndefined();
  expect(at(61_000)).toMatchObject({ code: "ROLL_STUCK" });
});
