import {
  isObject,
  type JsonValue,
  type JsonObject,
  getList,
  findNumber,
  getObject,
  setAt,
  getText,
  getTexts,
  withDefaults,
} from "../json.ts";
import { checkServiceName } from "../names.ts";
import { defineResource, type Resource } from "../resource.ts";
import { fail, invalidValue, notServed, type Problem, required } from "../status.ts";
import { AGE, defineColumn, NAME, formatOrNone } from "../table.ts";

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
    "spec.clusterIP": (service) => getText(service, "spec", "clusterIP"),
    "spec.type": (service) => getText(service, "spec", "type"),
  },
  columns: [
    NAME,
    defineColumn("Type", (service) => getText(service, "spec", "type")),
    defineColumn("Cluster-IP", (service) => formatOrNone(getText(service, "spec", "clusterIP"))),
    defineColumn("External-IP", externalAddress),
    defineColumn("Port(s)", (service) => formatOrNone(getList(service, "spec", "ports").map(printPort).join(","))),
    AGE,
  ],
  defaults: defaultService,
  validate: validateService,
  carryOver: (before, after) => {
    const kept = ["clusterIP", "clusterIPs"].filter((key) => getObject(before, "spec")[key] !== undefined);
    const addresses = Object.fromEntries(kept.map((key) => [key, getObject(before, "spec")[key] ?? ""]));
    return setAt(after, ["spec"], withDefaults(getObject(after, "spec"), addresses));
  },
  allocate: (service, others) =>
    withClusterAddress(service, () => new Set(others().map((other) => getText(other, "spec", "clusterIP")))),
});

/** Assigns an address of the service network to a service without one. */
function withClusterAddress(service: JsonObject, takenBy: () => ReadonlySet<string>): JsonObject {
  if (getText(service, "spec", "clusterIP") !== "") return service;
  const taken = takenBy();
  for (let index = 0; index < MAX_ADDRESSES; index++) {
    const free = `10.96.${Math.floor(index / 250)}.${(index % 250) + 2}`;
    if (!taken.has(free)) return setAt(setAt(service, ["spec", "clusterIP"], free), ["spec", "clusterIPs"], [free]);
  }
  return service;
}

function defaultService(service: JsonObject): JsonObject {
  const spec = withDefaults(getObject(service, "spec"), { type: "ClusterIP", sessionAffinity: "None" });
  const ports = getList(spec, "ports").map((port): JsonValue => {
    if (!isObject(port)) return port;
    return withDefaults(port, { protocol: "TCP", targetPort: findNumber(port, "port") ?? 0 });
  });
  const address = getText(spec, "clusterIP");
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
  const type = getText(service, "spec", "type");
  if (type !== "ClusterIP") fail(notServed(`spec.type ${type} of a Service`));
  const ports = getList(service, "spec", "ports");
  const headless = getText(service, "spec", "clusterIP") === "None";
  return [
    ...(ports.length === 0 && !headless ? [required("spec.ports")] : []),
    ...ports.flatMap((port, index) => {
      const number = findNumber(port, "port") ?? 0;
      const field = `spec.ports[${index}]`;
      return [
        ...(ports.length > 1 && getText(port, "name") === "" ? [required(`${field}.name`)] : []),
        ...(number > 0 && number <= MAX_PORT
          ? []
          : [invalidValue(`${field}.port`, number, `must be between 1 and ${MAX_PORT}, inclusive`)]),
      ];
    }),
  ];
}

function externalAddress(service: JsonObject): string {
  return formatOrNone(getTexts(service, "spec", "externalIPs").join(","));
}

function printPort(port: JsonValue): string {
  return `${findNumber(port, "port") ?? 0}/${getText(port, "protocol")}`;
}
