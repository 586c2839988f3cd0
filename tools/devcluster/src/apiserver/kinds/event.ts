import { getNamespace } from "../metadata.ts";
import { isObject, type JsonObject, getText } from "../json.ts";
import { checkSubdomain } from "../names.ts";
import { defineResource, type Resource } from "../resource.ts";
import { invalidValue, type Problem } from "../status.ts";
import { formatAge, type Column, defineColumn } from "../table.ts";

const columns: readonly Column[] = [
  defineColumn("Last Seen", (event, nowMs) => formatAge(lastSeen(event), nowMs)),
  defineColumn("Type", (event) => getText(event, "type")),
  defineColumn("Reason", (event) => getText(event, "reason")),
  defineColumn("Object", involved),
  defineColumn("Message", (event) => getText(event, "message").trim()),
];

const INVOLVED: Resource["fields"] = Object.fromEntries(
  ["kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath"].map((key) => [
    `involvedObject.${key}`,
    (event) => getText(event, "involvedObject", key),
  ]),
);

/** Events of the core group, the only form that recorders of this repository and kubectl use. Updating one that is gone creates it, as recorders count on. */
export const events: Resource = defineResource({
  kind: "Event",
  plural: "events",
  shortNames: ["ev"],
  checkName: checkSubdomain,
  columns,
  createOnUpdate: true,
  fields: {
    ...INVOLVED,
    reason: (event) => getText(event, "reason"),
    type: (event) => getText(event, "type"),
    reportingComponent: (event) => getText(event, "reportingComponent"),
    source: (event) => getText(event, "source", "component") || getText(event, "reportingComponent"),
  },
  validate: checkPlace,
});

function checkPlace(event: JsonObject): Problem[] {
  const about = getText(event, "involvedObject", "namespace");
  const namespace = getNamespace(event);
  if (about === namespace || (about === "" && namespace === "default")) return [];
  return [invalidValue("involvedObject.namespace", about, "does not match event.namespace")];
}

function lastSeen(event: JsonObject): string {
  if (isObject(event["series"])) return getText(event, "series", "lastObservedTime");
  return getText(event, "lastTimestamp") || getText(event, "firstTimestamp") || getText(event, "eventTime");
}

function involved(event: JsonObject): string {
  const kind = getText(event, "involvedObject", "kind").toLowerCase();
  const name = getText(event, "involvedObject", "name");
  return name === "" ? kind : `${kind}/${name}`;
}
