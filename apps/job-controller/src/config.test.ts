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
  const rows = readFileSync(new URL("../README.md", import.meta.url), "utf8")
    .split("\n")
    .flatMap((line) => {
      const [, name, value] = /^\| `((?:MUSTER|JOB)_[A-Z_]+)` *\| *`?([^`|]*?)`? *\|/.exec(line) ?? [];
      return name === undefined ? [] : [{ name, value: value ?? "" }];
    });
  expect(rows.map(({ name }) => name).sort()).toEqual([...asked].sort());

  // What is written in the table is what holds without it.
  const written = Object.fromEntries(
    rows.filter(({ value }) => value !== "none").map(({ name, value }) => [name, value]),
  );
  expect(readConfig(written)).toEqual(readConfig({}));
});

it("names every wrong variable at once", () => {
  expect(() => readConfig({ JOB_WORKERS: "0", JOB_NODE_LOST_MS: "soon" })).toThrow(/JOB_WORKERS.*JOB_NODE_LOST_MS/);
});

it.each(["1000", "1001", "15000", "599999"])(
  "makes of a lease of %s ms one that two replicas can never have at once",
  (lease) => {
    const { leaseMs, renewDeadlineMs, retryMs } = readConfig({ JOB_LEASE_MS: lease }).election;
    expect(leaseMs % 1000).toBe(0);
    expect(renewDeadlineMs).toBeLessThan(leaseMs);
    // A second try has to fit, with the spread that renewals have.
    expect(retryMs * 2.2).toBeLessThan(renewDeadlineMs);
  },
);
