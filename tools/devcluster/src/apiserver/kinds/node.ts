import { at, type JsonObject, listAt, objectAt, put, textAt, withDefaults } from "../json.ts";
import { checkSubdomain } from "../names.ts";
import { defineResource, type Resource } from "../resource.ts";
import { AGE, column, NAME, orNone } from "../table.ts";

const ROLE = "node-role.kubernetes.io/";

export const nodes: Resource = defineResource({
  kind: "Node",
  plural: "nodes",
  shortNames: ["no"],
  namespaced: false,
  subresources: ["status"],
  checkName: checkSubdomain,
  fields: { "spec.unschedulable": (node) => String(at(node, "spec", "unschedulable") === true) },
  columns: [
    NAME,
    column("Status", readiness),
    column("Roles", roles),
    AGE,
    column("Version", (node) => textAt(node, "status", "nodeInfo", "kubeletVersion")),
    column("Internal-IP", (node) => orNone(addressOf(node, "InternalIP")), "wide"),
    column("External-IP", (node) => orNone(addressOf(node, "ExternalIP")), "wide"),
    column("OS-Image", (node) => orUnknown(textAt(node, "status", "nodeInfo", "osImage")), "wide"),
    column("Kernel-Version", kernel, "wide"),
    column(
      "Container-Runtime",
      (node) => orUnknown(textAt(node, "status", "nodeInfo", "containerRuntimeVersion")),
      "wide",
    ),
  ],
  defaults: defaultNode,
});

/** "" when the node has no address of that type. */
export function addressOf(node: JsonObject, type: string): string {
  return textAt(
    listAt(node, "status", "addresses").find((address) => textAt(address, "type") === type),
    "address",
  );
}

function defaultNode(node: JsonObject): JsonObject {
  const status = objectAt(node, "status");
  const capacity = objectAt(status, "capacity");
  const filled = Object.keys(capacity).length === 0 ? status : withDefaults(status, { allocatable: capacity });
  return put(put(node, ["spec"], objectAt(node, "spec")), ["status"], filled);
}

function readiness(node: JsonObject): string {
  const ready = listAt(node, "status", "conditions").find((condition) => textAt(condition, "type") === "Ready");
  const word = ready === undefined ? "Unknown" : textAt(ready, "status") === "True" ? "Ready" : "NotReady";
  return at(node, "spec", "unschedulable") === true ? `${word},SchedulingDisabled` : word;
}

function roles(node: JsonObject): string {
  const named = Object.entries(objectAt(node, "metadata", "labels")).flatMap(([key, value]) => {
    if (key.startsWith(ROLE)) return [key.slice(ROLE.length)];
    return key === "kubernetes.io/role" && typeof value === "string" ? [value] : [];
  });
  return orNone(
    named
      .filter((role) => role !== "")
      .sort()
      .join(","),
  );
}

function kernel(node: JsonObject): string {
  const version = textAt(node, "status", "nodeInfo", "kernelVersion");
  const architecture = textAt(node, "status", "nodeInfo", "architecture");
  return version === "" || architecture === "" ? orUnknown(version) : `${version} (${architecture})`;
}

function orUnknown(text: string): string {
  return text === "" ? "<unknown>" : text;
}
