import kubernetes from "../../schemas/kubernetes.json" with { type: "json" };
import { isObject, type JsonObject, getList, getObject, getText, withDefaults } from "./json.ts";

/** A schema of OpenAPI v3, with Kubernetes' extensions. */
export type Schema = JsonObject;

const KUBERNETES = requireGeneratedObject(kubernetes);
const REFERENCE = "#/components/schemas/";

let kinds: ReadonlyMap<string, string> | undefined;

/** Kubernetes' own schemas by name, generated from its release: see generate-schemas.ts. */
export function definitions(): JsonObject {
  return KUBERNETES;
}

/** Returns the name of the definition of a built-in kind; undefined for other kinds. */
export function findDefinition(apiVersion: string, kind: string): string | undefined {
  kinds ??= indexKinds();
  return kinds.get(`${apiVersion}/${kind}`);
}

function indexKinds(): ReadonlyMap<string, string> {
  const all = definitions();
  return new Map(
    Object.keys(all).flatMap((name) =>
      getList(all, name, "x-kubernetes-group-version-kind").map((one) => {
        const group = getText(one, "group");
        const version = getText(one, "version");
        return [`${group === "" ? version : `${group}/${version}`}/${getText(one, "kind")}`, name] as const;
      }),
    ),
  );
}

/** Returns the name that a schema refers to, directly or as the only part of an `allOf`; "" if none. */
export function buildReference(schema: Schema): string {
  const direct = getText(schema, "$ref") || getText(getList(schema, "allOf")[0], "$ref");
  return direct.startsWith(REFERENCE) ? direct.slice(REFERENCE.length) : "";
}

export function referTo(name: string): Schema {
  return { $ref: REFERENCE + name };
}

/** The schema with its references resolved; its own keywords win. */
export function resolveSchema(schema: Schema): Schema {
  const known = resolved.get(schema);
  if (known !== undefined) return known;
  const name = buildReference(schema);
  if (name === "") return schema;
  const { allOf: _allOf, $ref: _ref, ...own } = schema;
  const whole = withDefaults(own, getObject(definitions(), name));
  resolved.set(schema, whole);
  return whole;
}

const resolved = new WeakMap<Schema, Schema>();

/** Returns the content of a generated file of this package; inferred types of that size help no reader. */
export function requireGeneratedObject(content: unknown): JsonObject {
  if (!isObject(content)) throw new Error("a generated file holds no object");
  return content;
}
