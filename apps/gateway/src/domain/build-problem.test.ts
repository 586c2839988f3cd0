import type { Fault } from "@muster/faults";
import { expect, it } from "vitest";
import { buildProblem, buildRefusal, retryAfterSeconds } from "./build-problem.ts";

const CASES: readonly [fault: Fault, status: number, retryAfter: number | undefined][] = [
  [{ code: "invalid_request", field: "spec", reason: "is missing" }, 400, undefined],
  [{ code: "not_found", kind: "session", id: "a" }, 404, undefined],
  [{ code: "already_exists", kind: "session", id: "a" }, 409, undefined],
  [{ code: "conflict", id: "a", expectedRevision: 1, actualRevision: 2 }, 409, undefined],
  [{ code: "reservation_differs", ownerKind: "session", ownerId: "a" }, 409, undefined],
  [{ code: "pool_unknown", pool: "a" }, 422, undefined],
  [{ code: "pool_capacity", pool: "a", requested: 2, capacity: 1 }, 422, undefined],
  [{ code: "queue_unknown", queue: "a" }, 422, undefined],
  [{ code: "quota_exceeded", queue: "a", pool: "b", resource: "cpu", requested: 2, most: 1 }, 422, undefined],
  [{ code: "pool_availability", pool: "a", requested: 2, available: 1 }, 503, 1],
  [{ code: "limit_exceeded", what: "the queue", limit: 5, retryAfterMs: 2001 }, 429, 3],
  [{ code: "limit_exceeded", what: "the request", limit: 5, retryAfterMs: 0 }, 422, undefined],
  [{ code: "unavailable", dependency: "session", retryAfterMs: 100 }, 503, 1],
  [{ code: "unavailable", dependency: "session", retryAfterMs: 0 }, 503, 1],
  [{ code: "cancelled", operation: "listing" }, 503, 1],
  [{ code: "deadline_exceeded", operation: "listing", timeoutMs: 100 }, 504, 1],
  [{ code: "internal", operation: "listing" }, 500, undefined],
];

it.each(CASES)("maps %o to %i with a retry after %s s", (fault, status, retryAfter) => {
  const problem = buildProblem(fault);
  expect([problem.status, retryAfterSeconds(problem)]).toEqual([status, retryAfter]);
  expect(problem).toMatchObject({ code: fault.code.toUpperCase(), fault });
});

it("names the invalid field", () => {
  expect(buildProblem({ code: "invalid_request", field: "spec.name", reason: "is missing" })).toMatchObject({
    field: "spec.name",
    detail: "spec.name: is missing",
    type: "urn:muster:problem:invalid-request",
    title: "Invalid request",
  });
});

it("has a status for each refusal by HTTP", () => {
  expect(buildRefusal("BODY_TOO_LARGE", "the body is over 5 bytes")).toEqual({
    type: "urn:muster:problem:body-too-large",
    title: "Body too large",
    status: 413,
    detail: "the body is over 5 bytes",
    code: "BODY_TOO_LARGE",
  });
});
