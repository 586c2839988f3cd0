import { expect, it } from "vitest";
import { FaultError } from "./fault-error.ts";
import { unlessFault, unlessMissing } from "./unless-fault.ts";

const missing = new FaultError({ code: "not_found", kind: "session", id: "x" });
const away = new FaultError({ code: "unavailable", dependency: "nats", retryAfterMs: 1 });
const failing = (error: Error): Promise<number> => Promise.reject(error);

it("returns the answer, and undefined for the named faults", async () => {
  expect(await unlessMissing(Promise.resolve(1))).toBe(1);
  expect(await unlessMissing(failing(missing))).toBeUndefined();
  expect(await unlessFault(failing(away), "not_found", "unavailable")).toBeUndefined();
});

it("rethrows every other error", async () => {
  await expect(unlessMissing(failing(away))).rejects.toBe(away);
  const defect = new Error("a defect");
  await expect(unlessFault(failing(defect), "not_found")).rejects.toBe(defect);
});
