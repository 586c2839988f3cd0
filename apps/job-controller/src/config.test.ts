import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { readConfig } from "./config.ts";

it("knows exactly the variables of the README, with the defaults that stand there", () => {
  const asked = new Set<string>();
  const recording = new Proxy<Record<string, string | undefined>>(
    {},
    {
      get: (_target, name) => {
        asked.add(String(name));
        return undefined;
      },
    },
  );
  const config = readConfig(recording);
  const table = readFileSync(new URL("../README.md", import.meta.url), "utf8")
    .split("\n")
    .map((line) => /^\| `([A-Z_]+)` +\| (\S+)/.exec(line))
    .filter((row) => row !== null);
  expect(table.map(([, name]) => name).sort()).toEqual([...asked].sort());
  const written = table
    .filter(([, , value]) => value !== "none")
    .map(([, name, value = ""]) => [name, value.replaceAll("`", "")]);
  expect(readConfig(Object.fromEntries(written) as Record<string, string>)).toEqual(config);
});

it("names every problem in one message", () => {
  const wrong = { MUSTER_NATS_URL: "here", JOB_WORKERS: "0", JOB_LOCK_TTL_MS: "5s", JOB_GANG_SCHEDULING: "2" };
  for (const name of Object.keys(wrong)) expect(() => readConfig(wrong)).toThrow(name);
});
