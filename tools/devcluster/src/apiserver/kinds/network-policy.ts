import { isObject, type JsonValue, type JsonObject, getList, getObject, setAt, withDefaults } from "../json.ts";
import { checkSubdomain } from "../names.ts";
import { defineResource, type Resource } from "../resource.ts";

/** Stored without effect, for leases of type network: processes share one network. A real API server judges the rules. */
export const networkPolicies: Resource = defineResource({
  group: "networking.k8s.io",
  kind: "NetworkPolicy",
  plural: "networkpolicies",
  shortNames: ["netpol"],
  checkName: checkSubdomain,
  counted: true,
  defaults: (policy) => {
    const spec = withDefaults(getObject(policy, "spec"), { podSelector: {} });
    const types = ["Ingress", ...(getList(spec, "egress").length === 0 ? [] : ["Egress"])];
    const policyTypes = getList(spec, "policyTypes").length === 0 ? types : getList(spec, "policyTypes");
    return setAt(policy, ["spec"], { ...spec, ...defaultRules(spec), policyTypes });
  },
});

function defaultRules(spec: JsonObject): JsonObject {
  const withProtocol = (port: JsonValue): JsonValue =>
    isObject(port) ? withDefaults(port, { protocol: "TCP" }) : port;
  const rule = (one: JsonValue): JsonValue =>
    isObject(one) && one["ports"] !== undefined ? { ...one, ports: getList(one, "ports").map(withProtocol) } : one;
  return Object.fromEntries(
    ["ingress", "egress"]
      .filter((direction) => spec[direction] !== undefined)
      .map((direction) => [direction, getList(spec, direction).map(rule)]),
  );
}
