import { at, type JsonObject, sameJson, textAt, withDefaults } from "../json.ts";
import { nameOf } from "../metadata.ts";
import { checkLabelKey, checkSubdomain } from "../names.ts";
import { defineResource, type Resource } from "../resource.ts";
import { invalidValue, type Problem, required, unsupported } from "../status.ts";
import { AGE, column, NAME } from "../table.ts";

const DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class";
const RECLAIM = ["Delete", "Retain"];
const BINDING = ["Immediate", "WaitForFirstConsumer"];
const FIXED = ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"];

/** A kind of storage, as data: nobody here makes volumes of any. */
export const storageClasses: Resource = defineResource({
  group: "storage.k8s.io",
  kind: "StorageClass",
  plural: "storageclasses",
  shortNames: ["sc"],
  namespaced: false,
  checkName: checkSubdomain,
  deleteReturnsObject: true,
  columns: [
    { ...NAME, cell: (one) => (isDefaultClass(one) ? `${nameOf(one)} (default)` : nameOf(one)) },
    column("Provisioner", (one) => textAt(one, "provisioner")),
    column("ReclaimPolicy", (one) => textAt(one, "reclaimPolicy")),
    column("VolumeBindingMode", (one) => textAt(one, "volumeBindingMode")),
    column("AllowVolumeExpansion", (one) => at(one, "allowVolumeExpansion") === true),
    AGE,
  ],
  defaults: (one) => withDefaults(one, { reclaimPolicy: "Delete", volumeBindingMode: "Immediate" }),
  validate: checkClass,
  validateChange: (before, after) =>
    FIXED.filter((field) => !sameJson(before[field], after[field])).map((field) =>
      invalidValue(field, after[field] ?? null, "field is immutable"),
    ),
});

function isDefaultClass(one: JsonObject): boolean {
  return textAt(one, "metadata", "annotations", DEFAULT_CLASS) === "true";
}

/** The class of a claim that names none: the newest of those that say that they are for it. */
export function defaultClassOf(classes: readonly JsonObject[]): string | undefined {
  const created = (one: JsonObject): string => textAt(one, "metadata", "creationTimestamp");
  const [first] = classes.filter(isDefaultClass).toSorted((one, other) => {
    if (created(one) !== created(other)) return created(one) > created(other) ? -1 : 1;
    return nameOf(one) < nameOf(other) ? -1 : 1;
  });
  return first === undefined ? undefined : nameOf(first);
}

function checkClass(one: JsonObject): Problem[] {
  const provisioner = textAt(one, "provisioner");
  const reclaim = textAt(one, "reclaimPolicy");
  const binding = textAt(one, "volumeBindingMode");
  const problem = provisioner === "" ? undefined : checkLabelKey(provisioner.toLowerCase());
  return [
    ...(provisioner === "" ? [required("provisioner")] : []),
    ...(problem === undefined ? [] : [invalidValue("provisioner", provisioner.toLowerCase(), problem)]),
    ...(RECLAIM.includes(reclaim) ? [] : [unsupported("reclaimPolicy", reclaim, RECLAIM)]),
    ...(BINDING.includes(binding) ? [] : [unsupported("volumeBindingMode", binding, BINDING)]),
  ];
}
