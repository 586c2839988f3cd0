import type { Route } from "@muster/gateway-api";
import { isWatch, type Asked } from "./read-request.ts";
import type { Access } from "./user.ts";

const MAX_NAME = 253;

/** Returns the right that a request needs, with its object. `namespace` is that of the installation. */
export function accessOf(route: Route, { params, query }: Pick<Asked, "params" | "query">, namespace: string): Access {
  const { scope, name, takesRightOnAll = false } = route.resource;
  const right = isWatch(route, query) ? ({ ...route.right, verb: "watch" } as const) : route.right;
  const names = { path: params["namespace"] ?? "", installation: namespace, cluster: "" };
  const isOfOne = !takesRightOnAll && name.every((each) => each in params);
  return { ...right, namespace: names[scope], name: isOfOne ? (params[name.at(-1) ?? ""] ?? "") : "" };
}

/** Returns every right that a request requires: two rights if its service creates missing objects and changes existing ones, otherwise one. */
export function accessesOf({ change }: Route, access: Access): readonly Access[] {
  return change?.alsoVerb === undefined ? [access] : [access, { ...access, verb: change.alsoVerb }];
}

/** Returns the rights on other resources that a change needs. Its body is still unchecked: a body without a valid name needs the right on all objects. */
export function furtherAccessesOf({ change }: Route, body: unknown, { namespace }: Access): readonly Access[] {
  const fields = (typeof body === "object" ? (body ?? {}) : {}) as Readonly<Record<string, unknown>>;
  const isGiven = (field: string): boolean => ![undefined, null, ""].includes(fields[field] as undefined);
  return (change?.further ?? [])
    .filter((right) => right.with?.some(isGiven) !== false && fields[right.unless ?? ""] !== true)
    .map(({ verb, resource, name }) => {
      const named = fields[name ?? ""];
      const isName = typeof named === "string" && named.length <= MAX_NAME;
      return { verb, resource, namespace, name: isName ? named : "" };
    });
}

/** Describes the right: `create jobs in namespace default`. */
export function describeAccess(
  { verb, resource: plural, subresource, namespace, name }: Access,
  scope: Route["resource"]["scope"],
): string {
  const resource = subresource === undefined ? plural : `${plural}/${subresource}`;
  const what = name === "" ? `${verb} ${resource}` : `${verb} ${resource} ${name}`;
  if (scope === "cluster") return what;
  return `${what} in ${namespace === "" ? "all namespaces" : `namespace ${namespace}`}`;
}

/** Returns the name in the body of a creation; empty if the body has no name. */
export function nameInBody(body: unknown): string {
  const { name, metadata, order, renewal, end } = (body ?? {}) as Readonly<Record<string, unknown>>;
  const inside = (value: unknown, field: string): unknown =>
    typeof value === "object" && value !== null ? (value as Readonly<Record<string, unknown>>)[field] : undefined;
  const found = [name, inside(metadata, "name"), inside(order ?? renewal ?? end, "id")];
  return found.find((each) => typeof each === "string") ?? "";
}
