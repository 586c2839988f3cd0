import { type JsonObject, getList, getObject, setAt, isSameJson, getText } from "../json.ts";
import { listFinalizers, isDeleting, getName, getUid } from "../metadata.ts";
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
  const known = new Map(definitions.map((one) => [getUid(one), one]));
  const steps: DefinitionStep[] = [];
  for (const definition of definitions) {
    if (isDeleting(definition)) {
      steps.push(...planEnd(definition, countObjects(definition), time));
      continue;
    }
    const others = [...known.values()].filter((one) => getUid(one) !== getUid(definition));
    const next = acceptNames(definition, others, time);
    if (isSameJson(next, definition)) continue;
    known.set(getUid(definition), next);
    const because = isTrue(next, "NamesAccepted") ? "names-accepted" : "names-taken";
    steps.push({ kind: "report", definition: next, because });
  }
  return steps;
}

function planEnd(definition: JsonObject, objects: number, time: string): DefinitionStep[] {
  const finalizers = listFinalizers(definition);
  if (!finalizers.includes(CLEANUP)) return [];
  if (objects === 0) {
    const left = finalizers.filter((one) => one !== CLEANUP);
    const released = setAt(definition, ["metadata", "finalizers"], left.length === 0 ? undefined : left);
    return [{ kind: "release", definition: released, because: "no-objects-left" }];
  }
  const reported = withCondition(definition, {
    type: "Terminating",
    status: "True",
    reason: "InstanceDeletionInProgress",
    message: "CustomResource deletion is in progress",
    lastTransitionTime: time,
  });
  const report: DefinitionStep[] = isSameJson(reported, definition)
    ? []
    : [{ kind: "report", definition: reported, because: "objects-left" }];
  return [...report, { kind: "delete-objects", definition, because: "definition-ends" }];
}

export function isTrue(definition: JsonObject, type: string): boolean {
  const condition = getList(definition, "status", "conditions").find((one) => getText(one, "type") === type);
  return getText(condition, "status") === "True";
}

type Names = { readonly resources: ReadonlySet<string>; readonly kinds: ReadonlySet<string> };

/** Assigns names that no other definition of the group has; a definition is served once it has all of its names. */
function acceptNames(definition: JsonObject, others: readonly JsonObject[], time: string): JsonObject {
  const wanted = getObject(definition, "spec", "names");
  const taken = takenNames(others, getText(definition, "spec", "group"));
  let accepted = getObject(definition, "status", "acceptedNames");
  let conflict: { readonly reason: string; readonly message: string } | undefined;
  const accept = (key: string, names: readonly string[], used: ReadonlySet<string>): void => {
    const lost = names.find((name) => used.has(name) && name !== "");
    if (lost === undefined) accepted = setAt(accepted, [key], wanted[key]);
    else {
      const reason = `${key.charAt(0).toUpperCase()}${key.slice(1)}Conflict`;
      conflict = { reason, message: `${JSON.stringify(lost)} is already in use` };
    }
  };
  accept("plural", [getText(wanted, "plural")], taken.resources);
  accept("singular", [getText(wanted, "singular")], taken.resources);
  accept("shortNames", getList(wanted, "shortNames").map(String), taken.resources);
  accept("kind", [getText(wanted, "kind")], taken.kinds);
  accept("listKind", [getText(wanted, "listKind")], taken.kinds);
  accepted = setAt(accepted, ["categories"], wanted["categories"]);
  const named = withCondition(
    isSameJson(accepted, getObject(definition, "status", "acceptedNames"))
      ? definition
      : setAt(definition, ["status", "acceptedNames"], accepted),
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
    .filter((other) => getText(other, "spec", "group") === group && getName(other) !== "")
    .map((other) => getObject(other, "status", "acceptedNames"));
  return {
    resources: new Set(
      names.flatMap((one) => [
        getText(one, "plural"),
        getText(one, "singular"),
        ...getList(one, "shortNames").map(String),
      ]),
    ),
    kinds: new Set(names.flatMap((one) => [getText(one, "kind"), getText(one, "listKind")])),
  };
}
