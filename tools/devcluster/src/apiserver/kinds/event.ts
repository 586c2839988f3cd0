import { namespaceOf } from "../metadata.ts";
import { isObject, type JsonObject, textAt } from "../json.ts";
import { checkSubdomain } from "../names.ts";
import { defineResource, type Resource } from "../resource.ts";
import { invalidValue, type Problem } from "../status.ts";
import { ageOf, type Column, column } from "../table.ts";

const columns: readonly Column[] = [
  column("Last Seen", (event, nowMs) => ageOf(lastSeen(event), nowMs)),
  column("Type", (event) => textAt(event, "type")),
  column("Reason", (event) => textAt(event, "reason")),
  column("Object", involved),
  column("Message", (event) => textAt(event, "message").trim()),
];

const INVOLVED: Resource["fields"] = Object.fromEntries(
  ["kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath"].map((key) => [
    `involvedObject.${key}`,
    (event) => textAt(event, "involvedObject", key),
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
    reason: (event) => textAt(event, "reason"),
    type: (event) => textAt(event, "type"),
    reportingComponent: (event) => textAt(event, "reportingComponent"),
    source: (event) => textAt(event, "source", "component") || textAt(event, "reportingComponent"),
  },
  validate: checkPlace,
});

function checkPlace(event: JsonObject): Problem[] {
  const about = textAt(event, "involvedObject", "namespace");
  const namespace = namespaceOf(event);
  if (about === namespace || (about === "" && namespace === "default")) return [];
  return [invalidValue("involvedObject.namespace", about, "does not match event.namespace")];
}

function lastSeen(event: JsonObject): string {
  if (isObject(event["series"])) return textAt(event, "series", "lastObservedTime");
  return textAt(event, "lastTimestamp") || textAt(event, "firstTimestamp") || textAt(event, "eventTime");
}

function involved(event: JsonObject): string {
  const kind = textAt(event, "involvedObject", "kind").toLowerCase();
  const name = textAt(event, "involvedObject", "name");
  return name === "" ? kind : `${kind}/${name}`;
}
