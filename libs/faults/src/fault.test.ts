import { describe, expect, it } from "vitest";
import { FaultError, findFault, isFaultError, throwFault } from "./fault-error.ts";
import { describeFault, type Fault, isRetryable, getReason, WIRE_CODE } from "./fault.ts";

const cases: [Fault, text: string, retryable: boolean][] = [
  [{ code: "invalid_request", field: "name", reason: "is empty" }, "name: is empty", false],
  [{ code: "not_found", kind: "session", id: "a" }, "session a does not exist", false],
  [{ code: "already_exists", kind: "session", id: "a" }, "session a exists already", false],
  [
    { code: "conflict", id: "a", expectedRevision: 3, actualRevision: 0 },
    "a was changed concurrently: expected revision 3, found another",
    true,
  ],
  [{ code: "pool_unknown", pool: "p" }, "pool p does not exist", false],
  [{ code: "pool_unknown", pool: "p", known: ["a", "b"] }, "pool p does not exist; known pools: a, b", false],
  [
    { code: "pool_capacity", pool: "p", requested: 5, capacity: 3 },
    "pool p has 3 machines at most, 5 are needed: request fewer, or enlarge the pool",
    false,
  ],
  [
    { code: "pool_availability", pool: "p", requested: 2, available: 1 },
    "pool p has 1 machines free now, 2 are needed",
    true,
  ],
  [{ code: "queue_unknown", queue: "q" }, "queue q does not exist or has queues below it", false],
  [
    { code: "queue_unknown", queue: "q", known: ["a", "b"] },
    "queue q does not exist or has queues below it; queues: a, b",
    false,
  ],
  [
    { code: "quota_exceeded", queue: "q", pool: "p", resource: "cpu", requested: 4000, most: 500 },
    "queue q can have 0.5 of cpu in pool p at most, 4 are needed: ask for less, or raise its quota",
    false,
  ],
  [
    { code: "quota_exceeded", queue: "q", pool: "p", resource: "nvidia.com/gpu", requested: 5, most: 4 },
    "queue q can have 4 of nvidia.com/gpu in pool p at most, 5 are needed: ask for less, or raise its quota",
    false,
  ],
  [
    { code: "reservation_differs", ownerKind: "session", ownerId: "a" },
    "session a already has a reservation with other needs",
    false,
  ],
  [
    { code: "limit_exceeded", what: "the queue", limit: 10, retryAfterMs: 500 },
    "the queue is over its limit of 10; try again in 500 ms",
    true,
  ],
  [
    { code: "limit_exceeded", what: "the value", limit: 10, retryAfterMs: 0 },
    "the value is over its limit of 10",
    false,
  ],
  [{ code: "unavailable", dependency: "nats", retryAfterMs: 10_000 }, "nats is not available; try again in 10 s", true],
  [{ code: "unavailable", dependency: "nats", retryAfterMs: 0 }, "nats is not available", true],
  [{ code: "deadline_exceeded", operation: "reserve", timeoutMs: 50 }, "reserve took longer than 50 ms", true],
  [{ code: "deadline_exceeded", operation: "reserve", timeoutMs: 2540 }, "reserve took longer than 2.5 s", true],
  [{ code: "cancelled", operation: "reserve" }, "reserve was cancelled", false],
  [{ code: "internal", operation: "reserve" }, "reserve failed inside the service; its log says why", false],
];

describe.each(cases)("%o", (fault, text, retryable) => {
  it("describes the fault with its numbers, on one line", () => {
    expect(describeFault(fault)).toBe(text);
  });

  it("states whether a retry may help", () => {
    expect(isRetryable(fault)).toBe(retryable);
  });

  it("has the gRPC status of an error and a stable word", () => {
    expect(WIRE_CODE[fault.code]).toBeGreaterThan(0);
    expect(WIRE_CODE[fault.code]).toBeLessThanOrEqual(16);
    expect(getReason(fault)).toMatch(/^[A-Z_]+$/);
  });
});

it("has a case above for every variant", () => {
  expect(new Set(cases.map(([{ code }]) => code))).toEqual(new Set(Object.keys(WIRE_CODE)));
});

describe("FaultError", () => {
  const fault: Fault = { code: "pool_unknown", pool: "p" };

  it("carries the fault, the operation, and the cause", () => {
    const cause = new Error("deeper");
    const error = new FaultError(fault, { doing: "reserving session a", cause });
    expect(error.message).toBe("reserving session a: pool p does not exist");
    expect(error.cause).toBe(cause);
    expect(findFault(error)).toBe(fault);
  });

  it("is recognised also if another copy of this library created it", () => {
    const foreign = Object.assign(new Error("pool p does not exist"), { name: "FaultError", fault });
    expect(isFaultError(foreign)).toBe(true);
  });

  it.each([undefined, "text", new Error("defect"), { fault }])("is not seen in %s", (value) => {
    expect(findFault(value)).toBeUndefined();
  });

  it("is what throwFault throws", () => {
    expect(() => throwFault(fault)).toThrow(FaultError);
  });
});
