import {
  at,
  type JsonValue,
  type JsonObject,
  getList,
  findNumber,
  getObject,
  setAt,
  getText,
  getTexts,
} from "./json.ts";
import { type Check, checkLabelKey, checkLabelValue } from "./names.ts";
import { forbiddenValue, invalidValue, type Problem, required } from "./status.ts";

/** Maximum characters of all annotations of an object. */
const ANNOTATIONS_LIMIT = 256 * 1024;
const STANDARD_FINALIZERS = ["kubernetes", "orphan", "foregroundDeletion"];

export function getName(object: JsonObject): string {
  return getText(object, "metadata", "name");
}

export function getNamespace(object: JsonObject): string {
  return getText(object, "metadata", "namespace");
}

export function getUid(object: JsonObject): string {
  return getText(object, "metadata", "uid");
}

export function getRevision(object: JsonObject): string {
  return getText(object, "metadata", "resourceVersion");
}

export function listFinalizers(object: JsonObject): string[] {
  return getTexts(object, "metadata", "finalizers");
}

export function isDeleting(object: JsonObject): boolean {
  return getText(object, "metadata", "deletionTimestamp") !== "";
}

/** The reference to the one owner that manages an object. */
export function findController(object: JsonObject): JsonValue | undefined {
  return getList(object, "metadata", "ownerReferences").find((owner) => at(owner, "controller") === true);
}

/** Kubernetes' form of a time: whole seconds. */
export function formatTimestamp(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19)}Z`;
}

/** Checks the metadata of a written object. */
export function checkMetadata(object: JsonObject, checkName: Check): Problem[] {
  const name = getName(object);
  const nameProblem = name === "" ? undefined : checkName(name);
  return [
    ...(name === "" ? [required("metadata.name", "name or generateName is required")] : []),
    ...(nameProblem === undefined ? [] : [invalidValue("metadata.name", name, nameProblem)]),
    ...checkLabels("metadata.labels", getObject(object, "metadata", "labels")),
    ...checkAnnotations(getObject(object, "metadata", "annotations")),
    ...checkOwners(object),
    ...checkFinalizers(object),
  ];
}

export function checkLabels(field: string, labels: JsonObject): Problem[] {
  return Object.entries(labels).flatMap(([key, value]) => {
    const keyProblem = checkLabelKey(key);
    const valueProblem = typeof value === "string" ? checkLabelValue(value) : undefined;
    return [
      ...(keyProblem === undefined ? [] : [invalidValue(field, key, keyProblem)]),
      ...(valueProblem === undefined ? [] : [invalidValue(field, value, valueProblem)]),
    ];
  });
}

function checkAnnotations(annotations: JsonObject): Problem[] {
  const field = "metadata.annotations";
  const problems = Object.keys(annotations).flatMap((key) => {
    const problem = checkLabelKey(key.toLowerCase());
    return problem === undefined ? [] : [invalidValue(field, key, problem)];
  });
  const size = Object.keys(annotations).reduce((sum, key) => sum + key.length + getText(annotations, key).length, 0);
  if (size > ANNOTATIONS_LIMIT) {
    problems.push({
      field,
      reason: "FieldValueTooLong",
      message: `Too long: may not be more than ${ANNOTATIONS_LIMIT} bytes`,
    });
  }
  return problems;
}

function checkOwners(object: JsonObject): Problem[] {
  const owners = getList(object, "metadata", "ownerReferences");
  const field = "metadata.ownerReferences";
  const missing = owners.flatMap((owner) => [
    ...(getText(owner, "apiVersion") === ""
      ? [invalidValue(`${field}.apiVersion`, "", "version must not be empty")]
      : []),
    ...["kind", "name", "uid"]
      .filter((key) => getText(owner, key) === "")
      .map((key) => invalidValue(`${field}.${key}`, "", "must not be empty")),
  ]);
  const controllers = owners.filter((owner) => at(owner, "controller") === true).map((owner) => getText(owner, "kind"));
  if (controllers.length < 2) return missing;
  const because = `Only one reference can have Controller set to true. Found "true" in references for ${controllers.join(" and ")}`;
  return [...missing, invalidValue(field, "[]metav1.OwnerReference", because)];
}

function checkFinalizers(object: JsonObject): Problem[] {
  return listFinalizers(object).flatMap((finalizer, index) => {
    const field = `metadata.finalizers[${index}]`;
    const problem = checkLabelKey(finalizer);
    if (problem !== undefined) return [invalidValue(field, finalizer, problem)];
    // Only kinds of the core group require a slash.
    if (getText(object, "apiVersion").includes("/")) return [];
    if (finalizer.includes("/") || STANDARD_FINALIZERS.includes(finalizer)) return [];
    return [invalidValue(field, finalizer, "name is neither a standard finalizer name nor is it fully qualified")];
  });
}

/** Checks the fields that may not change from one state of an object to the next. */
export function checkMetadataChange(before: JsonObject, after: JsonObject): Problem[] {
  const known = new Set(listFinalizers(before));
  const added = listFinalizers(after).filter((finalizer) => !known.has(finalizer));
  if (!isDeleting(before) || added.length === 0) return [];
  const because = `no new finalizers can be added if the object is being deleted, found new finalizers []string{${added.map((one) => JSON.stringify(one)).join(", ")}}`;
  return [forbiddenValue("metadata.finalizers", because)];
}

/** Keeps metadata that only the server writes. */
export function keepServerMetadata(before: JsonObject, after: JsonObject): JsonObject {
  const kept = [
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "resourceVersion",
  ];
  const metadata = Object.fromEntries(
    Object.entries(getObject(after, "metadata")).filter(
      ([key]) => ![...kept, "selfLink", "managedFields"].includes(key),
    ),
  );
  const server = Object.entries(getObject(before, "metadata")).filter(([key]) => kept.includes(key));
  return setAt(after, ["metadata"], { ...metadata, ...Object.fromEntries(server) });
}

/** Increments the object's generation, if it has one. */
export function nextGeneration(object: JsonObject): JsonObject {
  const generation = findNumber(object, "metadata", "generation");
  return generation === undefined ? object : setAt(object, ["metadata", "generation"], generation + 1);
}
