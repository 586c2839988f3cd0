import { type JsonValue, type JsonObject, getList, getText, getTexts } from "../json.ts";
import { getName, getNamespace } from "../metadata.ts";
import { type Failure, forbidden } from "../status.ts";
import type { Attributes } from "./attributes.ts";
import { hasAllRights, type User } from "./user.ts";

/** The kept part of roles and bindings. */
export type RoleBook = {
  /** Cluster-wide bindings, and those of the namespace unless it is "". */
  readonly bindings: (namespace: string) => readonly JsonObject[];
  readonly rulesOf: (kind: string, namespace: string, name: string) => readonly JsonValue[];
};

/** A rule that applies to a user, and its source; `because` is "" for rules of all users. */
export type Grant = { readonly rule: JsonValue; readonly because: string };

/** Rights that Kubernetes grants to every authenticated user. */
const BASIC: readonly JsonObject[] = [
  {
    verbs: ["create"],
    apiGroups: ["authorization.k8s.io"],
    resources: ["selfsubjectaccessreviews"],
  },
  { verbs: ["create"], apiGroups: ["authentication.k8s.io"], resources: ["selfsubjectreviews"] },
  {
    verbs: ["get"],
    nonResourceURLs: [
      "/api",
      "/api/*",
      "/apis",
      "/apis/*",
      "/healthz",
      "/livez",
      "/openapi",
      "/openapi/*",
      "/readyz",
      "/version",
      "/version/",
    ],
  },
];
const EVERYTHING: readonly JsonObject[] = [
  { verbs: ["*"], apiGroups: ["*"], resources: ["*"] },
  { verbs: ["*"], nonResourceURLs: ["*"] },
];

/** Lists all grants of a user in a namespace; "" stands for the cluster. */
function listGrants(user: User, namespace: string, book: RoleBook): Grant[] {
  if (hasAllRights(user)) return EVERYTHING.map((rule) => ({ rule, because: "" }));
  const bound = book.bindings(namespace).flatMap((binding): Grant[] => {
    const subject = getList(binding, "subjects").find((one) => isSubjectOf(one, user, getNamespace(binding)));
    if (subject === undefined) return [];
    const because = explain(binding, subject);
    const [kind, name] = [getText(binding, "roleRef", "kind"), getText(binding, "roleRef", "name")];
    return book.rulesOf(kind, getNamespace(binding), name).map((rule) => ({ rule, because }));
  });
  return [...BASIC.map((rule) => ({ rule, because: "" })), ...bound];
}

/** Finds the grant that permits an action; undefined: the user may not do it. */
export function findGrant(user: User, attributes: Attributes, book: RoleBook): Grant | undefined {
  const namespace = "path" in attributes ? "" : attributes.namespace;
  return listGrants(user, namespace, book).find(({ rule }) => covers(rule, attributes));
}

/** Words the refusal as Kubernetes does. */
export function describeRefusal(user: User, attributes: Attributes): Failure {
  const who = `User ${JSON.stringify(user.name)} cannot ${attributes.verb}`;
  if ("path" in attributes) {
    const message = `forbidden: ${who} path ${JSON.stringify(attributes.path)}`;
    return { code: 403, reason: "Forbidden", message, details: {} };
  }
  const { group, resource, subresource, namespace, name } = attributes;
  const what = JSON.stringify(subresource === "" ? resource : `${resource}/${subresource}`);
  const where = namespace === "" ? "at the cluster scope" : `in the namespace ${JSON.stringify(namespace)}`;
  const because = `${who} resource ${what} in API group ${JSON.stringify(group)} ${where}`;
  const failure = forbidden({ group, plural: resource }, name, because);
  return name === "" ? { ...failure, message: failure.message.replace(' ""', "") } : failure;
}

function covers(rule: JsonValue, attributes: Attributes): boolean {
  const names = (field: string, value: string): boolean => {
    const listed = getTexts(rule, field);
    return listed.includes("*") || listed.includes(value);
  };
  if (!names("verbs", attributes.verb)) return false;
  if ("path" in attributes)
    return getTexts(rule, "nonResourceURLs").some((pattern) =>
      pattern.endsWith("*") ? attributes.path.startsWith(pattern.slice(0, -1)) : pattern === attributes.path,
    );
  const { group, resource, subresource, name } = attributes;
  const only = getTexts(rule, "resourceNames");
  const isNamed =
    subresource === ""
      ? names("resources", resource)
      : names("resources", `${resource}/${subresource}`) || getTexts(rule, "resources").includes(`*/${subresource}`);
  return names("apiGroups", group) && isNamed && (only.length === 0 || only.includes(name));
}

function isSubjectOf(subject: JsonValue, user: User, bindingNamespace: string): boolean {
  const name = getText(subject, "name");
  switch (getText(subject, "kind")) {
    case "User":
      return name === user.name;
    case "Group":
      return user.groups.includes(name);
    case "ServiceAccount":
      return user.name === `system:serviceaccount:${getText(subject, "namespace") || bindingNamespace}:${name}`;
    default:
      return false;
  }
}

function explain(binding: JsonObject, subject: JsonValue): string {
  const namespace = getNamespace(binding);
  const [kind, at] = namespace === "" ? ["ClusterRoleBinding", ""] : ["RoleBinding", `/${namespace}`];
  const role = `${getText(binding, "roleRef", "kind")} ${JSON.stringify(getText(binding, "roleRef", "name"))}`;
  const of = getText(subject, "namespace");
  const who = `${getText(subject, "kind")} ${JSON.stringify(`${getText(subject, "name")}${of === "" ? "" : `/${of}`}`)}`;
  return `RBAC: allowed by ${kind} ${JSON.stringify(`${getName(binding)}${at}`)} of ${role} to ${who}`;
}
