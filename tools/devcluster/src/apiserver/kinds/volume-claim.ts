import { type JsonObject, getList, getObject, setAt, isSameJson, getText, getTexts } from "../json.ts";
import { checkSubdomain } from "../names.ts";
import { defineResource, type Resource } from "../resource.ts";
import { forbiddenValue, type Problem, required, unsupported } from "../status.ts";

const ACCESS_MODES = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
const VOLUME_MODES = ["Block", "Filesystem"];

/** The finalizer of a claim that a pod may use. */
export const CLAIM_FINALIZER = "kubernetes.io/pvc-protection";

/** A claim is stored without effect: it stays Pending, as on any API server without a controller of volumes. The lease types volume and zdb make claims. */
export const volumeClaims: Resource = defineResource({
  kind: "PersistentVolumeClaim",
  plural: "persistentvolumeclaims",
  shortNames: ["pvc"],
  subresources: ["status"],
  checkName: checkSubdomain,
  defaults: (claim) => setAt(claim, ["spec", "volumeMode"], getText(claim, "spec", "volumeMode") || "Filesystem"),
  withoutStatus: (claim) => setAt(claim, ["status"], { phase: "Pending" }),
  validate: (claim) => checkSpec(getObject(claim, "spec")),
  validateChange: checkChange,
});

function isBound(claim: JsonObject): boolean {
  return getText(claim, "spec", "volumeName") !== "";
}

function checkSpec(spec: JsonObject): Problem[] {
  const modes = getTexts(spec, "accessModes");
  const problems = modes
    .filter((mode) => !ACCESS_MODES.includes(mode))
    .map((mode) => unsupported("spec.accessModes", mode, ACCESS_MODES));
  if (getList(spec, "accessModes").length === 0)
    problems.push(required("spec.accessModes", "at least 1 access mode is required"));
  if (modes.includes("ReadWriteOncePod") && modes.some((mode) => mode !== "ReadWriteOncePod"))
    problems.push(forbiddenValue("spec.accessModes", "may not use ReadWriteOncePod with other access modes"));
  if (getObject(spec, "resources", "requests")["storage"] === undefined)
    problems.push(required("spec.resources[storage]"));
  const volumeMode = getText(spec, "volumeMode");
  if (volumeMode !== "" && !VOLUME_MODES.includes(volumeMode))
    problems.push(unsupported("spec.volumeMode", volumeMode, VOLUME_MODES));
  return problems;
}

/** A claim may name a volume once. Nothing else may change, because no storage class exists that could enlarge a bound claim. */
function checkChange(before: JsonObject, after: JsonObject): Problem[] {
  const wishOf = (claim: JsonObject): JsonObject =>
    isBound(before) ? getObject(claim, "spec") : setAt(getObject(claim, "spec"), ["volumeName"], undefined);
  if (isSameJson(wishOf(before), wishOf(after))) return [];
  const because =
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
  return [forbiddenValue("spec", because)];
}
