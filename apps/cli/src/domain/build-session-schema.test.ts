import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Ajv2020 } from "ajv/dist/2020.js";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parse, stringify } from "yaml";
import { makeAnySession } from "../../test/any-session.ts";
import { buildSessionSchema, writeSchema } from "./build-session-schema.ts";
import { readSessionDocument } from "./read-session-document.ts";
import { buildDocument } from "./session-document.ts";

const ROOT = join(import.meta.dirname, "../../../..");
const validate = new Ajv2020({ allErrors: true, allowUnionTypes: true }).compile(buildSessionSchema());

function changed(path: readonly (string | number)[], value: unknown): unknown {
  const document: unknown = parse(readFileSync(join(ROOT, "examples/http-benchmark.yaml"), "utf8"));
  let at = document as Record<string | number, unknown>;
  for (const part of path.slice(0, -1)) at = at[part] as Record<string | number, unknown>;
  at[path.at(-1)!] = value;
  return document;
}

const main = (fields: object): unknown => ({ spec: { containers: [{ name: "main", ...fields }] } });

describe("the schema for editors", () => {
  it("accepts every session that the command accepts", () => {
    fc.assert(
      fc.property(makeAnySession(), (document) => {
        const written: unknown = parse(stringify(buildDocument(document)));
        expect(readSessionDocument(written)).toMatchObject({ ok: true });
        expect(validate(written), JSON.stringify(validate.errors)).toBe(true);
      }),
    );
  });

  it.each(["http-benchmark", "failing-session", "prepared-benchmark", "shared-benchmark"])(
    "accepts the example %s, which names it",
    (name) => {
      const text = readFileSync(join(ROOT, `examples/${name}.yaml`), "utf8");
      expect(validate(parse(text)), JSON.stringify(validate.errors)).toBe(true);
      expect(text).toContain("# yaml-language-server: $schema=../schemas/session.schema.json\n");
    },
  );

  const first = ["spec", "components", 0];
  it.each<[string, readonly (string | number)[], unknown]>([
    ["an unknown field", ["spec", "timeuot"], "2m"],
    ["an unknown field of a component", [...first, "replica"], 2],
    ["a duration without a unit", ["spec", "timeout"], 120],
    ["an unknown kind", [...first, "kind"], "worker"],
    ["a name that is no DNS label", [...first, "name"], "Server"],
    ["an environment value that is a number", [...first, "env"], [{ name: "A", value: 1 }]],
    ["a port out of range", [...first, "readyPort"], 70_000],
    ["a name beside generateName", ["metadata", "name"], "x"],
    ["another version", ["apiVersion"], "muster.dev/v2"],
    ["a command that is one string", [...first, "command"], "node"],
    ["a relative working directory", [...first, "workingDir"], "here"],
    ["an unknown field of a template", [...first, "template"], { spec: { volume: [] } }],
    ["a field of a template that Muster sets", [...first, "template"], { spec: { nodeName: "n" } }],
    ["a node selector that is no mapping", [...first, "template"], { spec: { nodeSelector: "disk=ssd" } }],
    ["a text for shared", [...first, "shared"], "yes"],
    ["an invalid amount", [...first, "template"], main({ resources: { limits: { cpu: "two" } } })],
    ["an empty list of pools", [...first, "pool"], []],
    ["a list with an invalid name of a pool", [...first, "pool"], ["a", "b c"]],
    ["a pool that is named twice", [...first, "pool"], ["a", "a"]],
    ["a number as a pool", [...first, "pool"], 7],
    ["no components", ["spec", "components"], []],
  ])("refuses what the command refuses: %s", (_what, path, value) => {
    const document = changed(path, value);
    expect(readSessionDocument(document)).toMatchObject({ ok: false });
    expect(validate(document)).toBe(false);
  });

  it("names the default of each field that has one, which the command accepts", () => {
    const { spec } = buildSessionSchema()["properties"] as Record<string, { readonly properties: object }>;
    const found = Object.entries(spec?.properties ?? {}).flatMap(([name, field]: [string, { default?: unknown }]) =>
      field.default === undefined ? [] : [[name, field.default] as const],
    );
    expect(Object.fromEntries(found)).toEqual({
      ...{ timeout: "15m", queueTimeout: "1d", ttl: "1d", killAfter: "10s", priority: 0, workerPort: 10_000 },
    });
    for (const [name, value] of found)
      expect(readSessionDocument(changed(["spec", name], value))).toMatchObject({ ok: true });
  });

  it("is identical to the file that editors use", () => {
    // `muster schema > schemas/session.schema.json` updates the file.
    const file = readFileSync(join(ROOT, "schemas/session.schema.json"), "utf8");
    expect(writeSchema(buildSessionSchema())).toBe(file);
    expect(JSON.parse(file)).toEqual(buildSessionSchema());
  });
});
