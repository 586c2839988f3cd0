import { expect, it } from "vitest";
import { checkDefinition } from "../custom/check-definition.ts";
import type { JsonObject } from "../json.ts";
import { limitRanges } from "./limit-range.ts";
import { validatePod } from "./pod-validation.ts";
import { resourceQuotas } from "./resource-quota.ts";
import { services } from "./service.ts";
import { type Failure, FailureError } from "../status.ts";

const spec = { group: "example.com", scope: "Namespaced", names: { plural: "as", kind: "A" } };
const definition = (schema: object, additionalPrinterColumns: object[] = []) =>
  toJson({
    spec: {
      ...spec,
      versions: [{ name: "v1", storage: true, schema: { openAPIV3Schema: schema }, additionalPrinterColumns }],
    },
  });

const container = { name: "main", image: "program" };

it.each<[string, () => unknown]>([
  [
    "readinessProbe.grpc",
    () => validatePod({ spec: { containers: [{ ...container, readinessProbe: { grpc: {} } }] } }),
  ],
  ["livenessProbe", () => validatePod({ spec: { containers: [{ ...container, livenessProbe: {} }] } })],
  ["startupProbe", () => validatePod({ spec: { initContainers: [{ ...container, startupProbe: {} }] } })],
  [
    "lifecycle.postStart",
    () => validatePod({ spec: { containers: [{ ...container, lifecycle: { postStart: {} } }] } }),
  ],
  [
    "required podAffinity",
    () => {
      const required = { requiredDuringSchedulingIgnoredDuringExecution: [] };
      return validatePod({ spec: { containers: [container], affinity: { podAffinity: required } } });
    },
  ],
  ["spec.scopes BestEffort", () => resourceQuotas.validate({ spec: { hard: {}, scopes: ["BestEffort"] } })],
  ["spec.scopeSelector", () => resourceQuotas.validate({ spec: { hard: {}, scopeSelector: {} } })],
  ["spec.limits[0].max", () => limitRanges.validate({ spec: { limits: [{ type: "Container", max: { cpu: "1" } }] } })],
  ["spec.limits[0].type Pod", () => limitRanges.validate({ spec: { limits: [{ type: "Pod" }] } })],
  ["spec.type NodePort of a Service", () => services.validate({ spec: { type: "NodePort", ports: [{ port: 80 }] } })],
  [
    "several versions of a definition",
    () => checkDefinition(toJson({ spec: { ...spec, versions: [{ name: "v1", storage: true }, { name: "v2" }] } })),
  ],
  ["oneOf in the schema of a definition", () => checkDefinition(definition({ properties: { a: { oneOf: [] } } }))],
  ["the pattern ( in the schema of a definition", () => checkDefinition(definition({ pattern: "(" }))],
  ["the column .a[0] of a definition", () => checkDefinition(definition({}, [{ jsonPath: ".a[0]" }]))],
])("refuses %s, which this server would not enforce", (field, validate) => {
  const refused = failureOf(validate);
  expect(refused?.code).toBe(501);
  expect(refused?.message).toContain(` ${field}: `);
});

function toJson(value: object): JsonObject {
  return JSON.parse(JSON.stringify(value)) as JsonObject;
}

function failureOf(call: () => unknown): Failure | undefined {
  try {
    call();
    return undefined;
  } catch (error) {
    if (error instanceof FailureError) return error.failure;
    throw error;
  }
}
