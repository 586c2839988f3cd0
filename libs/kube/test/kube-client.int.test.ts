import { CoreV1Api } from "@kubernetes/client-node";
import { expect, it } from "vitest";
import { makeKubeClient } from "@muster/testkit";
import { toKubeFault } from "../src/index.ts";
import { buildRefusal, startScriptedServer } from "./scripted-server.ts";

const pod = { name: "p", namespace: "ns" };

it("ends a call that the server never answers", async () => {
  await using server = await startScriptedServer();
  server.onList(() => undefined);
  const api = makeKubeClient(server.config, CoreV1Api, { timeoutMs: 20 });
  const error: unknown = await api.readNamespacedPod(pod).catch((reason: unknown) => reason);
  expect(toKubeFault(error)).toMatchObject({ code: "unavailable", dependency: "kubernetes" });
});

it("ends a call when its signal is aborted", async () => {
  await using server = await startScriptedServer();
  const stop = new AbortController();
  server.onList(() => stop.abort());
  const api = makeKubeClient(server.config, CoreV1Api, { timeoutMs: 60_000, signal: stop.signal });
  const error: unknown = await api.readNamespacedPod(pod).catch((reason: unknown) => reason);
  expect(toKubeFault(error)?.code).toBe("cancelled");
});

it("rejects with errors that are read as faults", async () => {
  await using server = await startScriptedServer();
  server.onList(buildRefusal(404, "NotFound"), buildRefusal(429, "TooManyRequests", { "retry-after": "2" }));
  const api = makeKubeClient(server.config, CoreV1Api, { timeoutMs: 60_000 });
  const read = () => api.readNamespacedPod(pod).then(() => undefined, toKubeFault);
  expect(await read()).toMatchObject({ code: "not_found" });
  expect(await read()).toEqual({ code: "unavailable", dependency: "kubernetes", retryAfterMs: 2000 });
});
