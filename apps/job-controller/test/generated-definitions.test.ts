import { readdirSync, readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { parse } from "yaml";
import { buildDefinition, buildEditorSchema } from "../definitions/build-definition.ts";

const sources = new URL("../definitions/", import.meta.url);
const kubernetes = readFileSync(new URL("../../../tools/devcluster/schemas/kubernetes.json", import.meta.url), "utf8");
const shared = readFileSync(new URL("shared/kubeflow.yaml", sources), "utf8");

it.each(readdirSync(sources).filter((name) => name.endsWith(".yaml")))(
  "deploy/crds/%s is what its source says; if not: node apps/job-controller/definitions/generate.ts",
  (name) => {
    const written: unknown = parse(readFileSync(new URL(`../../../deploy/crds/${name}`, import.meta.url), "utf8"));
    expect(parse(buildDefinition(readFileSync(new URL(name, sources), "utf8"), kubernetes, shared))).toEqual(written);
  },
);

it("the schema for editors is what the source says, and names every field of the example", () => {
  const source = readFileSync(new URL("muster.dev_jobs.yaml", sources), "utf8");
  const written = readFileSync(new URL("../../../schemas/job.schema.json", import.meta.url), "utf8");
  const schema = JSON.parse(written) as Schema;
  expect(JSON.parse(buildEditorSchema(source))).toEqual(schema);
  const example: unknown = parse(readFileSync(new URL("../../../examples/training-job.yaml", import.meta.url), "utf8"));
  expect(unknownFields(schema, example, "")).toEqual([]);
  expect(unknownFields(schema, { spec: { replicas: 3 } }, "")).toEqual([".spec.replicas"]);
});

it.each(readdirSync(sources).filter((name) => name.endsWith(".yaml")))(
  "kubectl explain has words for every field of %s that is ours",
  (name) => {
    const written = parse(readFileSync(new URL(`../../../deploy/crds/${name}`, import.meta.url), "utf8")) as {
      spec: { versions: readonly { schema: { openAPIV3Schema: Schema } }[] };
    };
    for (const { schema } of written.spec.versions) {
      const { spec = {}, status = {} } = schema.openAPIV3Schema.properties ?? {};
      expect([...withoutWords(spec, "spec"), ...withoutWords(status, "status")]).toEqual([]);
    }
  },
);

/** Fields, and entries that have fields, without a description. Those of a pod are described by Kubernetes. */
function withoutWords(schema: Schema, path: string): readonly string[] {
  const { description = "", properties = {}, additionalProperties, items } = schema;
  const entry = items ?? (typeof additionalProperties === "object" ? additionalProperties : {});
  return [
    ...(description === "" ? [path] : []),
    ...(path.endsWith(".template")
      ? []
      : Object.entries(properties).flatMap(([name, field]) => withoutWords(field, `${path}.${name}`))),
    ...(entry.properties === undefined ? [] : withoutWords(entry, `${path}.*`)),
  ];
}

type Schema = {
  readonly description?: string;
  readonly items?: Schema;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: Schema | false;
};

/** Fields that an editor would mark. */
function unknownFields(schema: Schema, value: unknown, path: string): readonly string[] {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return [];
  return Object.entries(value).flatMap(([name, field]) => {
    const next = schema.properties?.[name] ?? schema.additionalProperties;
    if (next === false) return [`${path}.${name}`];
    return next === undefined ? [] : unknownFields(next, field, `${path}.${name}`);
  });
}
