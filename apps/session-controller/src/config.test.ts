import { readDocumentedVariables, makeRecordingEnv } from "@muster/testkit";
import { expect, it } from "vitest";
import { readConfig } from "./config.ts";

it("reads exactly the documented variables, with the documented defaults", () => {
  const documented = readDocumentedVariables("session-controller");
  const { env, names } = makeRecordingEnv();
  const config = readConfig(env);
  expect([...names].toSorted()).toEqual([...documented.keys()].toSorted());
  const defaults = [...documented].filter(([, fallback]) => fallback !== undefined);
  expect(readConfig(Object.fromEntries(defaults))).toEqual(config);
});

it("names every wrong variable in one fault", () => {
  expect(() => readConfig({ SESSION_TTL_MS: "soon", SESSION_EXECUTORS: "-1" })).toThrow(
    /SESSION_EXECUTORS[^]*SESSION_TTL_MS/,
  );
});

it.each([
  ["1048576", 64],
  ["1024", 65_536],
  ["268435456", 1],
])("reads as many logs of %s bytes concurrently as fit into 64 MiB, and at least one", (bytes, count) => {
  expect(readConfig({ SESSION_LOG_LIMIT_BYTES: bytes }).logs.readAtOnce).toBe(count);
});
