import { expect, it } from "vitest";
import { readConfig } from "./config.ts";

const SEED = "00".repeat(32);

it("has a value for all but the key", () => {
  expect(readConfig({ PROVISION_KEY_FILE: "/run/key" })).toMatchObject({
    key: { file: "/run/key" },
    order: { engine: "main", verifySignatures: true, legacySignatures: false },
    engine: { parallel: 4 },
    capacity: {},
  });
  expect(() => readConfig({})).toThrow("PROVISION_KEY_FILE is missing");
});

it("takes the key from the environment, and never tells it", () => {
  expect(readConfig({ PROVISION_KEY: SEED }).key).toHaveProperty("userId");
  const secret = "ab".repeat(33);
  let message = "";
  try {
    readConfig({ PROVISION_KEY: secret });
  } catch (error) {
    message = String(error);
  }
  expect(message).toContain("PROVISION_KEY");
  expect(message).not.toContain("abab");
  expect(JSON.stringify(readConfig({ PROVISION_KEY: "ab".repeat(32) }).key)).not.toContain("abab");
});

it("limits only the units that are given", () => {
  expect(readConfig({ PROVISION_KEY: SEED, PROVISION_CAPACITY_CRU: "8" }).capacity).toEqual({ cru: 8n });
});

it("refuses an engine id that cannot be a part of a subject", () => {
  expect(() => readConfig({ PROVISION_KEY: SEED, PROVISION_ENGINE_ID: "a.b" })).toThrow("PROVISION_ENGINE_ID");
});
