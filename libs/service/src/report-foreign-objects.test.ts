import { expect, it } from "vitest";
import { reportForeignObjects } from "./report-foreign-objects.ts";

it("reports each change of their number once, with their owner", () => {
  const said: unknown[] = [];
  const say = (fields: object): void => void said.push(fields);
  const report = reportForeignObjects({ info: say, warn: say }, { what: "session", own: "muster-1" });
  for (const found of [[], ["b", "a", "a"], ["a", "b", "a"], ["a"], ["a"], [], []]) report(found);
  const ours = { what: "session", own: "muster-1" };
  expect(said).toEqual([{ ...ours, found: 3, others: ["a", "b"] }, { ...ours, found: 1, others: ["a"] }, ours]);
});

it("names ten of them at most", () => {
  const said: { readonly others?: readonly string[] }[] = [];
  const warn = (fields: { readonly others?: readonly string[] }): void => void said.push(fields);
  const report = reportForeignObjects({ info: warn, warn }, { what: "session", own: "muster-1" });
  report(Array.from({ length: 99 }, (_, index) => `muster-${index}`));
  expect(said[0]).toMatchObject({ found: 99, others: { length: 10 } });
});
