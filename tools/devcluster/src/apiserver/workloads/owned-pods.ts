import { createHash } from "node:crypto";
import { isList, isObject, type JsonValue, type JsonObject, getList, findNumber, getObject, getText } from "../json.ts";
import { findController, isDeleting, getName, getUid } from "../metadata.ts";

/** Desired replicas of a workload: 0 or 1, because the server refuses more. */
export function getReplicas(workload: JsonObject): number {
  return findNumber(workload, "spec", "replicas") ?? 1;
}

export function isControlledBy(object: JsonObject, owner: JsonObject): boolean {
  return getText(findController(object), "uid") === getUid(owner);
}

export function buildControllerReference(owner: JsonObject): JsonObject {
  return {
    apiVersion: getText(owner, "apiVersion"),
    kind: getText(owner, "kind"),
    name: getName(owner),
    uid: getUid(owner),
    controller: true,
    blockOwnerDeletion: true,
  };
}

/** A pod of the workload's template, with more metadata. */
export function buildPod(owner: JsonObject, metadata: JsonObject): JsonObject {
  const template = getObject(owner, "spec", "template");
  const { labels, annotations, finalizers } = getObject(template, "metadata");
  const given = Object.entries({ labels, annotations, finalizers });
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      ...Object.fromEntries(given.flatMap(([key, value]) => (value === undefined ? [] : [[key, value]]))),
      ...metadata,
      ownerReferences: [buildControllerReference(owner)],
    },
    spec: getObject(template, "spec"),
  };
}

/** Returns whether the pod has not ended and is not in deletion. */
export function isActive(pod: JsonObject): boolean {
  return !isOver(pod) && !isDeleting(pod);
}

export function isOver(pod: JsonObject): boolean {
  return ["Succeeded", "Failed"].includes(getText(pod, "status", "phase"));
}

export function isReady(pod: JsonObject): boolean {
  return getList(pod, "status", "conditions").some(
    (condition) => getText(condition, "type") === "Ready" && getText(condition, "status") === "True",
  );
}

/** Keeps the transition time of a condition while its status stays the same. */
export function continueCondition(known: readonly JsonValue[], next: JsonObject, time: string): JsonObject {
  const before = known.find((one) => getText(one, "type") === next["type"]);
  const isSame = getText(before, "status") === next["status"];
  return { ...next, lastTransitionTime: isSame ? getText(before, "lastTransitionTime") : time };
}

/** Omits zeros, as Go does. */
export function positive(counts: Readonly<Record<string, number>>): JsonObject {
  return Object.fromEntries(Object.entries(counts).filter(([, count]) => count > 0));
}

const HASH_ALPHABET = "bcdfghjklmnpqrstvwxz2456789";
const HASH_LENGTH = 10;

/** Ten characters that fit into a name and a label, equal for equal templates. */
export function computeTemplateHash(workload: JsonObject): string {
  const text = JSON.stringify(sorted(getObject(workload, "spec", "template")));
  const digest = createHash("sha256").update(text).digest();
  return [...digest.subarray(0, HASH_LENGTH)].map((byte) => HASH_ALPHABET.charAt(byte % HASH_ALPHABET.length)).join("");
}

function sorted(value: JsonValue): JsonValue {
  if (isList(value)) return value.map(sorted);
  if (!isObject(value)) return value;
  const keys = Object.keys(value).toSorted();
  return Object.fromEntries(keys.map((key) => [key, sorted(value[key] ?? null)]));
}
