import {
  isObject,
  type JsonValue,
  type JsonObject,
  listAt,
  numberAt,
  objectAt,
  put,
  textAt,
  textsAt,
  withDefaults,
} from "../json.ts";
import { checkServiceName } from "../names.ts";
import { defineResource, type Resource } from "../resource.ts";
import { fail, invalidValue, notServed, type Problem, required } from "../status.ts";
import { AGE, column, NAME, orNone } from "../table.ts";

const MAX_PORT = 65_535;
/** Maximum number of services, within the network 10.96.0.0/16. */
const MAX_ADDRESSES = 62_500;

/** Services are only data: nothing here routes traffic, so clients use the addresses of the pods. */
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
  ],
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

/** Assigns an address of the service network to a service without one. */
function withClusterAddress(service: JsonObject, takenBy: () => ReadonlySet<string>): JsonObject {
  if (textAt(service, "spec", "clusterIP") !== "") return service;
  const taken = takenBy();
  for (let index = 0; index < MAX_ADDRESSES; index++) {
    const free = `10.96.${Math.floor(index / 250)}.${(index % 250) + 2}`;
    if (!taken.has(free)) return put(put(service, ["spec", "clusterIP"], free), ["spec", "clusterIPs"], [free]);
  }
  return service;
}

function defaultService(service: JsonObject): JsonObject {
  const spec = withDefaults(objectAt(service, "spec"), { type: "ClusterIP", sessionAffinity: "None" });
  const ports = listAt(spec, "ports").map((port): JsonValue => {
    if (!isObject(port)) return port;
    return withDefaults(port, { protocol: "TCP", targetPort: numberAt(port, "port") ?? 0 });
  });
  const address = textAt(spec, "clusterIP");
  const network = {
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
  if (type !== "ClusterIP") fail(notServed(`spec.type ${type} of a Service`));
  const ports = listAt(service, "spec", "ports");
  const headless = textAt(service, "spec", "clusterIP") === "None";
  return [
    ...(ports.length === 0 && !headless ? [required("spec.ports")] : []),
    ...ports.flatMap((port, index) => {
      const number = numberAt(port, "port") ?? 0;
      const field = `spec.ports[${index}]`;
      return [
        ...(ports.length > 1 && textAt(port, "name") === "" ? [required(`${field}.name`)] : []),
        ...(number > 0 && number <= MAX_PORT
          ? []
          : [invalidValue(`${field}.port`, number, `must be between 1 and ${MAX_PORT}, inclusive`)]),
      ];
    }),
  ];
}

function externalAddress(service: JsonObject): string {
  return orNone(textsAt(service, "spec", "externalIPs").join(","));
}

function printPort(port: JsonValue): string {
  return `${numberAt(port, "port") ?? 0}/${textAt(port, "protocol")}`;
}
