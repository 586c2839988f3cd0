import { expect, it } from "vitest";
import { limitRanges } from "./limit-range.ts";
import { validatePod } from "./pod-validation.ts";
import { resourceQuotas } from "./resource-quota.ts";
import { type Failure, FailureError } from "../status.ts";

const container = { name: "main", image: "program" };

it.each<[string, () => unknown]>([
  [
    "readinessProbe.grpc",
    () => validatePod({ spec: { containers: [{ ...container, readinessProbe: { grpc: {} } }] } }),
  ],
  ["spec.scopes BestEffort", () => resourceQuotas.validate({ spec: { hard: {}, scopes: ["BestEffort"] } })],
  ["spec.scopeSelector", () => resourceQuotas.validate({ spec: { hard: {}, scopeSelector: {} } })],
  ["spec.limits[0].max", () => limitRanges.validate({ spec: { limits: [{ type: "Container", max: { cpu: "1" } }] } })],
  ["spec.limits[0].type Pod", () => limitRanges.validate({ spec: { limits: [{ type: "Pod" }] } })],
])("refuses %s, which nothing here would enforce", (field, validate) => {
  const refused = failureOf(validate);
  expect(refused?.code).toBe(501);
  expect(refused?.message).toContain(` ${field}: `);
});

function failureOf(call: () => unknown): Failure | undefined {
  try {
    call();
    return undefined;
  } catch (error) {
    if (error instanceof FailureError) return error.failure;
    throw error;
  }
}
