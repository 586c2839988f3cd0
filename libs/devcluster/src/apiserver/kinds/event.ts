import { nameOf } from "../metadata.ts";
import { checkCoreEvent, checkNewEvent, checkNewEventChange } from "./event-validation.ts";
import { isObject, type Json, type JsonObject, numberAt, put, textAt } from "../json.ts";
import { checkSubdomain } from "../names.ts";
import { defineResource, type Resource } from "../resource.ts";
import { ageOf, type Column, column, NAME } from "../table.ts";

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

const about = (prefix: string): Resource["fields"] =>
  Object.fromEntries(
    ["kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath"].map((key) => [
      `${prefix}.${key}`,
      ofInvolved(key),
    ]),
  );

const shared = {
  kind: "Event",
  plural: "events",
  shortNames: ["ev"],
  checkName: checkSubdomain,
  columns,
  createOnUpdate: true,
} satisfies Partial<Resource>;

const reason = (event: JsonObject): string => textAt(event, "reason");
const type = (event: JsonObject): string => textAt(event, "type");
const reporter = (event: JsonObject): string => textAt(event, "reportingComponent");

/** Events of the core group. Updating one that is gone creates it, as recorders count on. */
export const events: Resource = defineResource({
  ...shared,
  fields: {
    ...about("involvedObject"),
    reason,
    type,
    reportingComponent: reporter,
    source: (event) => textAt(event, "source", "component") || reporter(event),
  },
  validate: checkCoreEvent,
});

/** The same events as `events.k8s.io` names their fields. */
export const newEvents: Resource = defineResource({
  ...shared,
  group: "events.k8s.io",
  storedAs: { bucket: "/events", toStored: toCore, fromStored: fromCore },
  fields: { ...about("regarding"), reason, type, reportingController: reporter },
  validate: checkNewEvent,
  validateChange: checkNewEventChange,
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
