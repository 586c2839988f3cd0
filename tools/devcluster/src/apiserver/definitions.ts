import kubernetes from "../../schemas/kubernetes.json" with { type: "json" };
import { isObject, type JsonObject, listAt, objectAt, textAt, withDefaults } from "./json.ts";

/** A schema of OpenAPI v3, with Kubernetes' extensions. */
export type Schema = JsonObject;

const KUBERNETES = generated(kubernetes);
const REFERENCE = "#/components/schemas/";

let kinds: ReadonlyMap<string, string> | undefined;

/** Kubernetes' own schemas by name, generated from its release: see generate-schemas.ts. */
export function definitions(): JsonObject {
  return KUBERNETES;
}

/** Returns the name of the definition of a built-in kind; undefined for other kinds. */
export function definitionOf(apiVersion: string, kind: string): string | undefined {
  kinds ??= indexKinds();
  return kinds.get(`${apiVersion}/${kind}`);
}

function indexKinds(): ReadonlyMap<string, string> {
  const all = definitions();
  return new Map(
    Object.keys(all).flatMap((name) =>
      listAt(all, name, "x-kubernetes-group-version-kind").map((one) => {
        const group = textAt(one, "group");
        const version = textAt(one, "version");
        return [`${group === "" ? version : `${group}/${version}`}/${textAt(one, "kind")}`, name] as const;
      }),
    ),
  );
}

/** Returns the name that a schema refers to, directly or as the only part of an `allOf`; "" if none. */
export function referenceOf(schema: Schema): string {
  const direct = textAt(schema, "$ref") || textAt(listAt(schema, "allOf")[0], "$ref");
  return direct.startsWith(REFERENCE) ? direct.slice(REFERENCE.length) : "";
}

export function referTo(name: string): Schema {
  return { $ref: REFERENCE + name };
}

/** The schema with its references resolved; its own keywords win. */
export function resolveSchema(schema: Schema): Schema {
  const known = resolved.get(schema);
  if (known !== undefined) return known;
  const name = referenceOf(schema);
  if (name === "") return schema;
  const { allOf: _allOf, $ref: _ref, ...own } = schema;
  const whole = withDefaults(own, objectAt(definitions(), name));
  resolved.set(schema, whole);
  return whole;
}

const resolved = new WeakMap<Schema, Schema>();

/** Returns the content of a generated file of this package; inferred types of that size help no reader. */
export function generated(content: unknown): JsonObject {
  if (!isObject(content)) throw new Error("a generated file holds no object");
  return content;
}
