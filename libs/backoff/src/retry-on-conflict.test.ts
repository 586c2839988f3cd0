import { FaultError, throwFault, type Fault } from "@muster/faults";
import { expect, it } from "vitest";
import { retryOnConflict, type Attempt, type RetryOnConflictOptions } from "./retry-on-conflict.ts";

const CONFLICT: Fault = { code: "conflict", id: "nodes/n-1", expectedRevision: 1, actualRevision: 2 };
const EXISTS: Fault = { code: "already_exists", kind: "nodes", id: "n-1" };
const AWAY: Fault = { code: "unavailable", dependency: "nats", retryAfterMs: 0 };

/** Fails with each error in turn and then succeeds. Returns the result and the numbers of the attempts. */
async function run(errors: readonly Error[], options?: RetryOnConflictOptions) {
  const numbers: number[] = [];
  const attempt = (number: number): Attempt<string> => {
    numbers.push(number);
    const error = errors[number - 1];
    return { write: () => (error === undefined ? Promise.resolve("written") : Promise.reject(error)) };
  };
  const result = await retryOnConflict("node n-1", attempt, options).catch((error: unknown) => error);
  return { result, numbers };
}

const faults = (...all: Fault[]): FaultError[] => all.map((fault) => new FaultError(fault));

it.each<[string, readonly Error[], RetryOnConflictOptions | undefined, number]>([
  ["without a conflict", [], undefined, 1],
  ["after a conflict", faults(CONFLICT), undefined, 2],
  ["while contention lasts", faults(...Array<Fault>(6).fill(CONFLICT)), undefined, 7],
  ["after another writer created the key", faults(EXISTS), { codes: ["conflict", "already_exists"] }, 2],
  ["after a conflict of another form", [new Error("409")], { faultOf: () => CONFLICT }, 2],
])("succeeds %s", async (_when, errors, options, attempts) => {
  const { result, numbers } = await run(errors, options);
  expect(result).toBe("written");
  expect(numbers).toEqual(Array.from({ length: attempts }, (_, index) => index + 1));
});

it.each<[string, Error]>([
  ["a fault that no retry resolves", new FaultError(AWAY)],
  ["an existing key, unless the caller names it", new FaultError(EXISTS)],
  ["a defect", new TypeError("defect")],
])("rejects immediately with %s", async (_what, error) => {
  expect(await run([error])).toEqual({ result: error, numbers: [1] });
});

it("rejects with the conflict and the name of its target after 20 attempts", async () => {
  const attempts = { count: 0 };
  const lost = retryOnConflict("node n-1", () => {
    attempts.count += 1;
    return { write: () => Promise.reject(new FaultError(CONFLICT)) };
  });
  await expect(lost).rejects.toMatchObject({
    fault: CONFLICT,
    message: expect.stringContaining("changing node n-1: other writers came first 20 times") as string,
  });
  expect(attempts.count).toBe(20);
});

it("resolves without a write if the value is unchanged", async () => {
  expect(await retryOnConflict("node n-1", () => ({ unchanged: "as it is" }))).toBe("as it is");
});

it("rejects immediately with a conflict that the attempt decides on", async () => {
  const attempts = { count: 0 };
  const refused = retryOnConflict("node n-1", () => {
    attempts.count += 1;
    return throwFault(CONFLICT);
  });
  await expect(refused).rejects.toMatchObject({ message: new FaultError(CONFLICT).message });
  expect(attempts.count).toBe(1);
});
