import { expect, it } from "vitest";
import { checkSchema, type CheckedSchema } from "./check-schema.ts";
import { makeValueReader } from "./read-value.ts";

const SCHEMA: CheckedSchema = {
  type: "object",
  additionalProperties: false,
  properties: {
    cpu: {
      title: "an amount such as 500m or 2",
      anyOf: [
        { type: "number", minimum: 0 },
        { type: "string", pattern: "^[0-9]+m?$" },
      ],
    },
    node: { not: {}, description: "the pool grants it" },
  },
};

it.each<[string, unknown, readonly string[]]>([
  ["takes a number of two types", { cpu: 2 }, []],
  ["takes a string of two types", { cpu: "500m" }, []],
  ["refuses a third type", { cpu: true }, ["cpu value must be an amount such as 500m or 2, not the boolean true"]],
  [
    "refuses a string of another form",
    { cpu: "2x" },
    ['cpu value must be an amount such as 500m or 2, not the string "2x"'],
  ],
  ["refuses a number out of range", { cpu: -1 }, ["cpu value must be an amount such as 500m or 2, not the number -1"]],
  [
    "refuses a field that cannot be set, with the reason",
    { node: "n1" },
    ['node value cannot be the string "n1": the pool grants it'],
  ],
  [
    "does not propose a field that cannot be given",
    { nod: 1, cpuu: 1 },
    ['nod key unknown field "nod"; known are cpu', 'cpuu key unknown field "cpuu"; did you mean "cpu"?'],
  ],
])("%s", (_title, value, findings) => {
  const reader = makeValueReader();
  checkSchema(reader, SCHEMA, [], value);
  expect(reader.findings.map(({ path, at, message }) => `${path.join(".")} ${at} ${message}`)).toEqual(findings);
});
