import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import type { CoreV1Event, V1ConfigMap, V1Secret } from "@kubernetes/client-node";
import { until } from "@muster/testkit";
import { describe, expect, it } from "vitest";
import { makeKubeCalls, toKubeFault } from "../src/index.ts";
import { apiServers } from "./api-servers.ts";

const EXAMPLE = join(import.meta.dirname, "../examples/mirror-secrets.ts");
/** Allows for a slow process start while other tests run. */
const START_MS = 60_000;
const namespace = "default";
const maps = { apiVersion: "v1", plural: "configmaps", namespace };
const secrets = { apiVersion: "v1", plural: "secrets", namespace };

describe.each(apiServers())("on $title", ({ skip, start }) => {
  it.skipIf(skip)(
    "the example, as one replica, mirrors, follows changes, repairs, cleans up and ends in order",
    async () => {
      await using server = await start();
      await using calls = makeKubeCalls(server.config);
      const map: V1ConfigMap = {
        apiVersion: "v1",
        kind: "ConfigMap",
        metadata: { name: "m", labels: { "example.com/mirror": "yes" } },
        data: { a: "1" },
      };
      await calls.create(maps, { ...map, metadata: { name: "other" } });
      const created = await calls.create(maps, map);
      const example = spawn(process.execPath, [EXAMPLE, server.kubeconfig], { stdio: ["ignore", "inherit", "pipe"] });
      const exit = once(example, "exit");
      let log = "";
      example.stderr.on("data", (chunk: Buffer) => (log += chunk.toString()));
      const dataOf = async (name: string): Promise<Record<string, string> | undefined> => {
        const secret = await calls.get<V1Secret>(secrets, name).catch((error: unknown) => {
          if (toKubeFault(error)?.code === "not_found") return undefined;
          throw error;
        });
        if (secret?.data === undefined) return undefined;
        return Object.fromEntries(Object.entries(secret.data).map(([key, text]) => [key, atob(text)]));
      };
      const shows = (data: object) =>
        until(
          `the secret has ${JSON.stringify(data)}`,
          async () => JSON.stringify(await dataOf("m")) === JSON.stringify(data),
          { timeoutMs: START_MS },
        );

      await shows({ a: "1" });
      await calls.patch(maps, "m", { kind: "merge", body: { data: { a: null, b: "2" } } });
      await shows({ b: "2" });
      await calls.delete(secrets, "m");
      await shows({ b: "2" });
      await calls.patch(maps, "m", { kind: "merge", body: { metadata: { labels: null } } });
      await until("the secret is gone", async () => (await dataOf("m")) === undefined);
      expect(await dataOf("other")).toBeUndefined();

      example.kill("SIGTERM");
      expect(await exit).toEqual([0, null]);
      const events = { apiVersion: "v1", plural: "events", namespace };
      const query = { fieldSelector: `involvedObject.uid=${created.metadata?.uid ?? ""}` };
      const recorded = await calls.list<CoreV1Event>(events, { query });
      expect(recorded.items).toMatchObject([{ reason: "Mirrored", message: "the secret has 1 values", count: 3 }]);
      const expected = /^$| 409 (AlreadyExists|Conflict) |(DELETE|PUT) .* 404 NotFound /;
      const troubles = log.split("\n").filter((line) => !expected.test(line));
      expect(troubles).toEqual([]);
    },
    3 * START_MS,
  );
});
