import { definitionOf, definitions } from "./definitions.ts";
import { applyConfig, type Writer } from "./fields/managed-fields.ts";
import { at, isObject, type Json, type JsonObject, objectAt, put, textAt } from "./json.ts";
import { jsonPatch } from "./json-patch.ts";
import { mergePatch } from "./merge-patch.ts";
import { nameOf, uidOf } from "./metadata.ts";
import { apiVersionOf, type Resource } from "./resource.ts";
import { badRequest, conflict, fail, forbiddenValue, invalid, required, unsupportedMediaType } from "./status.ts";
import { strategicMerge } from "./strategic-merge.ts";

export const APPLY = "application/apply-patch+yaml";

export const PATCH_TYPES = [
  "application/json-patch+json",
  "application/merge-patch+json",
  "application/strategic-merge-patch+json",
  APPLY,
] as const;

export type PatchType = (typeof PATCH_TYPES)[number];

/** Fails with 415 for any other type. Custom resources have no strategic merge. */
export function patchTypeOf(mediaType: string, strategic: boolean): PatchType {
  const accepted = PATCH_TYPES.filter((type) => strategic || type !== "application/strategic-merge-patch+json");
  const found = accepted.find((type) => type === mediaType);
  return found ?? fail(unsupportedMediaType(accepted));
}

export type PatchRequest = {
  readonly resource: Resource;
  readonly type: PatchType;
  readonly patch: Json;
  readonly writer: Writer;
  /** Whether an apply takes fields from others. */
  readonly force: boolean | undefined;
};

/** Fails with 422 for options that do not fit the type of the patch. */
export function checkPatchOptions(type: PatchType, fieldManager: string, force: boolean | undefined): void {
  const options = { group: "meta.k8s.io", kind: "PatchOptions" };
  if (type === APPLY && fieldManager === "") {
    fail(invalid(options, "", [required("fieldManager", "is required for apply patch")]));
  }
  if (type !== APPLY && force !== undefined) {
    fail(invalid(options, "", [forbiddenValue("force", "may not be specified for non-apply patch")]));
  }
}

/** The object that a patch makes of the current one. Only an apply makes one out of nothing. */
export function applyPatch(current: JsonObject | undefined, request: PatchRequest): JsonObject {
  const { resource, type, patch } = request;
  if (type === APPLY) return apply(current, request);
  const base = current ?? {};
  if (type === "application/json-patch+json") return requireObject(jsonPatch(base, patch));
  if (!isObject(patch)) return fail(badRequest("error decoding patch: an object is needed"));
  if (type === "application/merge-patch+json") return requireObject(mergePatch(base, patch));
  const name = definitionOf(apiVersionOf(resource), resource.kind);
  return strategicMerge(base, patch, name === undefined ? {} : objectAt(definitions(), name));
}

function apply(current: JsonObject | undefined, { resource, patch, writer, force }: PatchRequest): JsonObject {
  if (!isObject(patch)) return fail(badRequest("error decoding YAML: an object is needed"));
  const [version = "", group = ""] = textAt(patch, "apiVersion").split("/").reverse();
  if (textAt(patch, "apiVersion") !== apiVersionOf(resource) || textAt(patch, "kind") !== resource.kind) {
    fail(badRequest(`invalid object type: ${group}/${version}, Kind=${textAt(patch, "kind")}`));
  }
  if ((at(patch, "metadata", "managedFields") ?? null) !== null) fail(badRequest("metadata.managedFields must be nil"));
  if (current === undefined && uidOf(patch) !== "") {
    const because = `uid mismatch: the provided object specified uid ${uidOf(patch)}, and no existing object was found`;
    fail(conflict(resource, nameOf(patch), because));
  }
  const config = put(patch, ["metadata", "resourceVersion"], undefined);
  const applied = applyConfig(resource, current, config, { ...writer, force: force === true });
  if ("refused" in applied) return fail(applied.refused);
  const revision = textAt(patch, "metadata", "resourceVersion");
  return revision === "" ? applied.object : put(applied.object, ["metadata", "resourceVersion"], revision);
}

function requireObject(patched: Json): JsonObject {
  return isObject(patched) ? patched : fail(badRequest("error decoding patch: the result is no object"));
}
