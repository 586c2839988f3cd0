import type { Route } from "./route.ts";
import type { Access } from "./user.ts";

/** The right that a request takes, where it takes it. `namespace`: that of the installation. */
export function accessOf(
  { resource: { scope, name }, right, params: parts }: Route,
  params: Readonly<Record<string, string>>,
  namespace: string,
): Access {
  const names = { path: params["namespace"] ?? "", installation: namespace, cluster: "" };
  const isOfOne = parts.length === name.length;
  return { ...right, namespace: names[scope], name: isOfOne ? (params[name.at(-1) ?? ""] ?? "") : "" };
}

/** The right in a sentence: `create jobs in namespace default`. */
export function describeAccess({ verb, resource, namespace, name }: Access, scope: Route["resource"]["scope"]): string {
  const what = name === "" ? `${verb} ${resource}` : `${verb} ${resource} ${name}`;
  if (scope === "cluster") return what;
  return `${what} in ${namespace === "" ? "all namespaces" : `namespace ${namespace}`}`;
}

/** The name in the body of a request that makes something; empty: it has none. */
export function nameInBody(body: unknown): string {
  const { name, metadata, order, renewal, end } = (body ?? {}) as Readonly<Record<string, unknown>>;
  const inside = (value: unknown, field: string): unknown =>
    typeof value === "object" && value !== null ? (value as Readonly<Record<string, unknown>>)[field] : undefined;
  const found = [name, inside(metadata, "name"), inside(order ?? renewal ?? end, "id")];
  return found.find((each) => typeof each === "string") ?? "";
}
