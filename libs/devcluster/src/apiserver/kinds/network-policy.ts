import { BlockList, isIP } from "node:net";
import { isObject, type Json, type JsonObject, listAt, objectAt, put, textAt, withDefaults } from "../json.ts";
import { checkSubdomain } from "../names.ts";
import { printSelector } from "../object-selector.ts";
import { defineResource, type Resource } from "../resource.ts";
import { forbiddenValue, invalidValue, type Problem, required, unsupported } from "../status.ts";
import { AGE, column, NAME, orNone } from "../table.ts";

const PROTOCOLS = ["TCP", "UDP", "SCTP"];
const TYPES = ["Ingress", "Egress"];
const LARGEST_PORT = 65_535;
const DIRECTIONS = { ingress: "from", egress: "to" } as const;

/** Who may speak to whom, as data: nothing here stands between two processes. */
export const networkPolicies: Resource = defineResource({
  group: "networking.k8s.io",
  kind: "NetworkPolicy",
  plural: "networkpolicies",
  shortNames: ["netpol"],
  checkName: checkSubdomain,
  counted: true,
  columns: [
    NAME,
    column("Pod-Selector", (policy) => orNone(printSelector(objectAt(policy, "spec", "podSelector")))),
    AGE,
  ],
  defaults: (policy) => {
    const spec = withDefaults(objectAt(policy, "spec"), { podSelector: {} });
    const types = ["Ingress", ...(listAt(spec, "egress").length === 0 ? [] : ["Egress"])];
    const policyTypes = listAt(spec, "policyTypes").length === 0 ? types : listAt(spec, "policyTypes");
    return put(policy, ["spec"], { ...spec, ...defaultRules(spec), policyTypes });
  },
  validate: (policy) => {
    const spec = objectAt(policy, "spec");
    return [...checkRules(spec, "ingress"), ...checkRules(spec, "egress"), ...checkTypes(listAt(spec, "policyTypes"))];
  },
});

function defaultRules(spec: JsonObject): JsonObject {
  const withProtocol = (port: Json): Json => (isObject(port) ? withDefaults(port, { protocol: "TCP" }) : port);
  const rule = (one: Json): Json =>
    isObject(one) && one["ports"] !== undefined ? { ...one, ports: listAt(one, "ports").map(withProtocol) } : one;
  return Object.fromEntries(
    ["ingress", "egress"]
      .filter((direction) => spec[direction] !== undefined)
      .map((direction) => [direction, listAt(spec, direction).map(rule)]),
  );
}

function checkTypes(types: readonly Json[]): Problem[] {
  if (types.length > TYPES.length)
    return [invalidValue("spec.policyTypes", types, "may not specify more than two policyTypes")];
  return types.flatMap((type, index) =>
    TYPES.some((known) => known === type) ? [] : [unsupported(`spec.policyTypes[${index}]`, type, TYPES)],
  );
}

function checkRules(spec: JsonObject, direction: keyof typeof DIRECTIONS): Problem[] {
  const peers = DIRECTIONS[direction];
  return listAt(spec, direction).flatMap((rule, index) => {
    const path = `spec.${direction}[${index}]`;
    return [
      ...listAt(rule, "ports").flatMap((port, at) => checkPort(objectAt({ port }, "port"), `${path}.ports[${at}]`)),
      ...listAt(rule, peers).flatMap((peer, at) => checkPeer(objectAt({ peer }, "peer"), `${path}.${peers}[${at}]`)),
    ];
  });
}

function checkPort({ protocol, port, endPort }: JsonObject, path: string): Problem[] {
  const problems =
    protocol === undefined || PROTOCOLS.some((known) => known === protocol)
      ? []
      : [unsupported(`${path}.protocol`, protocol, PROTOCOLS)];
  const refuseEnd = (value: Json, because: string): Problem => invalidValue(`${path}.endPort`, value, because);
  if (typeof port === "number") {
    problems.push(...checkNumber(`${path}.port`, port));
    if (typeof endPort !== "number") return problems;
    if (endPort < port) problems.push(refuseEnd(port, "must be greater than or equal to `port`"));
    return [...problems, ...checkNumber(`${path}.endPort`, endPort)];
  }
  if (endPort === undefined) return problems;
  const because = `may not be specified when \`port\` is ${port === undefined ? "not specified" : "non-numeric"}`;
  return [...problems, refuseEnd(endPort, because)];
}

function checkNumber(field: string, port: number): Problem[] {
  if (port > 0 && port <= LARGEST_PORT) return [];
  return [invalidValue(field, port, `must be between 1 and ${LARGEST_PORT}, inclusive`)];
}

function checkPeer(peer: JsonObject, path: string): Problem[] {
  const { ipBlock, podSelector, namespaceSelector } = peer;
  const isSelected = podSelector !== undefined || namespaceSelector !== undefined;
  if (!isObject(ipBlock)) return isSelected ? [] : [required(path, "must specify a peer")];
  const problems = checkBlock(ipBlock, `${path}.ipBlock`);
  return isSelected ? [...problems, forbiddenValue(path, "may not specify both ipBlock and another peer")] : problems;
}

function checkBlock(block: JsonObject, path: string): Problem[] {
  const cidr = textAt(block, "cidr");
  if (cidr === "") return [required(`${path}.cidr`)];
  const range = parseRange(cidr);
  if (range === undefined) return [notRange(`${path}.cidr`, cidr)];
  return listAt(block, "except").flatMap((value, index) => {
    const inner = typeof value === "string" ? parseRange(value) : undefined;
    const field = `${path}.except[${index}]`;
    if (inner === undefined) return [notRange(field, value)];
    const list = new BlockList();
    list.addSubnet(range.address, range.bits, range.family);
    const isInside =
      inner.family === range.family && inner.bits > range.bits && list.check(inner.address, inner.family);
    return isInside ? [] : [invalidValue(field, value, `must be a strict subset of \`cidr\``)];
  });
}

type Range = { readonly address: string; readonly bits: number; readonly family: "ipv4" | "ipv6" };

function parseRange(text: string): Range | undefined {
  const [, address = "", digits = ""] = /^([^/]+)\/([0-9]{1,3})$/.exec(text) ?? [];
  const version = isIP(address);
  const bits = Number(digits);
  if (version === 0 || bits > (version === 4 ? 32 : 128)) return undefined;
  return { address, bits, family: version === 4 ? "ipv4" : "ipv6" };
}

function notRange(field: string, value: Json): Problem {
  return invalidValue(field, value, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)");
}
