import { isObject, type Json, type JsonObject, listAt, objectAt, put, sameJson, textAt } from "../json.ts";
import { checkPathSegment, checkSubdomain } from "../names.ts";
import { defineResource, type Resource } from "../resource.ts";
import { invalidValue, type Problem, required, unsupported } from "../status.ts";
import { AGE, column, NAME } from "../table.ts";

const GROUP = "rbac.authorization.k8s.io";
const CREATED_AT = {
  name: "Created At",
  type: "date",
  format: "",
  priority: 0,
  description: "When it was created.",
  cell: (object: JsonObject) => textAt(object, "metadata", "creationTimestamp"),
};

/** They say what service accounts may do; whoever has the server's token may do everything, whatever they say. */
export const roles = defineRole("Role", true);
export const clusterRoles = defineRole("ClusterRole", false);
export const roleBindings = defineBinding("RoleBinding", ["Role", "ClusterRole"]);
export const clusterRoleBindings = defineBinding("ClusterRoleBinding", ["ClusterRole"]);

function defineRole(kind: string, namespaced: boolean): Resource {
  return defineResource({
    group: GROUP,
    kind,
    plural: `${kind.toLowerCase()}s`,
    namespaced,
    createOnUpdate: true,
    checkName: checkPathSegment,
    columns: [NAME, CREATED_AT],
    defaults: (role) => (role["rules"] === undefined ? { ...role, rules: null } : role),
    validate: (role) => [
      ...listAt(role, "rules").flatMap((rule, index) => checkRule(rule, namespaced, `rules[${index}]`)),
      ...(role["aggregationRule"] === undefined || listAt(role, "aggregationRule", "clusterRoleSelectors").length > 0
        ? []
        : [
            required(
              "aggregationRule.clusterRoleSelectors",
              "at least one clusterRoleSelector required if aggregationRule is non-nil",
            ),
          ]),
    ],
  });
}

function checkRule(rule: Json, namespaced: boolean, path: string): Problem[] {
  const has = (field: string): boolean => listAt(rule, field).length > 0;
  const problems = has("verbs") ? [] : [required(`${path}.verbs`, "verbs must contain at least one value")];
  if (has("nonResourceURLs")) {
    const refuse = (because: string): Problem =>
      invalidValue(`${path}.nonResourceURLs`, listAt(rule, "nonResourceURLs"), because);
    if (namespaced) problems.push(refuse("namespaced rules cannot apply to non-resource URLs"));
    if (has("apiGroups") || has("resources") || has("resourceNames"))
      problems.push(refuse("rules cannot apply to both regular resources and non-resource URLs"));
    return problems;
  }
  if (!has("apiGroups"))
    problems.push(required(`${path}.apiGroups`, "resource rules must supply at least one api group"));
  if (!has("resources"))
    problems.push(required(`${path}.resources`, "resource rules must supply at least one resource"));
  return problems;
}

function defineBinding(kind: string, kindsOfRoles: readonly string[]): Resource {
  const namespaced = kind === "RoleBinding";
  const names = (binding: JsonObject, of: string): string => subjects(binding, of).map(subjectName).join(", ");
  return defineResource({
    group: GROUP,
    kind,
    plural: `${kind.toLowerCase()}s`,
    namespaced,
    createOnUpdate: true,
    checkName: checkPathSegment,
    columns: [
      NAME,
      column("Role", (binding) => `${textAt(binding, "roleRef", "kind")}/${textAt(binding, "roleRef", "name")}`),
      AGE,
      column("Users", (binding) => names(binding, "User"), "wide"),
      column("Groups", (binding) => names(binding, "Group"), "wide"),
      column("ServiceAccounts", (binding) => names(binding, "ServiceAccount"), "wide"),
    ],
    defaults: withGroups,
    validate: (binding) => [
      ...checkReference(objectAt(binding, "roleRef"), kindsOfRoles),
      ...listAt(binding, "subjects").flatMap((subject, index) =>
        checkSubject(subject, namespaced, `subjects[${index}]`),
      ),
    ],
    validateChange: (before, after) =>
      sameJson(before["roleRef"], after["roleRef"])
        ? []
        : [invalidValue("roleRef", printReference(objectAt(after, "roleRef")), "cannot change roleRef")],
  });
}

function subjects(binding: JsonObject, kind: string): readonly Json[] {
  return listAt(binding, "subjects").filter((subject) => textAt(subject, "kind") === kind);
}

function subjectName(subject: Json): string {
  const namespace = textAt(subject, "namespace");
  return `${namespace === "" ? "" : `${namespace}/`}${textAt(subject, "name")}`;
}

/** Roles, users and groups are of one API group; service accounts are of the core group. */
function withGroups(binding: JsonObject): JsonObject {
  const grouped =
    textAt(binding, "roleRef", "apiGroup") === "" ? put(binding, ["roleRef", "apiGroup"], GROUP) : binding;
  const known = grouped["subjects"];
  if (known === undefined) return grouped;
  return {
    ...grouped,
    subjects: listAt(grouped, "subjects").map((subject) =>
      isObject(subject) && textAt(subject, "apiGroup") === "" && ["User", "Group"].includes(textAt(subject, "kind"))
        ? { ...subject, apiGroup: GROUP }
        : subject,
    ),
  };
}

function checkReference(reference: JsonObject, kinds: readonly string[]): Problem[] {
  const [group, kind, name] = [textAt(reference, "apiGroup"), textAt(reference, "kind"), textAt(reference, "name")];
  const problem = checkPathSegment(name);
  return [
    ...(group === GROUP ? [] : [unsupported("roleRef.apiGroup", group, [GROUP])]),
    ...(kinds.includes(kind) ? [] : [unsupported("roleRef.kind", kind, kinds)]),
    ...(name === "" ? [required("roleRef.name")] : []),
    ...(problem === undefined ? [] : [invalidValue("roleRef.name", name, problem)]),
  ];
}

/** With the names of Go's fields, as the message has them. */
function printReference(reference: JsonObject): JsonObject {
  return {
    APIGroup: textAt(reference, "apiGroup"),
    Kind: textAt(reference, "kind"),
    Name: textAt(reference, "name"),
  };
}

function checkSubject(subject: Json, namespaced: boolean, path: string): Problem[] {
  const [group, kind, name] = [textAt(subject, "apiGroup"), textAt(subject, "kind"), textAt(subject, "name")];
  const problems = name === "" ? [required(`${path}.name`)] : [];
  switch (kind) {
    case "ServiceAccount": {
      const problem = name === "" ? undefined : checkSubdomain(name);
      if (problem !== undefined) problems.push(invalidValue(`${path}.name`, name, problem));
      if (group !== "") problems.push(unsupported(`${path}.apiGroup`, group, [""]));
      if (!namespaced && textAt(subject, "namespace") === "") problems.push(required(`${path}.namespace`));
      return problems;
    }
    case "User":
    case "Group":
      return group === GROUP ? problems : [...problems, unsupported(`${path}.apiGroup`, group, [GROUP])];
    default:
      return [...problems, unsupported(`${path}.kind`, kind, ["ServiceAccount", "User", "Group"])];
  }
}
