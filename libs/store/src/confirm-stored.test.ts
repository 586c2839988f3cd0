import { setImmediate } from "node:timers/promises";
import { findFault } from "@muster/faults";
import { expect, it } from "vitest";
import { confirmStored } from "./confirm-stored.ts";

const TIMEOUT_MS = 20;
const timeout = Object.assign(new Error("timeout"), { name: "TimeoutError" });
const refusal = new Error("wrong last sequence");
const answered = (): Promise<unknown> => Promise.resolve({});
const away = (): Promise<unknown> => Promise.reject(timeout);

/** Fails with the error only after the read has been answered. */
function failing(error: Error, question: () => Promise<unknown>): Promise<unknown> {
  const asked = Promise.withResolvers<undefined>();
  const write = async (): Promise<never> => {
    await asked.promise;
    await setImmediate();
    throw error;
  };
  const seen = (): Promise<unknown> => question().finally(() => asked.resolve(undefined));
  return confirmStored(write, { question: seen, timeoutMs: TIMEOUT_MS, doing: "writing a/b" }).catch(
    (thrown: unknown) => thrown,
  );
}

it("blames the disk if the server answers a read but not the write", async () => {
  const error = await failing(timeout, answered);
  expect(findFault(error)).toMatchObject({ code: "unavailable", dependency: "disk of nats" });
  expect(error).toMatchObject({ cause: timeout });
  expect(String(error)).toContain("writing a/b: nats answers, and does not store");
});

it.each([
  { of: "a server that answers nothing", error: timeout, question: away },
  { of: "a write that was refused", error: refusal, question: answered },
])("returns the error of $of unchanged", async ({ error, question }) => {
  expect(await failing(error, question)).toBe(error);
});

it("sends no read if the write is answered in time", async () => {
  const question = (): never => {
    throw new Error("unexpected question");
  };
  expect(await confirmStored(() => Promise.resolve(7), { question, timeoutMs: TIMEOUT_MS, doing: "" })).toBe(7);
});
