import { isObject, type Json, type JsonObject, numberAt, put, textAt } from "../json.ts";
import { namespaceOf } from "../metadata.ts";
import { checkSubdomain } from "../names.ts";
import { defineResource, type Resource } from "../resource.ts";
import { invalidValue, type Problem } from "../status.ts";
import { ageOf, type Column, column, NAME } from "../table.ts";
import { nameOf } from "../metadata.ts";

const columns: readonly Column[] = [
  column("Last Seen", (event, nowMs) => ageOf(lastSeen(event), nowMs)),
  column("Type", (event) => textAt(event, "type")),
  column("Reason", (event) => textAt(event, "reason")),
  column("Object", involved),
  column("Subobject", (event) => textAt(event, "involvedObject", "fieldPath"), "wide"),
  column("Source", source, "wide"),
  column("Message", (event) => textAt(event, "message").trim()),
  column("First Seen", (event, nowMs) => ageOf(firstSeen(event), nowMs), "wide"),
  column("Count", (event) => numberAt(event, "series", "count") ?? (numberAt(event, "count") || 1), "wide"),
  { ...NAME, priority: 1, cell: nameOf },
];

const ofInvolved =
  (key: string): ((event: JsonObject) => string) =>
  (event) =>
    textAt(event, "involvedObject", key);

const shared = {
  kind: "Event",
  plural: "events",
  shortNames: ["ev"],
  checkName: checkSubdomain,
  columns,
  createOnUpdate: true,
  fields: {
    "involvedObject.kind": ofInvolved("kind"),
    "involvedObject.namespace": ofInvolved("namespace"),
    "involvedObject.name": ofInvolved("name"),
    "involvedObject.uid": ofInvolved("uid"),
    "involvedObject.apiVersion": ofInvolved("apiVersion"),
    "involvedObject.resourceVersion": ofInvolved("resourceVersion"),
    "involvedObject.fieldPath": ofInvolved("fieldPath"),
    reason: (event) => textAt(event, "reason"),
    reportingComponent: (event) => textAt(event, "reportingComponent"),
    source: (event) => textAt(event, "source", "component") || textAt(event, "reportingComponent"),
    type: (event) => textAt(event, "type"),
  },
  validate: validateEvent,
} satisfies Partial<Resource>;

/** Events of the core group. Updating one that is gone creates it, as recorders count on. */
export const events: Resource = defineResource(shared);

/** The same events as `events.k8s.io` names their fields. */
export const newEvents: Resource = defineResource({
  ...shared,
  group: "events.k8s.io",
  storedAs: { bucket: "/events", toStored: toCore, fromStored: fromCore },
});

const RENAMED: readonly (readonly [core: string, modern: string])[] = [
  ["involvedObject", "regarding"],
  ["message", "note"],
  ["source", "deprecatedSource"],
  ["firstTimestamp", "deprecatedFirstTimestamp"],
  ["lastTimestamp", "deprecatedLastTimestamp"],
  ["count", "deprecatedCount"],
  ["reportingComponent", "reportingController"],
];

export function toCore(event: JsonObject): JsonObject {
  return put(rename(event, new Map(RENAMED.map(([core, modern]) => [modern, core]))), ["apiVersion"], "v1");
}

export function fromCore(event: JsonObject): JsonObject {
  return put(rename(event, new Map(RENAMED)), ["apiVersion"], "events.k8s.io/v1");
}

function rename(object: JsonObject, names: ReadonlyMap<string, string>): JsonObject {
  return Object.fromEntries(
    Object.entries(object).map(([key, value]): [string, Json] => [names.get(key) ?? key, value]),
  );
}

function validateEvent(event: JsonObject): Problem[] {
  const about = textAt(event, "involvedObject", "namespace");
  const namespace = namespaceOf(event);
  if (about === namespace || (about === "" && namespace === "default")) return [];
  return [invalidValue("involvedObject.namespace", about, "does not match event.namespace")];
}

function firstSeen(event: JsonObject): string {
  return textAt(event, "firstTimestamp") || textAt(event, "eventTime");
}

function lastSeen(event: JsonObject): string {
  if (isObject(event["series"])) return textAt(event, "series", "lastObservedTime");
  return textAt(event, "lastTimestamp") || firstSeen(event);
}

function involved(event: JsonObject): string {
  const kind = textAt(event, "involvedObject", "kind").toLowerCase();
  const name = textAt(event, "involvedObject", "name");
  return name === "" ? kind : `${kind}/${name}`;
}

function source(event: JsonObject): string {
  const component = textAt(event, "source", "component") || textAt(event, "reportingComponent");
  const host = textAt(event, "source", "host") || textAt(event, "reportingInstance");
  return host === "" ? component : `${component}, ${host}`;
}
