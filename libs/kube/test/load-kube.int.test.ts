import { mkdtempDisposable, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { CoreV1Api } from "@kubernetes/client-node";
import { describeFault } from "@muster/faults";
import { describe, expect, it } from "vitest";
import { makeKubeClient } from "@muster/testkit";
import { makeKubeCalls, toKubeFault, listWatch, loadKube, loadServiceKube } from "../src/index.ts";
import { buildPage, buildRefusal, startScriptedServer } from "./scripted-server.ts";

const PODS = { apiVersion: "v1", plural: "pods", namespace: "ns" };

/** A server that accepts one token, which may change, and a kubeconfig that may be renewed. */
async function exchange() {
  await using starting = new AsyncDisposableStack();
  const server = starting.use(await startScriptedServer());
  const directory = starting.use(await mkdtempDisposable(join(tmpdir(), "muster-load-kube-"))).path;
  let taken = "first";
  server.onList((response, request) => {
    const answer =
      request.headers.authorization === `Bearer ${taken}` ? buildPage([], 1) : buildRefusal(401, "Unauthorized");
    answer(response, request);
  });
  const file = join(directory, "kubeconfig");
  const url = server.config.getCurrentCluster()?.server;
  const put = async (token: string, at = url): Promise<void> => {
    const content = {
      clusters: [{ name: "ours", cluster: { server: at, "insecure-skip-tls-verify": true } }],
      users: [
        { name: "ours", user: { token } },
        { name: "another", user: { token: "another" } },
      ],
      contexts: [
        { name: "ours", context: { cluster: "ours", user: "ours" } },
        { name: "another", context: { cluster: "ours", user: "another" } },
      ],
      "current-context": at === url ? "ours" : "another",
    };
    await writeFile(`${file}.new`, JSON.stringify(content));
    await rename(`${file}.new`, file);
  };
  await put(taken);
  const all = starting.move();
  return {
    file,
    put,
    take: (token: string) => (taken = token),
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}

const faultOf = (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => "",
    (error: unknown) => {
      const fault = toKubeFault(error);
      return fault === undefined ? String(error) : describeFault(fault);
    },
  );

const WAYS: readonly [
  string,
  (config: ReturnType<typeof loadKube>) => AsyncDisposable & { ask(): Promise<unknown> },
][] = [
  [
    "calls",
    (config) => {
      const calls = makeKubeCalls(config);
      return { ask: () => calls.list(PODS), [Symbol.asyncDispose]: () => calls[Symbol.asyncDispose]() };
    },
  ],
  [
    "lists and watches",
    (config) => {
      const source = listWatch(config, "/api/v1/namespaces/ns/pods");
      const ask = () => source.list({ limit: 0, signal: AbortSignal.timeout(60_000) });
      return { ask, [Symbol.asyncDispose]: () => Promise.resolve() };
    },
  ],
  [
    "client-node's own calls",
    (config) => {
      const api = makeKubeClient(config, CoreV1Api, { timeoutMs: 60_000 });
      const ask = () => api.listNamespacedPod({ namespace: "ns" });
      return { ask, [Symbol.asyncDispose]: () => Promise.resolve() };
    },
  ],
];

describe.each(WAYS)("%s", (_title, open) => {
  it("report that the credential is refused, and continue once it is renewed in place", async () => {
    await using world = await exchange();
    await using way = open(loadKube(world.file));
    await way.ask();
    world.take("second");
    expect(await faultOf(way.ask())).toMatch(/^the API server, which does not take this service's credential \(401\),/);
    await world.put("second");
    expect(await faultOf(way.ask())).toBe("");
  });
});

it("continues with the known credential while its file is missing or half written", async () => {
  await using world = await exchange();
  await using calls = makeKubeCalls(loadKube(world.file));
  await rm(world.file);
  await calls.list(PODS);
  world.take("second");
  await writeFile(world.file, '{"users": [');
  expect(await faultOf(calls.list(PODS))).toMatch(/401/);
  await world.put("second");
  await calls.list(PODS);
});

it("keeps its cluster and its user when the file names others later", async () => {
  await using world = await exchange();
  await using calls = makeKubeCalls(loadKube(world.file));
  world.take("second");
  await world.put("second", "http://127.0.0.1:1");
  await calls.list(PODS);
});

it("lets a service report a refused credential once, until it is renewed", async () => {
  await using world = await exchange();
  const said: string[] = [];
  const checks = new Map<string, () => string | undefined>();
  let nowMs = 0;
  const log = (_fields: object, message: string): void => void said.push(message);
  const config = loadServiceKube(
    { logger: { info: log, error: log }, alsoCheck: (name, check) => checks.set(name, check) },
    world.file,
    () => nowMs,
  );
  const missing = (): string | undefined => checks.get("kubernetes")?.();
  await using calls = makeKubeCalls(config);
  await calls.list(PODS);
  world.take("second");
  await faultOf(calls.list(PODS));
  expect([missing(), said]).toEqual([undefined, []]);
  for (nowMs = 10_000; nowMs < 30_000; nowMs += 10_000) await faultOf(calls.list(PODS));
  expect(missing()).toBe(
    `the API server does not take this service's credential (401): renew that of the user of ${world.file}, which is read again without a restart`,
  );
  expect(said).toEqual(["the API server refuses this service"]);
  await world.put("second");
  await calls.list(PODS);
  expect([missing(), said.at(-1)]).toEqual([undefined, "the API server takes this service's credential again"]);
});
