import { applyConfiguration } from "./apply.ts";
import { isObject, type Json, type JsonObject, put, textAt } from "./json.ts";
import { jsonPatch } from "./json-patch.ts";
import { mergePatch } from "./merge-patch.ts";
import { badRequest, fail, invalid, required, unsupportedMediaType } from "./status.ts";
import { strategicMerge } from "./strategic-merge.ts";

export const PATCH_TYPES = [
  "application/json-patch+json",
  "application/merge-patch+json",
  "application/strategic-merge-patch+json",
  "application/apply-patch+yaml",
] as const;

export type PatchType = (typeof PATCH_TYPES)[number];

/** Fails with 415 for any other type. Custom resources have no strategic merge. */
export function patchTypeOf(mediaType: string, strategic: boolean): PatchType {
  const accepted = PATCH_TYPES.filter((type) => strategic || type !== "application/strategic-merge-patch+json");
  const found = accepted.find((type) => type === mediaType);
  return found ?? fail(unsupportedMediaType(accepted));
}

export type PatchRequest = {
  readonly type: PatchType;
  readonly patch: Json;
  readonly fieldManager: string;
  /** For the record of an apply. */
  readonly time: string;
  readonly apiVersion: string;
  readonly kind: string;
};

/** The object that a patch makes of the current one. Only an apply makes one out of nothing. */
export function applyPatch(current: JsonObject | undefined, request: PatchRequest): JsonObject {
  const { type, patch } = request;
  if (type === "application/apply-patch+yaml") return apply(current ?? {}, request);
  const base = current ?? {};
  if (type === "application/json-patch+json") return requireObject(jsonPatch(base, patch));
  if (!isObject(patch)) return fail(badRequest("error decoding patch: an object is needed"));
  if (type === "application/merge-patch+json") return requireObject(mergePatch(base, patch));
  return strategicMerge(base, patch);
}

function apply(current: JsonObject, { patch, fieldManager, time, apiVersion, kind }: PatchRequest): JsonObject {
  if (fieldManager === "") {
    const problem = required("fieldManager", "is required for apply patch");
    fail(invalid({ group: "meta.k8s.io", kind: "PatchOptions" }, "", [problem]));
  }
  if (!isObject(patch)) return fail(badRequest("error decoding YAML: an object is needed"));
  if (textAt(patch, "apiVersion") !== apiVersion || textAt(patch, "kind") !== kind) {
    fail(badRequest(`invalid object type: ${textAt(patch, "apiVersion")}, Kind=${textAt(patch, "kind")}`));
  }
  const config = put(patch, ["metadata", "resourceVersion"], undefined);
  const applied = applyConfiguration({ current, config, manager: fieldManager, time });
  const revision = textAt(patch, "metadata", "resourceVersion");
  return revision === "" ? applied : put(applied, ["metadata", "resourceVersion"], revision);
}

function requireObject(patched: Json): JsonObject {
  return isObject(patched) ? patched : fail(badRequest("error decoding patch: the result is no object"));
}
