import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { readConfig } from "./config.ts";

it("knows exactly the variables of the README, with the defaults that stand there", () => {
  const asked = new Set<string>();
  const env = new Proxy<Record<string, string>>(
    {},
    {
      get: (_target, name) => {
        asked.add(String(name));
        return undefined;
      },
    },
  );
  readConfig(env);
  const table = readFileSync(new URL("../README.md", import.meta.url), "utf8")
    .split("\n")
    .filter((line) => line.startsWith("| `"));
  const documented = table.flatMap((line) =>
    [...line.matchAll(/`((?:MUSTER|SESSION)_[A-Z_]+)`/g)].map(([, name]) => name),
  );
  expect([...asked].sort()).toEqual(documented.sort());

  const numbers = table.flatMap((line) => (line.split("|")[2] ?? "").match(/\b\d+\b/g) ?? []);
  const inForce = JSON.stringify(readConfig({}));
  for (const number of numbers.filter((text) => !inForce.includes(text))) expect(number).toMatch(/^(4222|127|0|1)$/);
});

it("names every wrong variable at once", () => {
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

it.each([300, 15_000, 600_000])(
  "trusts a record for moments only when a lead lasts %i ms after its last renewal",
  (lockTtlMs) => {
    const { trustRecordMs } = readConfig({ SESSION_LOCK_TTL_MS: String(lockTtlMs) }).session;
    expect(trustRecordMs).toBeGreaterThan(0);
    expect(trustRecordMs).toBeLessThanOrEqual(100);
  },
);
