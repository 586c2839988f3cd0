import { expect, it } from "vitest";
import { checkRule } from "./fault-controls.ts";

const faults = { answer: { do: "answer", code: 500 }, delay: { do: "delay", ms: -1 } } as const;

it.each<[object, string]>([
  [{ match: {}, fault: faults.delay }, "fault.ms: at least 0 is needed, not -1"],
  [{ match: {}, fault: { do: "answer", code: 418 } }, "fault.code: one of 409, 429, 500, 503, 504 is needed, not 418"],
  [{ match: { colour: "blue" }, fault: faults.answer }, "match: unknown: colour; known: verbs, resources,"],
])("refuses %j: %s", (given, reason) => {
  expect(() => checkRule({ match: {}, fault: faults.answer, ...given })).toThrow(reason);
});

it("takes a rule without an id that matches every request", () => {
  expect(() => checkRule({ match: {}, fault: { do: "delay", ms: 5 }, share: 0.5 })).not.toThrow();
});
