import { type Json, type JsonObject, listAt, numberAt, objectAt, put, textAt } from "../json.ts";
import { controllerOf, isDeleting, nameOf, uidOf } from "../metadata.ts";
import { matchesSelector } from "../object-selector.ts";
import { labelsOf } from "../selectors.ts";

/** What a workload does about an object that it owns and should not, or should own and does not. */
export type Claim =
  | { readonly do: "adopt"; readonly object: JsonObject; readonly because: "nobody-owns-it" }
  | { readonly do: "release"; readonly object: JsonObject; readonly because: "labels-differ" };

/** The objects that a workload owns: nobody else's with its labels, and a name that fits where names say something. Nothing changes hands while something is being deleted. */
export function planClaims(
  owner: JsonObject,
  candidates: readonly JsonObject[],
  isMember: (object: JsonObject) => boolean = () => true,
): Claim[] {
  if (isDeleting(owner)) return [];
  const selector = objectAt(owner, "spec", "selector");
  return candidates.flatMap((object): Claim[] => {
    if (isDeleting(object)) return [];
    const controller = controllerOf(object);
    const matches = matchesSelector(selector, labelsOf(object)) && isMember(object);
    if (controller === undefined)
      return matches ? [{ do: "adopt", object: withOwner(object, owner), because: "nobody-owns-it" }] : [];
    if (textAt(controller, "uid") !== uidOf(owner) || matches) return [];
    return [{ do: "release", object: withoutOwner(object, owner), because: "labels-differ" }];
  });
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

/** A pod as the template of its workload describes it, without a name. */
export function podOfTemplate(template: Json | undefined, owner: JsonObject): JsonObject {
  const { labels, annotations, finalizers } = objectAt(template, "metadata");
  const metadata = Object.entries({ labels, annotations, finalizers });
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      ...Object.fromEntries(metadata.flatMap(([key, value]) => (value === undefined ? [] : [[key, value]]))),
      ownerReferences: [controllerReference(owner)],
    },
    spec: objectAt(template, "spec"),
  };
}

/** It may still serve: it has not ended, and nobody ends it. */
export function isActive(pod: JsonObject): boolean {
  return !isOver(pod) && !isDeleting(pod);
}

export function isOver(pod: JsonObject): boolean {
  return ["Succeeded", "Failed"].includes(textAt(pod, "status", "phase"));
}

export function isReady(pod: JsonObject): boolean {
  return readyCondition(pod) !== undefined;
}

/** Since when a ready pod has been; 0 for one that is not. */
export function readySinceMs(pod: JsonObject): number {
  return Date.parse(textAt(readyCondition(pod), "lastTransitionTime")) || 0;
}

/** When a ready pod will have been so for long enough to count as available. */
export function availableAtMs(pod: JsonObject, workload: JsonObject): number {
  if (!isReady(pod)) return Infinity;
  const seconds = numberAt(workload, "spec", "minReadySeconds") ?? 0;
  return seconds === 0 ? 0 : readySinceMs(pod) + seconds * 1000;
}

function readyCondition(pod: JsonObject): Json | undefined {
  return listAt(pod, "status", "conditions").find(
    (condition) => textAt(condition, "type") === "Ready" && textAt(condition, "status") === "True",
  );
}

function withOwner(object: JsonObject, owner: JsonObject): JsonObject {
  const owners = listAt(object, "metadata", "ownerReferences");
  return put(object, ["metadata", "ownerReferences"], [...owners, controllerReference(owner)]);
}

function withoutOwner(object: JsonObject, owner: JsonObject): JsonObject {
  const left = listAt(object, "metadata", "ownerReferences").filter((one) => textAt(one, "uid") !== uidOf(owner));
  return put(object, ["metadata", "ownerReferences"], left.length === 0 ? undefined : left);
}
