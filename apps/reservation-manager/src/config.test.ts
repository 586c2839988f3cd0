import { readDocumentedVariables, makeRecordingEnv } from "@muster/testkit";
import { expect, it } from "vitest";
import { readConfig } from "./config.ts";

const defaults = {
  MUSTER_NATS_URL: "nats://127.0.0.1:4222",
  RESERVATION_POOL_LABEL: "pool",
  RESERVATION_LOCK_TTL_MS: "5000",
  RESERVATION_NODES_FRESH_MS: "120000",
  RESERVATION_HOLD_AFTER_MS: "600000",
  RESERVATION_QUEUE_LIMIT: "100000",
};

it("has a default for everything", () => {
  expect(readConfig({})).toEqual(readConfig(defaults));
});

it("reads exactly the documented variables, with the documented defaults", () => {
  const documented = readDocumentedVariables("reservation-manager");
  const { env, names } = makeRecordingEnv();
  const config = readConfig(env);
  expect([...names].toSorted()).toEqual([...documented.keys()].toSorted());
  const defaults = [...documented].filter(([, fallback]) => fallback !== undefined);
  expect(readConfig(Object.fromEntries(defaults))).toEqual(config);
});

it("names every problem in one message", () => {
  const wrong = { MUSTER_NATS_URL: "here", RESERVATION_LOCK_TTL_MS: "5s", RESERVATION_QUEUE_LIMIT: "-1" };
  for (const name of Object.keys(wrong)) expect(() => readConfig(wrong)).toThrow(name);
});
