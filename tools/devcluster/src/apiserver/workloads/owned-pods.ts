import { createHash } from "node:crypto";
import { isList, isObject, type JsonValue, type JsonObject, listAt, numberAt, objectAt, textAt } from "../json.ts";
import { controllerOf, isDeleting, nameOf, uidOf } from "../metadata.ts";

/** Desired replicas of a workload: 0 or 1, because the server refuses more. */
export function replicasOf(workload: JsonObject): number {
  return numberAt(workload, "spec", "replicas") ?? 1;
}

export function isControlledBy(object: JsonObject, owner: JsonObject): boolean {
  return textAt(controllerOf(object), "uid") === uidOf(owner);
}

export function controllerReference(owner: JsonObject): JsonObject {
  return {
    apiVersion: textAt(owner, "apiVersion"),
    kind: textAt(owner, "kind"),
    name: nameOf(owner),
    uid: uidOf(owner),
    controller: true,
    blockOwnerDeletion: true,
  };
}

/** A pod of the workload's template, with more metadata. */
export function buildPod(owner: JsonObject, metadata: JsonObject): JsonObject {
  const template = objectAt(owner, "spec", "template");
  const { labels, annotations, finalizers } = objectAt(template, "metadata");
  const given = Object.entries({ labels, annotations, finalizers });
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      ...Object.fromEntries(given.flatMap(([key, value]) => (value === undefined ? [] : [[key, value]]))),
      ...metadata,
      ownerReferences: [controllerReference(owner)],
    },
    spec: objectAt(template, "spec"),
  };
}

/** Returns whether the pod has not ended and is not in deletion. */
export function isActive(pod: JsonObject): boolean {
  return !isOver(pod) && !isDeleting(pod);
}

export function isOver(pod: JsonObject): boolean {
  return ["Succeeded", "Failed"].includes(textAt(pod, "status", "phase"));
}

export function isReady(pod: JsonObject): boolean {
  return listAt(pod, "status", "conditions").some(
    (condition) => textAt(condition, "type") === "Ready" && textAt(condition, "status") === "True",
  );
}

/** Keeps the transition time of a condition while its status stays the same. */
export function continueCondition(known: readonly JsonValue[], next: JsonObject, time: string): JsonObject {
  const before = known.find((one) => textAt(one, "type") === next["type"]);
  const isSame = textAt(before, "status") === next["status"];
  return { ...next, lastTransitionTime: isSame ? textAt(before, "lastTransitionTime") : time };
}

/** Omits zeros, as Go does. */
export function positive(counts: Readonly<Record<string, number>>): JsonObject {
  return Object.fromEntries(Object.entries(counts).filter(([, count]) => count > 0));
}

const HASH_ALPHABET = "bcdfghjklmnpqrstvwxz2456789";
const HASH_LENGTH = 10;

/** Ten characters that fit into a name and a label, equal for equal templates. */
export function templateHash(workload: JsonObject): string {
  const text = JSON.stringify(sorted(objectAt(workload, "spec", "template")));
  const digest = createHash("sha256").update(text).digest();
  return [...digest.subarray(0, HASH_LENGTH)].map((byte) => HASH_ALPHABET.charAt(byte % HASH_ALPHABET.length)).join("");
}

function sorted(value: JsonValue): JsonValue {
  if (isList(value)) return value.map(sorted);
  if (!isObject(value)) return value;
  const keys = Object.keys(value).toSorted();
  return Object.fromEntries(keys.map((key) => [key, sorted(value[key] ?? null)]));
}
