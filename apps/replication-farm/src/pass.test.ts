import { FaultError } from "@muster/faults";
import { expect, it } from "vitest";
import { requeueLater } from "./pass.ts";

const conflict = { code: "conflict", id: "set web", expectedRevision: 1, actualRevision: 2 } as const;
const away = { code: "unavailable", dependency: "nats", retryAfterMs: 1000 } as const;
const refused = { code: "invalid_request", field: "record", reason: "cannot be read" } as const;

it.each([
  ["a conflict, which nothing reports", new FaultError(conflict), { isFailed: true }, []],
  ["an outage", new FaultError(away), { isFailed: true }, ["pass"]],
  ["a refusal", new FaultError(refused), { isFailed: true }, ["refused"]],
] as const)("leaves the pause after %s to the queue", (_title, error, next, reported) => {
  const failed: string[] = [];
  const report = { failed: (_set: string, what: string) => failed.push(what), planned: () => undefined };
  expect(requeueLater({ report }, { name: "web" }, error)).toEqual(next);
  expect(failed).toEqual(reported);
});

it("leaves a defect to the controller, which reports and retries it", () => {
  const defect = new TypeError("no such field");
  const report = { failed: () => expect.fail("reported twice"), planned: () => undefined };
  expect(() => requeueLater({ report }, { name: "web" }, defect)).toThrow(defect);
});
