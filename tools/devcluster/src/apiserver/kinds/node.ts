import { at, type JsonObject, getList, getObject, setAt, getText, withDefaults } from "../json.ts";
import { checkSubdomain } from "../names.ts";
import { defineResource, type Resource } from "../resource.ts";
import { AGE, defineColumn, NAME, formatOrNone } from "../table.ts";

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
    defineColumn("Status", readiness),
    defineColumn("Roles", roles),
    AGE,
    defineColumn("Version", (node) => getText(node, "status", "nodeInfo", "kubeletVersion")),
    defineColumn("Internal-IP", (node) => formatOrNone(getAddress(node, "InternalIP")), "wide"),
    defineColumn("External-IP", (node) => formatOrNone(getAddress(node, "ExternalIP")), "wide"),
    defineColumn("OS-Image", (node) => orUnknown(getText(node, "status", "nodeInfo", "osImage")), "wide"),
    defineColumn("Kernel-Version", getKernelVersion, "wide"),
    defineColumn(
      "Container-Runtime",
      (node) => orUnknown(getText(node, "status", "nodeInfo", "containerRuntimeVersion")),
      "wide",
    ),
  ],
  defaults: defaultNode,
});

/** "" when the node has no address of that type. */
export function getAddress(node: JsonObject, type: string): string {
  return getText(
    getList(node, "status", "addresses").find((address) => getText(address, "type") === type),
    "address",
  );
}

function defaultNode(node: JsonObject): JsonObject {
  const status = getObject(node, "status");
  const capacity = getObject(status, "capacity");
  const filled = Object.keys(capacity).length === 0 ? status : withDefaults(status, { allocatable: capacity });
  return setAt(setAt(node, ["spec"], getObject(node, "spec")), ["status"], filled);
}

function readiness(node: JsonObject): string {
  const ready = getList(node, "status", "conditions").find((condition) => getText(condition, "type") === "Ready");
  const word = ready === undefined ? "Unknown" : getText(ready, "status") === "True" ? "Ready" : "NotReady";
  return at(node, "spec", "unschedulable") === true ? `${word},SchedulingDisabled` : word;
}

function roles(node: JsonObject): string {
  const named = Object.entries(getObject(node, "metadata", "labels")).flatMap(([key, value]) => {
    if (key.startsWith(ROLE)) return [key.slice(ROLE.length)];
    return key === "kubernetes.io/role" && typeof value === "string" ? [value] : [];
  });
  return formatOrNone(
    named
      .filter((role) => role !== "")
      .sort()
      .join(","),
  );
}

function getKernelVersion(node: JsonObject): string {
  const version = getText(node, "status", "nodeInfo", "kernelVersion");
  const architecture = getText(node, "status", "nodeInfo", "architecture");
  return version === "" || architecture === "" ? orUnknown(version) : `${version} (${architecture})`;
}

function orUnknown(text: string): string {
  return text === "" ? "<unknown>" : text;
}
