import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import { findNarrowings } from "./find-schema-narrowings.ts";

const VALUES = "values of the chart";

/** Schemas of documents that users write, by their names. */
export type Schemas = Readonly<Record<string, object>>;

type Definition = {
  readonly metadata: { readonly name: string };
  readonly spec: {
    readonly versions: readonly {
      readonly name: string;
      readonly served: boolean;
      readonly schema: { readonly openAPIV3Schema: object };
    }[];
  };
};

/** The schemas of every served version of the definitions and of the values of the chart, without descriptions. */
export function readSchemas(root: string): Schemas {
  const definitions = globSync("deploy/crds/*.yaml", { cwd: root }).sort();
  const served = definitions.flatMap((file) => {
    const { metadata, spec } = parse(readFileSync(join(root, file), "utf8")) as Definition;
    return spec.versions
      .filter((version) => version.served)
      .map(({ name, schema }): [string, object] => [`${metadata.name}/${name}`, schema.openAPIV3Schema]);
  });
  const values = JSON.parse(readFileSync(join(root, "deploy/helm/muster/values.schema.json"), "utf8")) as object;
  return JSON.parse(JSON.stringify({ ...Object.fromEntries(served), [VALUES]: values }, withoutText)) as Schemas;
}

/** Finds documents of the last release that the present schemas refuse, a line for each field. */
export function findBreaks(before: Schemas, after: Schemas): string[] {
  return Object.entries(before).flatMap(([name, schema]) => {
    const now = after[name];
    if (now === undefined) return [`${name} is removed`];
    // The chart has a default for each value.
    const found = findNarrowings({ before: schema, after: now, areComplete: name !== VALUES });
    return found.map((line) => `${name}: ${line}`);
  });
}

/** A field named `description` has a schema, and is kept. */
function withoutText(key: string, value: unknown): unknown {
  return key === "description" && typeof value === "string" ? undefined : value;
}
