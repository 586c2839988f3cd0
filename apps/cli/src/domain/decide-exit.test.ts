import { readFileSync } from "node:fs";
import { join } from "node:path";
import { isRetryable, type Fault } from "@muster/faults";
import { expect, it } from "vitest";
import { decideExit, EXIT } from "./decide-exit.ts";

it.each<[Fault, number]>([
  [{ code: "invalid_request", field: "name", reason: "is empty" }, 4],
  [{ code: "not_found", kind: "session", id: "a" }, 4],
  [{ code: "already_exists", kind: "session", id: "a" }, 4],
  [{ code: "conflict", id: "a", expectedRevision: 3, actualRevision: 0 }, 4],
  [{ code: "pool_unknown", pool: "p" }, 4],
  [{ code: "pool_capacity", pool: "p", requested: 5, capacity: 3 }, 4],
  [{ code: "pool_availability", pool: "p", requested: 2, available: 1 }, 4],
  [{ code: "reservation_differs", ownerKind: "session", ownerId: "a" }, 4],
  [{ code: "limit_exceeded", what: "the queue", limit: 10, retryAfterMs: 0 }, 4],
  [{ code: "unavailable", dependency: "nats", retryAfterMs: 0 }, 3],
  [{ code: "deadline_exceeded", operation: "reserve", timeoutMs: 50 }, 3],
  [{ code: "cancelled", operation: "reserve" }, 130],
  [{ code: "internal", operation: "reserve" }, 4],
])("ends on %o with %i", (fault, code) => {
  expect(decideExit(fault).code).toBe(code);
  // After 3 a caller may retry.
  if (code === EXIT.unreachable) expect(isRetryable(fault)).toBe(true);
});

it("has the exit codes of the README", () => {
  const readme = readFileSync(join(import.meta.dirname, "../../README.md"), "utf8");
  const documented = [...readme.matchAll(/^\| (\d+) +\|/gm)].map(([, code]) => Number(code));
  expect(documented).toEqual(Object.values(EXIT));
});
