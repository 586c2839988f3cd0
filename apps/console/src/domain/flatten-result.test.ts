import { expect, it } from "vitest";
import { flattenResult } from "./flatten-result.ts";

it.each([
  [
    '{"requests":3,"latencyMs":{"p50":1.5},"names":["a"],"note":"x","none":null}',
    'requests=3 latencyMs.p50=1.5 names=["a"] note=x none=null',
  ],
  ["7", "=7"],
  ["no JSON", "=no JSON"],
])("%s has the values %s", (json, expected) => {
  expect(
    flattenResult(json)
      .map(({ name, value }) => `${name}=${value}`)
      .join(" "),
  ).toBe(expected);
});

it("counts the values beyond the limit", () => {
  const values = flattenResult(
    JSON.stringify(Object.fromEntries(Array.from({ length: 103 }, (_, at) => [`v${at}`, at]))),
  );
  expect(values.length).toBe(101);
  expect(values.at(-1)).toEqual({ name: "…", value: "3 more" });
});
