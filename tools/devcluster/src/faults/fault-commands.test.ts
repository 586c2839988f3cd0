import { expect, it } from "vitest";
import { parseFaultCommand } from "./fault-commands.ts";

it.each<[object, string]>([
  [{}, "do: is missing: one of inject, remove, drop-watches,"],
  [{ do: "go-away", ms: -1 }, "ms: at least 0 is needed, not -1"],
  [
    { do: "inject", rules: [{ fault: { do: "answer", code: 418 } }] },
    "rules.0.fault.code: one of 409, 429, 500, 503, 504 is needed, not 418",
  ],
  [{ do: "drop-watches", match: { colour: "blue" } }, "match: unknown: colour; known: verbs, resources,"],
])("refuses %j: %s", (command, reason) => {
  expect(() => parseFaultCommand(command)).toThrow(reason);
});

it("takes a rule without an id and a match for every request", () => {
  const fault = { do: "delay", ms: 5 } as const;
  expect(parseFaultCommand({ do: "inject", rules: [{ fault, share: 0.5 }] })).toEqual({
    do: "inject",
    rules: [{ match: {}, fault, share: 0.5 }],
  });
});
