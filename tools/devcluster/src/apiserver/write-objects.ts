import { type JsonObject, setAt, getText } from "./json.ts";
import { bindPod } from "./kinds/pod.ts";
import { getName, getNamespace, formatTimestamp, getUid } from "./metadata.ts";
import { APPLY, applyPatch, type PatchRequest } from "./patch.ts";
import type { ObjectName, Registry, WriteResult } from "./registry.ts";
import { buildApiVersion, type Resource } from "./resource.ts";
import type { DecodedObject } from "./schema.ts";
import { badRequest, conflict, fail, invalid, invalidValue } from "./status.ts";
import type { Target } from "./target.ts";

/** One write, from any kind of request. Refusals are thrown as failures. */
export type WriteRequest = {
  readonly registry: Registry;
  readonly target: Target;
  readonly dryRun: boolean;
  /** `Strict` refuses unknown fields, `Warn` reports them, `Ignore` drops them silently. */
  readonly fieldValidation: string;
};

export type Outcome = WriteResult & { readonly warnings: readonly string[] };

export function createObject(write: WriteRequest, body: JsonObject): Outcome {
  const { registry, target, dryRun } = write;
  const { object, warnings } = decodeBody(write, body, refuseBody(target.resource));
  return { object: registry.create(target.resource, target.namespace, object, dryRun), created: true, warnings };
}

export function replaceObject(write: WriteRequest, body: JsonObject, subresource?: "status" | "finalize"): Outcome {
  const { registry, target, dryRun } = write;
  const decoded = decodeBody(write, body, refuseBody(target.resource));
  refuseOtherName(target, decoded.object);
  // The path contains the namespace, so a body may omit it.
  const place = target.resource.namespaced ? target.namespace : undefined;
  const object = setAt(decoded.object, ["metadata", "namespace"], place);
  const written = registry.update(target, { subresource, change: () => object, dryRun });
  return { ...written, warnings: decoded.warnings };
}

export function patchObject(
  write: WriteRequest,
  { type, patch }: Pick<PatchRequest, "type" | "patch">,
  subresource?: "status",
): Outcome {
  const { registry, target, dryRun } = write;
  const upsert = type === APPLY;
  let warnings: readonly string[] = [];
  const written = registry.update(target, {
    subresource,
    upsert,
    dryRun,
    change: (current) => {
      const patched = applyPatch(current, { resource: target.resource, type, patch });
      const decoded = decodeBody(write, patched, refusePatch, current);
      refuseOtherName(target, decoded.object);
      if (!upsert) refuseOtherUid(target, current, decoded.object);
      warnings = decoded.warnings;
      return decoded.object;
    },
  });
  return { ...written, warnings };
}

/** Binds the target pod to the node that the binding names. */
export function bindObject({ registry, target, dryRun }: WriteRequest, binding: JsonObject, nowMs: number): void {
  const node = getText(binding, "target", "name");
  if (node === "") fail({ code: 500, reason: "", message: "target.name: Required value" });
  const resource = { group: "", plural: "pods/binding" };
  const bound = bindPod(registry.get(target), target.name, node, formatTimestamp(nowMs));
  if ("refused" in bound) return fail(conflict(resource, target.name, bound.refused));
  const uid = getUid(binding);
  const podUid = getUid(bound.pod);
  if (uid !== "" && uid !== podUid) {
    const because = `Precondition failed: UID in precondition: ${uid}, UID in object meta: ${podUid}`;
    fail(conflict(resource, target.name, because));
  }
  registry.bind(target, bound.pod, dryRun);
}

/** Decodes the fields of the kind. */
export function decodeBody(
  { target, fieldValidation }: Pick<WriteRequest, "target" | "fieldValidation">,
  body: JsonObject,
  refuse: (because: string) => never,
  stored?: JsonObject,
): DecodedObject {
  const { resource } = target;
  const kind = getText(body, "kind");
  const apiVersion = getText(body, "apiVersion");
  const expected = buildApiVersion(resource);
  const isBuiltIn = resource.schema === undefined;
  if (isBuiltIn && ((kind !== "" && kind !== resource.kind) || (apiVersion !== "" && apiVersion !== expected))) {
    const meant = `${kind || resource.kind} in version "${apiVersion || expected}"`;
    fail(badRequest(`${meant} cannot be handled as a ${resource.kind}: this path is for ${expected} ${resource.kind}`));
  }
  const { object, warnings } = resource.decode(body, refuse, stored);
  if (fieldValidation === "Strict" && warnings.length > 0) refuse(`strict decoding error: ${warnings.join(", ")}`);
  return { object, warnings: fieldValidation === "Ignore" ? [] : warnings };
}

export function refuseBody({ kind, version }: Resource): (because: string) => never {
  return (because) => fail(badRequest(`${kind} in version "${version}" cannot be handled as a ${kind}: ${because}`));
}

/** The result of a patch is invalid, although the body of the patch was well formed. */
function refusePatch(because: string): never {
  return fail(invalid({ group: "", kind: "" }, "", [invalidValue("patch", "", because)]));
}

function refuseOtherName(target: Target, object: JsonObject): void {
  const name = getName(object);
  const namespace = getNamespace(object);
  if (name !== target.name) {
    fail(badRequest(`the name of the object (${name}) does not match the name on the URL (${target.name})`));
  }
  if (namespace !== "" && namespace !== target.namespace) {
    fail(badRequest("the namespace of the provided object does not match the namespace sent on the request"));
  }
}

/** A stale precondition of an update is a wrong value in a patch. */
function refuseOtherUid({ resource, name }: ObjectName, current: JsonObject | undefined, patched: JsonObject): void {
  const uid = getUid(patched);
  if (current === undefined || uid === "" || uid === getUid(current)) return;
  fail(invalid(resource, name, [invalidValue("metadata.uid", uid, "field is immutable")]));
}
