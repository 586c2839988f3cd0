import {
  isObject,
  type Json,
  type JsonObject,
  listAt,
  numberAt,
  objectAt,
  put,
  textAt,
  withDefaults,
  without,
} from "../json.ts";
import { checkServiceName } from "../names.ts";
import { defineResource, type Resource } from "../resource.ts";
import { invalidValue, type Problem, required, unsupported } from "../status.ts";
import { AGE, column, NAME, orNone, pairs } from "../table.ts";

const TYPES = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
const LARGEST_PORT = 65_535;
/** As many services as the network 10.96.0.0/16 is used for. */
const ADDRESSES = 62_500;
const NODE_PORTS = { first: 30_000, last: 32_767 };

/** Services as data: nothing here routes traffic, so their addresses are those of the pods. */
export const services: Resource = defineResource({
  kind: "Service",
  plural: "services",
  shortNames: ["svc"],
  categories: ["all"],
  subresources: ["status"],
  checkName: checkServiceName,
  fields: {
    "spec.clusterIP": (service) => textAt(service, "spec", "clusterIP"),
    "spec.type": (service) => textAt(service, "spec", "type"),
  },
  columns: [
    NAME,
    column("Type", (service) => textAt(service, "spec", "type")),
    column("Cluster-IP", (service) => orNone(textAt(service, "spec", "clusterIP"))),
    column("External-IP", externalAddress),
    column("Port(s)", (service) => orNone(listAt(service, "spec", "ports").map(printPort).join(","))),
    AGE,
    column("Selector", (service) => pairs(objectAt(service, "spec", "selector")), "wide"),
  ],
  defaults: defaultService,
  validate: validateService,
  carryOver: (before, after) => {
    const kept = ["clusterIP", "clusterIPs"].filter((key) => objectAt(before, "spec")[key] !== undefined);
    const addresses = Object.fromEntries(kept.map((key) => [key, objectAt(before, "spec")[key] ?? ""]));
    return keepNodePorts(before, put(after, ["spec"], withDefaults(objectAt(after, "spec"), addresses)));
  },
  allocate: (service, others) =>
    withNodePorts(
      withClusterAddress(service, () => new Set(others().map((other) => textAt(other, "spec", "clusterIP")))),
      () => new Set(others().flatMap((other) => nodePortsOf(other))),
    ),
});

/** An address of the service network for a service that has none and wants one. */
function withClusterAddress(service: JsonObject, takenBy: () => ReadonlySet<string>): JsonObject {
  const isUnset = textAt(service, "spec", "clusterIP") === "" && textAt(service, "spec", "type") !== "ExternalName";
  if (!isUnset) return service;
  const taken = takenBy();
  for (let index = 0; index < ADDRESSES; index++) {
    const free = `10.96.${Math.floor(index / 250)}.${(index % 250) + 2}`;
    if (!taken.has(free)) return put(put(service, ["spec", "clusterIP"], free), ["spec", "clusterIPs"], [free]);
  }
  return service;
}

/** A port of the nodes for each port of a service that wants them, the lowest that is free. */
function withNodePorts(service: JsonObject, takenBy: () => ReadonlySet<number>): JsonObject {
  const ports = listAt(service, "spec", "ports");
  if (!wantsNodePorts(service) || ports.every((port) => numberAt(port, "nodePort") !== undefined)) return service;
  const taken = new Set([...takenBy(), ...nodePortsOf(service)]);
  let next = NODE_PORTS.first;
  const given = ports.map((port): Json => {
    if (!isObject(port) || numberAt(port, "nodePort") !== undefined) return port;
    while (taken.has(next)) next += 1;
    if (next > NODE_PORTS.last) return port;
    taken.add(next);
    return { ...port, nodePort: next };
  });
  return put(service, ["spec", "ports"], given);
}

/** A port that says nothing keeps the port of the nodes that it had; a service that has become another type has none. */
function keepNodePorts(before: JsonObject, after: JsonObject): JsonObject {
  const old = listAt(before, "spec", "ports");
  const ports = listAt(after, "spec", "ports").map((port): Json => {
    if (!isObject(port)) return port;
    const same = old.find((each) => ["port", "protocol"].every((key) => isObject(each) && each[key] === port[key]));
    const kept = numberAt(same ?? {}, "nodePort");
    if (kept === undefined) return port;
    if (wantsNodePorts(after)) return withDefaults(port, { nodePort: kept });
    return port["nodePort"] === kept ? without(port, "nodePort") : port;
  });
  return ports.length === 0 ? after : put(after, ["spec", "ports"], ports);
}

function wantsNodePorts(service: JsonObject): boolean {
  return ["NodePort", "LoadBalancer"].includes(textAt(service, "spec", "type"));
}

function nodePortsOf(service: JsonObject): number[] {
  return listAt(service, "spec", "ports").flatMap((port) => numberAt(port, "nodePort") ?? []);
}

function defaultService(service: JsonObject): JsonObject {
  const spec = withDefaults(objectAt(service, "spec"), { type: "ClusterIP", sessionAffinity: "None" });
  const ports = listAt(spec, "ports").map((port): Json => {
    if (!isObject(port)) return port;
    return withDefaults(port, { protocol: "TCP", targetPort: numberAt(port, "port") ?? 0 });
  });
  const address = textAt(spec, "clusterIP");
  const external = textAt(spec, "type") === "ExternalName";
  const network = external
    ? {}
    : {
        ipFamilies: ["IPv4"],
        ipFamilyPolicy: "SingleStack",
        internalTrafficPolicy: "Cluster",
        ...(address === "" ? {} : { clusterIPs: [address] }),
      };
  const filled = withDefaults({ ...spec, ...(ports.length === 0 ? {} : { ports }) }, network);
  return { ...service, spec: filled, status: { loadBalancer: {} } };
}

function validateService(service: JsonObject): Problem[] {
  const type = textAt(service, "spec", "type");
  const ports = listAt(service, "spec", "ports");
  const headless = textAt(service, "spec", "clusterIP") === "None";
  return [
    ...(ports.length === 0 && !headless && type !== "ExternalName" ? [required("spec.ports")] : []),
    ...(TYPES.includes(type) ? [] : [unsupported("spec.type", type, TYPES)]),
    ...ports.flatMap((port, index) => {
      const number = numberAt(port, "port") ?? 0;
      const field = `spec.ports[${index}]`;
      return [
        ...(ports.length > 1 && textAt(port, "name") === "" ? [required(`${field}.name`)] : []),
        ...(number > 0 && number <= LARGEST_PORT
          ? []
          : [invalidValue(`${field}.port`, number, `must be between 1 and ${LARGEST_PORT}, inclusive`)]),
      ];
    }),
  ];
}

function externalAddress(service: JsonObject): string {
  const named = textAt(service, "spec", "externalName");
  const listed = listAt(service, "spec", "externalIPs").filter((item) => typeof item === "string");
  return orNone(named === "" ? listed.join(",") : named);
}

function printPort(port: Json): string {
  const nodePort = numberAt(port, "nodePort");
  const protocol = textAt(port, "protocol");
  return `${numberAt(port, "port") ?? 0}${nodePort === undefined ? "" : `:${nodePort}`}/${protocol}`;
}
