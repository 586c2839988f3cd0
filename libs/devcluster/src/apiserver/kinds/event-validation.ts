import { isObject, type Json, type JsonObject, numberAt, sameJson, textAt } from "../json.ts";
import { namespaceOf } from "../metadata.ts";
import { checkLabelKey } from "../names.ts";
import { invalidValue, type Problem, required } from "../status.ts";

const TEXT_LIMIT = 128;
const MESSAGE_LIMIT = 1024;
/** Of the time before events had a group of their own. */
const OUTDATED = ["firstTimestamp", "lastTimestamp", "count", "source"];
const IMMUTABLE = [
  "involvedObject",
  "reason",
  "message",
  ...OUTDATED,
  "type",
  "eventTime",
  "action",
  "related",
  "reportingController",
  "reportingInstance",
];

/** What is wrong with an event that comes by the core group, in the form it is stored in. Only one with a time of the new kind is held to the new rules. */
export function checkCoreEvent(event: JsonObject): Problem[] {
  return [...checkPlace(event), ...(textAt(event, "eventTime") === "" ? [] : checkTexts(event, "reportingComponent"))];
}

/** What is wrong with one that comes by its own group; fields are named as they are stored, as Kubernetes does. */
export function checkNewEvent(event: JsonObject): Problem[] {
  const type = textAt(event, "type");
  const isTimed = textAt(event, "eventTime") !== "";
  return [
    ...checkPlace(event),
    ...(isTimed ? checkTexts(event, "reportingController") : []),
    ...checkSeries(event["series"]),
    ...(isTimed ? [] : [required("eventTime")]),
    ...(type === "Normal" || type === "Warning" ? [] : [invalidValue("type", "", `has invalid value: ${type}`)]),
    ...OUTDATED.filter((field) => isSet(event[field])).map((field) => invalidValue(field, "", "needs to be unset")),
  ];
}

/** Only the series of an event goes on. */
export function checkNewEventChange(before: JsonObject, after: JsonObject): Problem[] {
  return IMMUTABLE.flatMap((field) => {
    const stored = field === "reportingController" ? "reportingComponent" : field;
    const value = after[stored];
    if (sameJson(before[stored], value)) return [];
    return [invalidValue(field, isObject(value) ? reference(value) : (value ?? ""), "field is immutable")];
  });
}

function checkPlace(event: JsonObject): Problem[] {
  const about = textAt(event, "involvedObject", "namespace");
  const namespace = namespaceOf(event);
  // An event with a time of the new kind may tell of another namespace, and of none only in those of the system.
  const isTimed = textAt(event, "eventTime") !== "";
  const isOfCluster = about === "" && (namespace === "default" || (isTimed && namespace === "kube-system"));
  if (isOfCluster || about === namespace || (isTimed && about !== "")) return [];
  return [invalidValue("involvedObject.namespace", about, "does not match event.namespace")];
}

function checkTexts(event: JsonObject, controllerField: string): Problem[] {
  const controller = textAt(event, "reportingComponent");
  const controllerProblem = checkLabelKey(controller);
  const limited = (field: string): Problem[] => {
    const value = textAt(event, field);
    if (value === "") return [required(field)];
    return value.length > TEXT_LIMIT ? [invalidValue(field, "", `can have at most ${TEXT_LIMIT} characters`)] : [];
  };
  const isLong = textAt(event, "message").length > MESSAGE_LIMIT;
  return [
    ...(controller === "" ? [required(controllerField)] : []),
    ...(controllerProblem === undefined ? [] : [invalidValue(controllerField, controller, controllerProblem)]),
    ...limited("reportingInstance"),
    ...limited("action"),
    ...limited("reason"),
    ...(isLong ? [invalidValue("message", "", `can have at most ${MESSAGE_LIMIT} characters`)] : []),
  ];
}

function checkSeries(series: Json | undefined): Problem[] {
  if (!isObject(series)) return [];
  return [
    ...((numberAt(series, "count") ?? 0) < 2 ? [invalidValue("series.count", "", "should be at least 2")] : []),
    ...(textAt(series, "lastObservedTime") === "" ? [required("series.lastObservedTime")] : []),
  ];
}

function isSet(value: Json | undefined): boolean {
  return isObject(value) ? Object.keys(value).length > 0 : value !== undefined && value !== 0;
}

/** As Go prints a reference. */
function reference(value: JsonObject): JsonObject {
  return {
    Kind: textAt(value, "kind"),
    Namespace: textAt(value, "namespace"),
    Name: textAt(value, "name"),
    UID: textAt(value, "uid"),
    APIVersion: textAt(value, "apiVersion"),
    ResourceVersion: textAt(value, "resourceVersion"),
    FieldPath: textAt(value, "fieldPath"),
  };
}
