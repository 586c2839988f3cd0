import { readFileSync } from "node:fs";
import { isRetryable, type Fault } from "@muster/faults";
import { expect, it } from "vitest";
import { decideExit, EXIT } from "./decide-exit.ts";

const ROOT = new URL("../../../../", import.meta.url);

const FAULTS: readonly [Fault, number][] = [
  [{ code: "invalid_request", field: "name", reason: "is empty" }, 4],
  [{ code: "not_found", kind: "session", id: "a" }, 4],
  [{ code: "already_exists", kind: "session", id: "a" }, 4],
  [{ code: "conflict", id: "a", expectedRevision: 3, actualRevision: 0 }, 4],
  [{ code: "pool_unknown", pool: "p" }, 4],
  [{ code: "pool_capacity", pool: "p", requested: 5, capacity: 3 }, 4],
  [{ code: "pool_availability", pool: "p", requested: 2, available: 1 }, 4],
  [{ code: "queue_unknown", queue: "q" }, 4],
  [{ code: "quota_exceeded", queue: "q", pool: "p", resource: "cpu", requested: 2000, most: 1000 }, 4],
  [{ code: "reservation_differs", ownerKind: "session", ownerId: "a" }, 4],
  [{ code: "limit_exceeded", what: "the queue", limit: 10, retryAfterMs: 0 }, 4],
  [{ code: "unavailable", dependency: "nats", retryAfterMs: 0 }, 3],
  [{ code: "deadline_exceeded", operation: "reserve", timeoutMs: 50 }, 3],
  [{ code: "cancelled", operation: "reserve" }, 130],
  [{ code: "internal", operation: "reserve" }, 4],
];

it.each(FAULTS)("ends on %o with %i", (fault, code) => {
  expect(decideExit(fault).code).toBe(code);
  // A caller may retry after exit code 3.
  if (code === EXIT.unreachable) expect(isRetryable(fault)).toBe(true);
});

it.each(FAULTS.filter(([{ code }]) => code === "queue_unknown" || code === "quota_exceeded"))(
  "names the list of queues after %o",
  (fault) => {
    expect(decideExit(fault).hint).toContain("`muster queues`");
  },
);

const [, ofCommand = ""] = readFileSync(new URL("docs/reference/exit-codes.md", ROOT), "utf8").split(/^## /m);

it("has exactly the documented exit codes", () => {
  const documented = [...ofCommand.matchAll(/^\| (\d+) +\|/gm)].map(([, code]) => Number(code));
  expect(documented).toEqual(Object.values(EXIT));
});

it("documents the exit code of each fault", () => {
  const documented = [...ofCommand.matchAll(/^\| `(\w+)` +\| (\d+)/gm)].map(([, fault, code]) => [fault, Number(code)]);
  expect(documented).toEqual(FAULTS.map(([{ code }, exit]) => [code, exit]));
});
