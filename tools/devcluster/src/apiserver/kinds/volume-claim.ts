import { type JsonObject, listAt, objectAt, put, sameJson, textAt, textsAt } from "../json.ts";
import { isDeleting } from "../metadata.ts";
import { checkSubdomain } from "../names.ts";
import { defineResource, type Resource } from "../resource.ts";
import { forbiddenValue, type Problem, required, unsupported } from "../status.ts";
import { AGE, column, NAME } from "../table.ts";

/** By their names, and as tables have them. */
const ACCESS_MODES: Readonly<Record<string, string>> = {
  ReadOnlyMany: "ROX",
  ReadWriteMany: "RWX",
  ReadWriteOnce: "RWO",
  ReadWriteOncePod: "RWOP",
};
const VOLUME_MODES = ["Block", "Filesystem"];

/** Of a claim that a pod may use. */
export const CLAIM_FINALIZER = "kubernetes.io/pvc-protection";

/** A claim is kept, and nothing more: there are no volumes here, so it stays Pending, as on any API server without a controller of volumes. */
export const volumeClaims: Resource = defineResource({
  kind: "PersistentVolumeClaim",
  plural: "persistentvolumeclaims",
  shortNames: ["pvc"],
  subresources: ["status"],
  checkName: checkSubdomain,
  columns: [
    NAME,
    column("Status", (claim) => (isDeleting(claim) ? "Terminating" : textAt(claim, "status", "phase"))),
    column("Volume", (claim) => textAt(claim, "spec", "volumeName")),
    column("Capacity", (claim) => (isBound(claim) ? textAt(claim, "status", "capacity", "storage") : "")),
    column("Access Modes", (claim) => (isBound(claim) ? shortModes(textsAt(claim, "status", "accessModes")) : "")),
    column("StorageClass", (claim) => textAt(claim, "spec", "storageClassName")),
    column("VolumeAttributesClass", (claim) => textAt(claim, "spec", "volumeAttributesClassName") || "<unset>"),
    AGE,
    column("VolumeMode", (claim) => textAt(claim, "spec", "volumeMode") || "<unset>", "wide"),
  ],
  defaults: (claim) => put(claim, ["spec", "volumeMode"], textAt(claim, "spec", "volumeMode") || "Filesystem"),
  withoutStatus: (claim) => put(claim, ["status"], { phase: "Pending" }),
  validate: (claim) => checkSpec(objectAt(claim, "spec")),
  validateChange: checkChange,
});

function isBound(claim: JsonObject): boolean {
  return textAt(claim, "spec", "volumeName") !== "";
}

function shortModes(modes: readonly string[]): string {
  return modes.map((mode) => ACCESS_MODES[mode] ?? mode).join(",");
}

function checkSpec(spec: JsonObject): Problem[] {
  const modes = textsAt(spec, "accessModes");
  const problems = modes
    .filter((mode) => !Object.hasOwn(ACCESS_MODES, mode))
    .map((mode) => unsupported("spec.accessModes", mode, Object.keys(ACCESS_MODES)));
  if (listAt(spec, "accessModes").length === 0)
    problems.push(required("spec.accessModes", "at least 1 access mode is required"));
  if (modes.includes("ReadWriteOncePod") && modes.some((mode) => mode !== "ReadWriteOncePod"))
    problems.push(forbiddenValue("spec.accessModes", "may not use ReadWriteOncePod with other access modes"));
  if (objectAt(spec, "resources", "requests")["storage"] === undefined)
    problems.push(required("spec.resources[storage]"));
  const volumeMode = textAt(spec, "volumeMode");
  if (volumeMode !== "" && !VOLUME_MODES.includes(volumeMode))
    problems.push(unsupported("spec.volumeMode", volumeMode, VOLUME_MODES));
  return problems;
}

/** A volume may be named once. Nothing else changes: more room for a bound claim is for a class of storage to give, and there is none. */
function checkChange(before: JsonObject, after: JsonObject): Problem[] {
  const wishOf = (claim: JsonObject): JsonObject =>
    isBound(before) ? objectAt(claim, "spec") : put(objectAt(claim, "spec"), ["volumeName"], undefined);
  if (sameJson(wishOf(before), wishOf(after))) return [];
  const because =
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
  return [forbiddenValue("spec", because)];
}
