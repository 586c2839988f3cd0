import { type JsonObject, listAt, objectAt, put, sameJson, textAt } from "../json.ts";
import { finalizersOf, isDeleting, nameOf, uidOf } from "../metadata.ts";
import { CLEANUP, withCondition } from "./definition-resource.ts";

/** A step for the existing definitions. */
export type DefinitionStep =
  | {
      readonly kind: "report";
      readonly definition: JsonObject;
      readonly because: "names-accepted" | "names-taken" | "objects-left";
    }
  | { readonly kind: "delete-objects"; readonly definition: JsonObject; readonly because: "definition-ends" }
  | { readonly kind: "release"; readonly definition: JsonObject; readonly because: "no-objects-left" };

/** `countObjects`: number of stored objects of a definition. */
export function planDefinitions(
  definitions: readonly JsonObject[],
  countObjects: (definition: JsonObject) => number,
  time: string,
): DefinitionStep[] {
  const known = new Map(definitions.map((one) => [uidOf(one), one]));
  const steps: DefinitionStep[] = [];
  for (const definition of definitions) {
    if (isDeleting(definition)) {
      steps.push(...planEnd(definition, countObjects(definition), time));
      continue;
    }
    const others = [...known.values()].filter((one) => uidOf(one) !== uidOf(definition));
    const next = acceptNames(definition, others, time);
    if (sameJson(next, definition)) continue;
    known.set(uidOf(definition), next);
    const because = isTrue(next, "NamesAccepted") ? "names-accepted" : "names-taken";
    steps.push({ kind: "report", definition: next, because });
  }
  return steps;
}

function planEnd(definition: JsonObject, objects: number, time: string): DefinitionStep[] {
  const finalizers = finalizersOf(definition);
  if (!finalizers.includes(CLEANUP)) return [];
  if (objects === 0) {
    const left = finalizers.filter((one) => one !== CLEANUP);
    const released = put(definition, ["metadata", "finalizers"], left.length === 0 ? undefined : left);
    return [{ kind: "release", definition: released, because: "no-objects-left" }];
  }
  const reported = withCondition(definition, {
    type: "Terminating",
    status: "True",
    reason: "InstanceDeletionInProgress",
    message: "CustomResource deletion is in progress",
    lastTransitionTime: time,
  });
  const report: DefinitionStep[] = sameJson(reported, definition)
    ? []
    : [{ kind: "report", definition: reported, because: "objects-left" }];
  return [...report, { kind: "delete-objects", definition, because: "definition-ends" }];
}

export function isTrue(definition: JsonObject, type: string): boolean {
  const condition = listAt(definition, "status", "conditions").find((one) => textAt(one, "type") === type);
  return textAt(condition, "status") === "True";
}

type Names = { readonly resources: ReadonlySet<string>; readonly kinds: ReadonlySet<string> };

/** Assigns names that no other definition of the group has; a definition is served once it has all of its names. */
function acceptNames(definition: JsonObject, others: readonly JsonObject[], time: string): JsonObject {
  const wanted = objectAt(definition, "spec", "names");
  const taken = takenNames(others, textAt(definition, "spec", "group"));
  let accepted = objectAt(definition, "status", "acceptedNames");
  let conflict: { readonly reason: string; readonly message: string } | undefined;
  const accept = (key: string, names: readonly string[], used: ReadonlySet<string>): void => {
    const lost = names.find((name) => used.has(name) && name !== "");
    if (lost === undefined) accepted = put(accepted, [key], wanted[key]);
    else {
      const reason = `${key.charAt(0).toUpperCase()}${key.slice(1)}Conflict`;
      conflict = { reason, message: `${JSON.stringify(lost)} is already in use` };
    }
  };
  accept("plural", [textAt(wanted, "plural")], taken.resources);
  accept("singular", [textAt(wanted, "singular")], taken.resources);
  accept("shortNames", listAt(wanted, "shortNames").map(String), taken.resources);
  accept("kind", [textAt(wanted, "kind")], taken.kinds);
  accept("listKind", [textAt(wanted, "listKind")], taken.kinds);
  accepted = put(accepted, ["categories"], wanted["categories"]);
  const named = withCondition(
    sameJson(accepted, objectAt(definition, "status", "acceptedNames"))
      ? definition
      : put(definition, ["status", "acceptedNames"], accepted),
    {
      type: "NamesAccepted",
      status: conflict === undefined ? "True" : "False",
      reason: conflict?.reason ?? "NoConflicts",
      message: conflict?.message ?? "no conflicts found",
      lastTransitionTime: time,
    },
  );
  if (isTrue(definition, "Established")) return named;
  return withCondition(named, {
    type: "Established",
    status: conflict === undefined ? "True" : "False",
    reason: conflict === undefined ? "InitialNamesAccepted" : "NotAccepted",
    message: conflict === undefined ? "the initial names have been accepted" : "not all names are accepted",
    lastTransitionTime: time,
  });
}

function takenNames(others: readonly JsonObject[], group: string): Names {
  const names = others
    .filter((other) => textAt(other, "spec", "group") === group && nameOf(other) !== "")
    .map((other) => objectAt(other, "status", "acceptedNames"));
  return {
    resources: new Set(
      names.flatMap((one) => [
        textAt(one, "plural"),
        textAt(one, "singular"),
        ...listAt(one, "shortNames").map(String),
      ]),
    ),
    kinds: new Set(names.flatMap((one) => [textAt(one, "kind"), textAt(one, "listKind")])),
  };
}
