import { KubeConfig } from "@kubernetes/client-node";
import type { Logger } from "@muster/service";
import { expect, it } from "vitest";
import { readConfig } from "../config.ts";
import { openWorld } from "./world.ts";

it("ends in order in a replica that never reached the API server and in which nobody waits for it", async () => {
  const unhandled: unknown[] = [];
  const note = (error: unknown): void => void unhandled.push(error);
  process.on("unhandledRejection", note);
  const kube = new KubeConfig();
  kube.loadFromClusterAndUser({ name: "none", server: "http://127.0.0.1:9", skipTLSVerify: false }, { name: "nobody" });
  // What it warns of is no matter here.
  const logger = { warn: () => undefined } as unknown as Logger;
  const world = openWorld(kube, { config: readConfig({}), logger });
  expect(world.isComplete()).toBe(false);
  await world[Symbol.asyncDispose]();
  // Node tells of them when the turn is over.
  await new Promise((resolve) => setImmediate(resolve));
  process.off("unhandledRejection", note);
  expect(unhandled).toEqual([]);
});
