import { parseQuantity } from "@muster/resources";
import { at, type JsonObject, getObject, setAt, isSameJson, getText, getTexts } from "../json.ts";
import { checkLabelKey, checkSubdomain } from "../names.ts";
import { defineResource, type Resource } from "../resource.ts";
import { fail, invalidValue, notServed, type Problem } from "../status.ts";

/** The resources that count without a prefix. */
const PLAIN = [
  "cpu",
  "memory",
  "ephemeral-storage",
  "pods",
  "services",
  "replicationcontrollers",
  "resourcequotas",
  "secrets",
  "configmaps",
  "persistentvolumeclaims",
  "services.nodeports",
  "services.loadbalancers",
];
/** The scope of the quotas of leases of type kubernetes. */
const SCOPE = "PriorityClass";

/** Limits on all objects of a namespace together, for leases of type kubernetes. */
export const resourceQuotas: Resource = defineResource({
  kind: "ResourceQuota",
  plural: "resourcequotas",
  shortNames: ["quota"],
  subresources: ["status"],
  checkName: checkSubdomain,
  deleteReturnsObject: true,
  defaults: (quota) => (quota["spec"] === undefined ? { ...quota, spec: {} } : quota),
  withoutStatus: (quota) => setAt(quota, ["status"], {}),
  validate: checkQuota,
  validateChange: (before, after) =>
    isSameJson(at(before, "spec", "scopes"), at(after, "spec", "scopes"))
      ? []
      : [invalidValue("spec.scopes", at(after, "spec", "scopes") ?? null, "field is immutable")],
});

function checkQuota(quota: JsonObject): Problem[] {
  const other = getTexts(quota, "spec", "scopes").find((scope) => scope !== SCOPE);
  if (other !== undefined) fail(notServed(`spec.scopes ${other}`));
  if (at(quota, "spec", "scopeSelector") !== undefined) fail(notServed("spec.scopeSelector"));
  const hard = getObject(quota, "spec", "hard");
  return Object.keys(hard).flatMap((name) => {
    const field = `spec.hard[${name}]`;
    const problem = checkLabelKey(name);
    if (problem !== undefined) return [invalidValue(field, name, problem)];
    if (!name.includes("/") && !isStandard(name))
      return [invalidValue(field, name, "must be a standard resource for quota")];
    const amount = parseQuantity(getText(hard, name)) ?? 0n;
    if (amount < 0n) return [invalidValue(field, getText(hard, name), "must be greater than or equal to 0")];
    return [];
  });
}

function isStandard(name: string): boolean {
  return PLAIN.includes(name) || /^(requests|limits)\.(cpu|memory|ephemeral-storage)$|^requests\.storage$/.test(name);
}
