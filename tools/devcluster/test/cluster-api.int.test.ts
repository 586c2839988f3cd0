import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { V1ConfigMap, V1Pod } from "@kubernetes/client-node";
import { openInformer, type KubeCalls, toKubeFault, loadKube } from "@muster/kube";
import { until } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type ClusterApi, makeRemoteApi } from "../src/cluster-api.ts";
import { type ApiServer, startApiServer } from "../src/index.ts";

const PODS = { apiVersion: "v1", plural: "pods", namespace: "default" };
const MAPS = { apiVersion: "v1", plural: "configmaps", namespace: "default" };
const STATUS = { subresource: "status" };

describe.each([
  { title: "over HTTP", apiOf: (server: ApiServer): ClusterApi => makeRemoteApi(loadKube(server.kubeconfig)) },
  { title: "in its process", apiOf: (server: ApiServer): ClusterApi => server.api },
])("the embedded API server $title", ({ apiOf }) => {
  let directory: string;
  let server: ApiServer;
  let api: ClusterApi;
  let calls: KubeCalls;

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), "muster-cluster-api-"));
    server = await startApiServer({ directory });
    api = apiOf(server);
    calls = api.calls({ timeoutMs: 15_000 });
  });
  afterAll(async () => {
    await calls[Symbol.asyncDispose]();
    await server[Symbol.asyncDispose]();
    await rm(directory, { recursive: true, force: true });
  });

  const faultOf = async (call: Promise<unknown>): Promise<string | undefined> =>
    toKubeFault(await call.then(() => undefined).catch((error: unknown) => error))?.code;
  const pod = (name: string): V1Pod => ({
    metadata: { name },
    spec: { containers: [{ name: "main", image: "none" }] },
  });

  it("creates with defaults, binds once, and merges a status with times", async () => {
    const made = await calls.create<V1Pod>(PODS, pod("a"));
    expect(made.spec).toMatchObject({ restartPolicy: "Always" });
    const target = { apiVersion: "v1", kind: "Node", name: "n" };
    const binding = { apiVersion: "v1", kind: "Binding", metadata: { name: "a" }, target };
    await calls.create(PODS, binding, { subresource: "binding" });
    expect(await faultOf(calls.create(PODS, binding, { subresource: "binding" }))).toBe("conflict");
    const startTime = new Date("2026-01-01T00:00:00.500Z");
    const body = { status: { startTime, reason: undefined, conditions: [{ type: "Ready", status: "True" }] } };
    const reported = await calls.patch<V1Pod>(PODS, "a", { kind: "strategic", body }, STATUS);
    expect(reported).toMatchObject({ spec: { nodeName: "n" }, status: { startTime: "2026-01-01T00:00:00Z" } });
    expect(reported.status?.conditions?.map(({ type }) => type)).toEqual(["PodScheduled", "Ready"]);
    const ended = { ...reported, status: { ...reported.status, phase: "Succeeded" } };
    expect((await calls.replace(PODS, ended, STATUS)).status.phase).toBe("Succeeded");
    expect(await faultOf(calls.replace(PODS, ended, STATUS))).toBe("conflict");
  });

  it("refuses requests as a server does", async () => {
    expect(await faultOf(calls.get(PODS, "none"))).toBe("not_found");
    expect(await faultOf(calls.get({ apiVersion: "v1", plural: "things" }, "none"))).toBe("not_found");
    expect(await faultOf(calls.create(PODS, { ...pod("b"), spec: { containers: [] } }))).toBe("invalid_request");
    await calls.create(MAPS, { metadata: { name: "twice" } });
    expect(await faultOf(calls.create(MAPS, { metadata: { name: "twice" } }))).toBe("already_exists");
    const preconditions = { uid: "another" };
    expect(await faultOf(calls.delete(MAPS, "twice", { preconditions }))).toBe("conflict");
    await calls.delete(MAPS, "twice");
    expect(await faultOf(calls.get(MAPS, "twice"))).toBe("not_found");
  });

  it("lists and watches the objects that a selector matches, from a revision on, and refuses a forgotten revision", async () => {
    await calls.create<V1ConfigMap>(MAPS, { metadata: { name: "first", labels: { app: "x" } } });
    const source = api.listWatch<V1ConfigMap>("/api/v1/configmaps", { labelSelector: "app=x" });
    await using maps = openInformer<V1ConfigMap, V1ConfigMap>({ source, project: (map) => map });
    const seen: string[] = [];
    const stop = maps.onChange(({ key, before, after }) => {
      seen.push(`${key} ${before === undefined ? "came" : after === undefined ? "went" : "changed"}`);
    });
    await maps.synced;
    await calls.create(MAPS, { metadata: { name: "other" } });
    await calls.patch(MAPS, "other", { kind: "merge", body: { metadata: { labels: { app: "x" } } } });
    await calls.patch(MAPS, "first", { kind: "merge", body: { data: { a: "b" } } });
    await calls.patch(MAPS, "other", { kind: "merge", body: { metadata: { labels: { app: null } } } });
    await until("all changes were seen", () => seen.length >= 4);
    stop();
    expect(seen).toEqual(["default/first came", "default/other came", "default/first changed", "default/other went"]);
    const page = await calls.list<V1ConfigMap>(MAPS, { query: { labelSelector: "app=x" } });
    expect(page.items.map(({ metadata }) => metadata?.name)).toEqual(["first"]);
    server.expireHistory();
    const from = { resourceVersion: "1", timeoutSeconds: 10, signal: new AbortController().signal };
    for await (const event of source.watch(from)) {
      expect(event).toMatchObject({ type: "ERROR", object: { code: 410 } });
      break;
    }
  });
});
