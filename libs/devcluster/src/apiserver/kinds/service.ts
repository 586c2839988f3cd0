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
} from "../json.ts";
import { checkServiceName } from "../names.ts";
import { defineResource, type Resource } from "../resource.ts";
import { invalidValue, type Problem, required, unsupported } from "../status.ts";
import { AGE, column, NAME, orNone, pairs } from "../table.ts";

const TYPES = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
const LARGEST_PORT = 65_535;
/** As many services as the network 10.96.0.0/16 is used for. */
const ADDRESSES = 62_500;

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
  assigned: ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"].map((field) => ["spec", field]),
  defaults: defaultService,
  validate: validateService,
  carryOver: (before, after) => {
    const kept = ["clusterIP", "clusterIPs"].filter((key) => objectAt(before, "spec")[key] !== undefined);
    const addresses = Object.fromEntries(kept.map((key) => [key, objectAt(before, "spec")[key] ?? ""]));
    return put(after, ["spec"], withDefaults(objectAt(after, "spec"), addresses));
  },
  allocate: (service, others) =>
    withClusterAddress(service, () => new Set(others().map((other) => textAt(other, "spec", "clusterIP")))),
});

/** An address of the service network for a service that has none and wants one. */
export function withClusterAddress(service: JsonObject, takenBy: () => ReadonlySet<string>): JsonObject {
  const isUnset = textAt(service, "spec", "clusterIP") === "" && textAt(service, "spec", "type") !== "ExternalName";
  if (!isUnset) return service;
  const taken = takenBy();
  for (let index = 0; index < ADDRESSES; index++) {
    const free = `10.96.${Math.floor(index / 250)}.${(index % 250) + 2}`;
    if (!taken.has(free)) return put(put(service, ["spec", "clusterIP"], free), ["spec", "clusterIPs"], [free]);
  }
  return service;
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
