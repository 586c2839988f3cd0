import {
  at,
  type JsonObject,
  mapEntries,
  findNumber,
  getObject,
  setAt,
  isSameJson,
  getText,
  withDefaults,
} from "../json.ts";
import { getName } from "../metadata.ts";
import { checkConfigKey, checkLabel, checkSubdomain } from "../names.ts";
import { defineResource, type Resource } from "../resource.ts";
import { forbiddenValue, invalidValue, type Problem } from "../status.ts";
import { AGE, defineColumn, NAME } from "../table.ts";

const IMMORTAL = ["default", "kube-public", "kube-system"];

export const namespaces: Resource = defineResource({
  kind: "Namespace",
  plural: "namespaces",
  shortNames: ["ns"],
  namespaced: false,
  subresources: ["status", "finalize"],
  checkName: checkLabel,
  fields: { "status.phase": (namespace) => getText(namespace, "status", "phase") },
  columns: [NAME, defineColumn("Status", (namespace) => getText(namespace, "status", "phase")), AGE],
  deleteReturnsObject: true,
  keepAlways: (namespace) => (IMMORTAL.includes(getName(namespace)) ? "this namespace may not be deleted" : undefined),
  // A namespace has no grace period: it is removed once it is empty.
  whileDeleting: (namespace) =>
    setAt(setAt(namespace, ["metadata", "deletionGracePeriodSeconds"], undefined), ["status", "phase"], "Terminating"),
  carryOver: (before, after) => setAt(after, ["spec"], before["spec"]),
  defaults: (namespace) => ({
    ...setAt(namespace, ["metadata", "labels", "kubernetes.io/metadata.name"], getName(namespace)),
    spec: { finalizers: ["kubernetes"] },
    status: { phase: "Active" },
  }),
});

export const configMaps: Resource = defineResource({
  kind: "ConfigMap",
  plural: "configmaps",
  shortNames: ["cm"],
  checkName: checkSubdomain,
  columns: [NAME, defineColumn("Data", (map) => count(map, "data") + count(map, "binaryData")), AGE],
  validate: (map) => [...checkKeys(map, "data"), ...checkKeys(map, "binaryData")],
  validateChange: (before, after) => checkImmutable(before, after, ["data", "binaryData"]),
});

export const secrets: Resource = defineResource({
  kind: "Secret",
  plural: "secrets",
  checkName: checkSubdomain,
  fields: { type: (secret) => getText(secret, "type") },
  columns: [
    NAME,
    defineColumn("Type", (secret) => getText(secret, "type")),
    defineColumn("Data", (secret) => count(secret, "data")),
    AGE,
  ],
  defaults: (secret) => withDefaults(encodeSecret(secret), { type: "Opaque" }),
  validate: (secret) => checkKeys(secret, "data"),
  validateChange: (before, after) => [
    ...(isSameJson(before["type"], after["type"]) ? [] : [invalidValue("type", after["type"], "field is immutable")]),
    ...checkImmutable(before, after, ["data"]),
  ],
});

export const serviceAccounts: Resource = defineResource({
  kind: "ServiceAccount",
  plural: "serviceaccounts",
  shortNames: ["sa"],
  subresources: ["token"],
  checkName: checkSubdomain,
});

export const leases: Resource = defineResource({
  group: "coordination.k8s.io",
  kind: "Lease",
  plural: "leases",
  checkName: checkSubdomain,
  columns: [NAME, defineColumn("Holder", (lease) => getText(lease, "spec", "holderIdentity")), AGE],
  unconditionalUpdate: false,
  createOnUpdate: true,
  validate: checkLease,
});

function checkLease(lease: JsonObject): Problem[] {
  const seconds = findNumber(lease, "spec", "leaseDurationSeconds") ?? 1;
  const transitions = findNumber(lease, "spec", "leaseTransitions") ?? 0;
  return [
    ...(seconds > 0 ? [] : [invalidValue("spec.leaseDurationSeconds", seconds, "must be greater than 0")]),
    ...(transitions >= 0
      ? []
      : [invalidValue("spec.leaseTransitions", transitions, "must be greater than or equal to 0")]),
  ];
}

/** Moves the write-only `stringData` to `data`, in base64. */
export function encodeSecret(secret: JsonObject): JsonObject {
  const plain = getObject(secret, "stringData");
  if (Object.keys(plain).length === 0) return setAt(secret, ["stringData"], undefined);
  const encoded = mapEntries(plain, (key) => Buffer.from(getText(plain, key)).toString("base64"));
  const data = mapEntries(getObject(secret, "data"), (key, value) => (Object.hasOwn(encoded, key) ? undefined : value));
  const merged = Object.fromEntries([...Object.entries(data), ...Object.entries(encoded)]);
  return setAt(setAt(secret, ["stringData"], undefined), ["data"], merged);
}

function count(object: JsonObject, field: string): number {
  return Object.keys(getObject(object, field)).length;
}

function checkKeys(object: JsonObject, field: string): Problem[] {
  return Object.keys(getObject(object, field)).flatMap((key) => {
    const problem = checkConfigKey(key);
    return problem === undefined ? [] : [invalidValue(`${field}[${key}]`, key, problem)];
  });
}

function checkImmutable(before: JsonObject, after: JsonObject, fields: readonly string[]): Problem[] {
  if (at(before, "immutable") !== true) return [];
  const because = "field is immutable when `immutable` is set";
  return ["immutable", ...fields]
    .filter((field) => !isSameJson(before[field], after[field]))
    .map((field) => forbiddenValue(field, because));
}
