import { type JsonValue, type JsonObject, getObject, setAt, getText } from "../json.ts";
import { checkSubdomain } from "../names.ts";
import { defineResource, type Resource } from "../resource.ts";
import { invalidValue, type Problem, unsupported } from "../status.ts";

const PERCENT = /^[0-9]+%$/;
const NOT_PERCENT =
  "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";
const POLICIES = ["AlwaysAllow", "IfHealthyBudget"];

export const disruptionBudgets: Resource = defineResource({
  group: "policy",
  kind: "PodDisruptionBudget",
  plural: "poddisruptionbudgets",
  shortNames: ["pdb"],
  subresources: ["status"],
  checkName: checkSubdomain,
  counted: true,
  unconditionalUpdate: false,
  // Only the server writes a status.
  defaults: (budget) =>
    budget["status"] === undefined || getText(budget, "metadata", "resourceVersion") === ""
      ? setAt(budget, ["status"], { disruptionsAllowed: 0, currentHealthy: 0, desiredHealthy: 0, expectedPods: 0 })
      : budget,
  validate: (budget) => checkSpec(getObject(budget, "spec")),
});

function checkSpec(spec: JsonObject): Problem[] {
  const { minAvailable, maxUnavailable, selector, unhealthyPodEvictionPolicy: policy } = spec;
  const problems: Problem[] = [];
  if (minAvailable !== undefined && maxUnavailable !== undefined) {
    const shown = {
      MinAvailable: minAvailable,
      Selector: selector ?? null,
      MaxUnavailable: maxUnavailable,
      UnhealthyPodEvictionPolicy: policy ?? null,
    };
    problems.push(invalidValue("spec", shown, "minAvailable and maxUnavailable cannot be both set"));
  }
  problems.push(
    ...checkAmount("spec.minAvailable", minAvailable),
    ...checkAmount("spec.maxUnavailable", maxUnavailable),
  );
  if (typeof policy === "string" && !POLICIES.includes(policy)) {
    problems.push(unsupported("spec.unhealthyPodEvictionPolicy", policy, POLICIES));
  }
  return problems;
}

function checkAmount(field: string, value: JsonValue | undefined): Problem[] {
  if (typeof value === "number") {
    return value < 0 ? [invalidValue(field, value, "must be greater than or equal to 0")] : [];
  }
  if (typeof value !== "string") return [];
  if (!PERCENT.test(value)) return [invalidValue(field, value, NOT_PERCENT)];
  return Number.parseInt(value, 10) > 100 ? [invalidValue(field, value, "must not be greater than 100%")] : [];
}
