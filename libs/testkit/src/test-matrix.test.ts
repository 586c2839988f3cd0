import { expect, it } from "vitest";
import { isInMatrix } from "./test-matrix.ts";

const NAMES = Array.from({ length: 40 }, (_, index) => `suite-${index}.int.test.ts`);
const suite = (name: string) => ({ file: `/repo/apps/a/test/${name}`, everyRun: ["suite-0.int.test.ts"] });

it("includes the suites of every run, and all of them on request", () => {
  expect(NAMES.filter((name) => isInMatrix(suite(name), undefined))).toEqual(["suite-0.int.test.ts"]);
  expect(NAMES.filter((name) => isInMatrix(suite(name), ""))).toEqual(["suite-0.int.test.ts"]);
  expect(NAMES.filter((name) => isInMatrix(suite(name), "all"))).toEqual(NAMES);
});

it("has each suite in exactly one slice, and some in each", () => {
  const slices = [1, 2, 3, 4].map((slice) =>
    NAMES.filter((name) => name !== "suite-0.int.test.ts" && isInMatrix(suite(name), `${slice}/4`)),
  );
  expect(slices.flat().toSorted()).toEqual(NAMES.slice(1).toSorted());
  for (const names of slices) expect(names.length).toBeGreaterThan(3);
});

it.each(["some", "0/4", "5/4", "1/0", "1/4/2"])("refuses %s", (value) => {
  expect(() => isInMatrix(suite("a.int.test.ts"), value)).toThrow(/MUSTER_TESTS_MATRIX.*all or K\/N/);
});
