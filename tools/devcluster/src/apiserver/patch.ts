import { findDefinition, definitions } from "./definitions.ts";
import { isObject, type JsonValue, type JsonObject, getObject, getText } from "./json.ts";
import { applyJsonPatch } from "./json-patch.ts";
import { mergePatch } from "./merge-patch.ts";
import { getName, getUid } from "./metadata.ts";
import { buildApiVersion, type Resource } from "./resource.ts";
import { badRequest, conflict, fail, forbiddenValue, invalid, required, unsupportedMediaType } from "./status.ts";
import { applyStrategicMerge } from "./strategic-merge.ts";

export const APPLY = "application/apply-patch+yaml";

export const PATCH_TYPES = [
  "application/json-patch+json",
  "application/merge-patch+json",
  "application/strategic-merge-patch+json",
  APPLY,
] as const;

export type PatchType = (typeof PATCH_TYPES)[number];

/** Fails with 415 for any other type. Custom resources have no strategic merge. */
export function parsePatchType(mediaType: string, strategic: boolean): PatchType {
  const accepted = PATCH_TYPES.filter((type) => strategic || type !== "application/strategic-merge-patch+json");
  const found = accepted.find((type) => type === mediaType);
  return found ?? fail(unsupportedMediaType(accepted));
}

export type PatchRequest = {
  readonly resource: Resource;
  readonly type: PatchType;
  readonly patch: JsonValue;
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

/** Applies a patch to the current object. Only an apply creates a missing one. */
export function applyPatch(current: JsonObject | undefined, request: PatchRequest): JsonObject {
  const { resource, type, patch } = request;
  if (type === "application/json-patch+json") return requireObject(applyJsonPatch(current ?? {}, patch));
  if (!isObject(patch)) return fail(badRequest("error decoding patch: an object is needed"));
  if (type === "application/merge-patch+json") return requireObject(mergePatch(current ?? {}, patch));
  if (type === APPLY) {
    checkApplied(current, request, patch);
    if (current === undefined) return patch;
    // Fields have no owners here: an apply changes the fields that it names, and never conflicts.
    if (!resource.patchesStrategically) return requireObject(mergePatch(current, patch));
  }
  const name = findDefinition(buildApiVersion(resource), resource.kind);
  return applyStrategicMerge(current ?? {}, patch, name === undefined ? {} : getObject(definitions(), name));
}

function checkApplied(current: JsonObject | undefined, { resource }: PatchRequest, config: JsonObject): void {
  const [version = "", group = ""] = getText(config, "apiVersion").split("/").reverse();
  if (getText(config, "apiVersion") !== buildApiVersion(resource) || getText(config, "kind") !== resource.kind) {
    fail(badRequest(`invalid object type: ${group}/${version}, Kind=${getText(config, "kind")}`));
  }
  if (current === undefined && getUid(config) !== "") {
    const because = `uid mismatch: the provided object specified uid ${getUid(config)}, and no existing object was found`;
    fail(conflict(resource, getName(config), because));
  }
}

function requireObject(patched: JsonValue): JsonObject {
  return isObject(patched) ? patched : fail(badRequest("error decoding patch: the result is no object"));
}
