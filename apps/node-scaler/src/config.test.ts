import { readDocumentedVariables, makeRecordingEnv } from "@muster/testkit";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { readConfig } from "./config.ts";

const defaults = {
  MUSTER_NATS_URL: "nats://127.0.0.1:4222",
  NODE_SCALER_NAME: "muster",
  NODE_SCALER_POOL_LABEL: "pool",
  NODE_SCALER_LOCK_TTL_MS: "5000",
  NODE_SCALER_NODES_FRESH_MS: "120000",
  NODE_SCALER_POOL_INTERVAL_MS: "7000",
  NODE_SCALER_HEARTBEAT_INTERVAL_MS: "5000",
  NODE_SCALER_REAPER_INTERVAL_MS: "5000",
  NODE_SCALER_SCAN_INTERVAL_MS: "60000",
  NODE_SCALER_CLIENT_TIMEOUT_MS: "3000",
  NODE_SCALER_PROVIDER_TIMEOUT_MS: "60000",
  NODE_SCALER_BOOTS_PER_ROUND: "10",
  NODE_SCALER_SPOT_REQUEST_PAUSE_MS: "60000",
  NODE_SCALER_UNAVAILABLE_MS: "600000",
  NODE_SCALER_IMAGE_TTL_MS: "300000",
};

function sources(text?: string) {
  const readText = (path: string): string => {
    if (text === undefined) throw new Error(`ENOENT: no such file, open '${path}'`);
    return text;
  };
  return { readText, kinds: { local: { settings: z.strictObject({ kind: z.literal("local") }) } } };
}

it("has a default for every field, and scales nothing without a file", () => {
  const config = readConfig({}, sources());
  expect(config).toEqual(readConfig(defaults, sources()));
  expect(config.file).toEqual({ providers: [], pools: [] });
});

it("reads exactly the documented variables, with the documented defaults", () => {
  const documented = readDocumentedVariables("node-scaler");
  const { env, names } = makeRecordingEnv();
  const config = readConfig(env, sources());
  expect([...names].toSorted()).toEqual([...documented.keys()].toSorted());
  const defaults = [...documented].filter(([, fallback]) => fallback !== undefined);
  expect(readConfig(Object.fromEntries(defaults), sources())).toEqual(config);
});

it("names every problem in one message", () => {
  const wrong = { MUSTER_NATS_URL: "here", NODE_SCALER_BOOTS_PER_ROUND: "0", NODE_SCALER_LOCK_TTL_MS: "5s" };
  for (const name of Object.keys(wrong)) expect(() => readConfig(wrong, sources())).toThrow(name);
});

it("names problems of the file together with those of the environment", () => {
  const env = { NODE_SCALER_HEARTBEAT_INTERVAL_MS: "8000", NODE_SCALER_FILE: "/etc/pools.yaml" };
  const text = "pools: 1\nproviders: { a: { kind: nosuch } }";
  for (const part of ["heartbeat interval", "pools is 1: a list is needed\n", 'a.kind is "nosuch"'])
    expect(() => readConfig(env, sources(text))).toThrow(part);
});

describe("the rule of the intervals", () => {
  it.each([
    [7000, 7000, 3000],
    [7000, 10_000, 3000],
    [7000, 5000, 5000],
    [2000, 5000, 6000],
  ])("refuses %d > %d > %d", (pool, heartbeat, client) => {
    const env = {
      NODE_SCALER_POOL_INTERVAL_MS: `${pool}`,
      NODE_SCALER_HEARTBEAT_INTERVAL_MS: `${heartbeat}`,
      NODE_SCALER_CLIENT_TIMEOUT_MS: `${client}`,
    };
    expect(() => readConfig(env, sources())).toThrow("pool interval > heartbeat interval > client time limit");
  });
});

describe("the file of pools", () => {
  const env = { NODE_SCALER_FILE: "/etc/pools.yaml" };

  it("is read", () => {
    const { file } = readConfig(env, sources("providers: { a: { kind: local } }"));
    expect(file.providers).toEqual([{ name: "a", kind: "local", settings: { kind: "local" } }]);
  });

  it("is named if it is invalid or unreadable", () => {
    expect(() => readConfig(env, sources("pools: 1"))).toThrow("/etc/pools.yaml: pools is 1: a list is needed");
    expect(() => readConfig(env, sources())).toThrow("/etc/pools.yaml cannot be read: ENOENT");
  });
});
