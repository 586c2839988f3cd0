import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { RESOURCES, buildRoutes } from "@muster/gateway-api";
import { services } from "@muster/proto";
import { beforeAll, expect, it } from "vitest";

const SOURCE = join(import.meta.dirname, "../src");

/** Calls of commands that the gateway does not have, with the reason. */
const ONLY_OVER_NATS: Readonly<Record<string, string>> = {
  "node.dumpNodes": "`nodes dump` shows the loops of the scaler, for the operator of it",
  "provision.getCounters": "`doctor` reads the load of engines beside the state of NATS, which needs NATS",
  "provision.cleanupResources": "`lease cleanup` removes objects of all users: it is for the operator of the engine",
  "provision.getCleanup": "`lease cleanup` shows what it does",
  "watch.getStatus": "`doctor` checks the watcher beside the state of NATS",
};

let called: readonly string[];

beforeAll(async () => {
  const names = await readdir(SOURCE, { recursive: true });
  const files = names.filter((name) => name.endsWith(".ts") && !name.endsWith(".test.ts"));
  const source = (await Promise.all(files.map((name) => readFile(join(SOURCE, name), "utf8")))).join("\n");
  called = services.flatMap(({ area, methods }) =>
    Object.keys(methods)
      .filter((method) => source.includes(`.${method}(`))
      .map((method) => `${area}.${method}`),
  );
});

const served = new Set(buildRoutes(RESOURCES).map(({ resource, call }) => `${resource.service.area}.${call}`));

it("finds the calls of the commands", () => {
  expect(called.length).toBeGreaterThan(40);
  expect(called).toContain("session.submitSession");
});

it("every call of a command is one of the gateway, or has a reason to need NATS", () => {
  expect(called.filter((call) => !served.has(call)).toSorted()).toEqual(Object.keys(ONLY_OVER_NATS).toSorted());
});
