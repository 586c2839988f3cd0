import { until } from "@muster/testkit";
import { expect, it } from "vitest";
import { openPodDefaults } from "../src/index.ts";
import { buildPage, buildRefusal, startScriptedServer, watch } from "./scripted-server.ts";

it("reports a cluster without RuntimeClasses once and without an error, and is complete without them", async () => {
  await using server = await startScriptedServer();
  server.onList((response, request) => {
    const isServed = request.url?.includes("runtimeclasses") !== true;
    (isServed ? buildPage([], 1) : buildRefusal(404, "NotFound"))(response, request);
  });
  server.onWatch(watch([], "stay"));
  const errors: unknown[] = [];
  const unserved: string[] = [];
  await using defaults = openPodDefaults(server.config, {
    onError: (error) => errors.push(error),
    onUnserved: (path) => unserved.push(path),
  });
  await defaults.synced;
  const asked = () => server.asked.filter(({ url }) => url.pathname.endsWith("/runtimeclasses")).length;
  await until("the resource is requested again", () => asked() > 2, { timeoutMs: 60_000 });
  expect(unserved).toEqual(["/apis/node.k8s.io/v1/runtimeclasses"]);
  expect(errors).toEqual([]);
});
