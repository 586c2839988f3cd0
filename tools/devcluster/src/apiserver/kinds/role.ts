import { isObject, type JsonValue, type JsonObject, getList, getObject, setAt, isSameJson, getText } from "../json.ts";
import { checkPathSegment, checkSubdomain } from "../names.ts";
import { defineResource, type Resource } from "../resource.ts";
import { invalidValue, type Problem, required, unsupported } from "../status.ts";

const GROUP = "rbac.authorization.k8s.io";
/** Roles grant rights to service accounts, for leases of type kubernetes. The server's own token may do everything without roles. */
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
    defaults: (role) => (role["rules"] === undefined ? { ...role, rules: null } : role),
    validate: (role) => [
      ...getList(role, "rules").flatMap((rule, index) => checkRule(rule, namespaced, `rules[${index}]`)),
      ...(role["aggregationRule"] === undefined || getList(role, "aggregationRule", "clusterRoleSelectors").length > 0
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

function checkRule(rule: JsonValue, namespaced: boolean, path: string): Problem[] {
  const has = (field: string): boolean => getList(rule, field).length > 0;
  const problems = has("verbs") ? [] : [required(`${path}.verbs`, "verbs must contain at least one value")];
  if (has("nonResourceURLs")) {
    const refuse = (because: string): Problem =>
      invalidValue(`${path}.nonResourceURLs`, getList(rule, "nonResourceURLs"), because);
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
  return defineResource({
    group: GROUP,
    kind,
    plural: `${kind.toLowerCase()}s`,
    namespaced,
    createOnUpdate: true,
    checkName: checkPathSegment,
    defaults: withGroups,
    validate: (binding) => [
      ...checkReference(getObject(binding, "roleRef"), kindsOfRoles),
      ...getList(binding, "subjects").flatMap((subject, index) =>
        checkSubject(subject, namespaced, `subjects[${index}]`),
      ),
    ],
    validateChange: (before, after) =>
      isSameJson(before["roleRef"], after["roleRef"])
        ? []
        : [invalidValue("roleRef", printReference(getObject(after, "roleRef")), "cannot change roleRef")],
  });
}

/** Roles, users and groups are of one API group; service accounts are of the core group. */
function withGroups(binding: JsonObject): JsonObject {
  const grouped =
    getText(binding, "roleRef", "apiGroup") === "" ? setAt(binding, ["roleRef", "apiGroup"], GROUP) : binding;
  const known = grouped["subjects"];
  if (known === undefined) return grouped;
  return {
    ...grouped,
    subjects: getList(grouped, "subjects").map((subject) =>
      isObject(subject) && getText(subject, "apiGroup") === "" && ["User", "Group"].includes(getText(subject, "kind"))
        ? { ...subject, apiGroup: GROUP }
        : subject,
    ),
  };
}

function checkReference(reference: JsonObject, kinds: readonly string[]): Problem[] {
  const [group, kind, name] = [getText(reference, "apiGroup"), getText(reference, "kind"), getText(reference, "name")];
  const problem = checkPathSegment(name);
  return [
    ...(group === GROUP ? [] : [unsupported("roleRef.apiGroup", group, [GROUP])]),
    ...(kinds.includes(kind) ? [] : [unsupported("roleRef.kind", kind, kinds)]),
    ...(name === "" ? [required("roleRef.name")] : []),
    ...(problem === undefined ? [] : [invalidValue("roleRef.name", name, problem)]),
  ];
}

/** Prints a reference with the names of Go's fields, as Kubernetes' message does. */
function printReference(reference: JsonObject): JsonObject {
  return {
    APIGroup: getText(reference, "apiGroup"),
    Kind: getText(reference, "kind"),
    Name: getText(reference, "name"),
  };
}

function checkSubject(subject: JsonValue, namespaced: boolean, path: string): Problem[] {
  const [group, kind, name] = [getText(subject, "apiGroup"), getText(subject, "kind"), getText(subject, "name")];
  const problems = name === "" ? [required(`${path}.name`)] : [];
  switch (kind) {
    case "ServiceAccount": {
      const problem = name === "" ? undefined : checkSubdomain(name);
      if (problem !== undefined) problems.push(invalidValue(`${path}.name`, name, problem));
      if (group !== "") problems.push(unsupported(`${path}.apiGroup`, group, [""]));
      if (!namespaced && getText(subject, "namespace") === "") problems.push(required(`${path}.namespace`));
      return problems;
    }
    case "User":
    case "Group":
      return group === GROUP ? problems : [...problems, unsupported(`${path}.apiGroup`, group, [GROUP])];
    default:
      return [...problems, unsupported(`${path}.kind`, kind, ["ServiceAccount", "User", "Group"])];
  }
}
