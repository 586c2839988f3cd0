import { throwFault } from "@muster/faults";
import { expect, it } from "vitest";
import { buildRefusal, type Problem } from "../domain/build-problem.ts";
import { limitFailedChecks } from "./limit-failed-checks.ts";

const forbidden = buildRefusal("FORBIDDEN", "it was withdrawn");
const away = (): never => throwFault({ code: "unavailable", dependency: "the cluster", retryAfterMs: 1000 });
const allowed = (): Problem | undefined => undefined;

it.each<[string, readonly (() => Problem | undefined)[], readonly (string | undefined)[]]>([
  ["that allows", [allowed, allowed], [undefined, undefined]],
  ["that refuses", [allowed, () => forbidden], [undefined, "FORBIDDEN"]],
  ["that fails three times in a row", [away, away, away], [undefined, undefined, "UNAVAILABLE"]],
  ["that fails occasionally", [away, away, allowed, away, away], Array<undefined>(5).fill(undefined)],
])("follows a check %s", async (_, checks, expected) => {
  const left = [...checks];
  const check = limitFailedChecks(() => Promise.resolve().then(left.shift()));
  const codes: (string | undefined)[] = [];
  for (const _check of checks) codes.push((await check())?.code);
  expect(codes).toEqual(expected);
});

it("rethrows a defect", async () => {
  const check = limitFailedChecks(() => Promise.reject(new TypeError("a defect")));
  await expect(check()).rejects.toThrow(TypeError);
});
