import { once } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { V1ConfigMap, V1Node } from "@kubernetes/client-node";
import { waitUntilSettled, until } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { makeKubeCalls, toKubeFault, type KubeCalls } from "../src/index.ts";
import { apiServers, type TestApiServer } from "./api-servers.ts";
import { buildPage, buildRefusal, startScriptedServer, makeThing, type Answer } from "./scripted-server.ts";

const maps = { apiVersion: "v1", plural: "configmaps", namespace: "default" };
const things = { apiVersion: "muster.dev/v1", plural: "things", namespace: "ns" };

function codeOf(call: Promise<unknown>): Promise<string | undefined> {
  return call.then(
    () => "ok",
    (error: unknown) => toKubeFault(error)?.code,
  );
}

describe.each(apiServers())("on $title", ({ skip, start }) => {
  let server: TestApiServer;
  let calls: KubeCalls;
  beforeAll(async () => {
    if (skip) return;
    server = await start();
    calls = makeKubeCalls(server.config);
  });
  afterAll(async () => {
    if (skip) return;
    await calls[Symbol.asyncDispose]();
    await server[Symbol.asyncDispose]();
  });
  const map = (name: string, data: Record<string, string> = {}): V1ConfigMap => ({
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name, labels: { app: "calls" } },
    data,
  });

  it.skipIf(skip)("creates, reads, replaces, patches, lists and deletes", async () => {
    const created = await calls.create(maps, map("one", { a: "1" }));
    expect(created.metadata).toMatchObject({ name: "one", namespace: "default" });
    const read = await calls.get<V1ConfigMap>(maps, "one");
    expect(read).toEqual(created);

    const replaced = await calls.replace(maps, { ...read, data: { a: "2" } });
    expect(await codeOf(calls.replace(maps, { ...read, data: { a: "3" } }))).toBe("conflict");
    expect(replaced.metadata?.resourceVersion).not.toBe(read.metadata?.resourceVersion);

    await calls.patch(maps, "one", { kind: "merge", body: { data: { b: "ä/ü" } } });
    await calls.patch(maps, "one", { kind: "json", body: [{ op: "remove", path: "/data/a" }] });
    const patched = await calls.patch<V1ConfigMap>(maps, "one", { kind: "strategic", body: { data: { c: "3" } } });
    expect(patched.data).toEqual({ b: "ä/ü", c: "3" });

    await calls.create(maps, map("two"));
    const options = { query: { labelSelector: "app=calls", limit: 1 } };
    const first = await calls.list<V1ConfigMap>(maps, options);
    const query = { ...options.query, continue: first.continue };
    const second = await calls.list<V1ConfigMap>(
      { apiVersion: "v1", plural: "configmaps", namespace: "default" },
      { query },
    );
    expect([...first.items, ...second.items].map(({ metadata }) => metadata?.name)).toEqual(["one", "two"]);

    const uid = "00000000-0000-0000-0000-000000000000";
    expect(await codeOf(calls.delete(maps, "one", { preconditions: { uid } }))).toBe("conflict");
    await calls.delete(maps, "one", { propagationPolicy: "Background" });
    expect(await codeOf(calls.get(maps, "one"))).toBe("not_found");
  });

  it.skipIf(skip)("rejects with the fault that stands in the way", async () => {
    await calls.create(maps, map("twice"));
    expect(await codeOf(calls.create(maps, map("twice")))).toBe("already_exists");
    expect(await codeOf(calls.delete(maps, "missing"))).toBe("not_found");
    expect(await codeOf(calls.create(maps, map("NOT A NAME")))).toBe("invalid_request");
  });

  it.skipIf(skip)("accesses cluster-scoped resources and subresources", async () => {
    const nodes = { apiVersion: "v1", plural: "nodes" };
    await calls.create<V1Node>(nodes, { apiVersion: "v1", kind: "Node", metadata: { name: "n" } });
    const body = { status: { nodeInfo: undefined, conditions: [{ type: "Ready", status: "True" }] } };
    const node = await calls.patch<V1Node>(nodes, "n", { kind: "merge", body }, { subresource: "status" });
    expect(node.status?.conditions?.[0]).toMatchObject({ type: "Ready", status: "True" });
    const read = await calls.list<V1Node>(nodes, { query: { fieldSelector: "metadata.name=n" } });
    expect(read.items).toHaveLength(1);
  });

  it.skipIf(skip)("returns to each of a thousand concurrent creations its own object", async () => {
    const names = Array.from({ length: 1000 }, (_, at) => `many-${at}`);
    const created = await Promise.all(names.map((name) => calls.create(maps, map(name))));
    expect(created.map(({ metadata }) => metadata?.name)).toEqual(names);
  });
});

describe("with a scripted server", () => {
  const answer =
    (text: string, seen?: (request: IncomingMessage, body: string) => void): Answer =>
    (response, request) => {
      let body = "";
      request.setEncoding("utf8").on("data", (chunk: string) => (body += chunk));
      request.on("end", () => {
        seen?.(request, body);
        response.writeHead(200, { "content-type": "application/json" }).end(text);
      });
    };

  it("sends each call with its method, path and body", async () => {
    await using server = await startScriptedServer();
    await using calls = makeKubeCalls(server.config);
    const seen: [string, string, string | undefined, string][] = [];
    const see = (request: IncomingMessage, body: string) => {
      seen.push([request.method ?? "", request.url ?? "", request.headers["content-type"], body]);
      expect(request.headers.authorization).toBe("Bearer secret");
    };
    server.onList(answer("{}", see));
    await calls.create({ apiVersion: "v1", plural: "pods", namespace: "a" }, { metadata: { name: "p" } });
    await calls.get(things, "odd/name?");
    await calls.patch(things, "x", { kind: "apply", body: {} }, { query: { fieldManager: "me", force: true } });
    await calls.replace(things, { metadata: { name: "x" } }, { subresource: "status" });
    await calls.delete(things, "x", { gracePeriodSeconds: 0 });
    expect(seen).toEqual([
      ["POST", "/api/v1/namespaces/a/pods", "application/json", '{"metadata":{"name":"p"}}'],
      ["GET", "/apis/muster.dev/v1/namespaces/ns/things/odd%2Fname%3F", undefined, ""],
      [
        "PATCH",
        "/apis/muster.dev/v1/namespaces/ns/things/x?fieldManager=me&force=true",
        "application/apply-patch+yaml",
        "{}",
      ],
      ["PUT", "/apis/muster.dev/v1/namespaces/ns/things/x/status", "application/json", '{"metadata":{"name":"x"}}'],
      [
        "DELETE",
        "/apis/muster.dev/v1/namespaces/ns/things/x",
        "application/json",
        '{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":0}',
      ],
    ]);
  });

  it("keeps its connections after deletions, which have a body", async () => {
    await using server = await startScriptedServer();
    await using calls = makeKubeCalls(server.config);
    const ports = new Set<number | undefined>();
    server.onList(answer("{}", (request) => void ports.add(request.socket.remotePort)));
    for (const name of ["a", "b", "c", "d", "e", "f"]) await calls.delete(things, name);
    // undici may open a second connection while it still reads the end of an answer.
    expect(ports.size).toBeLessThanOrEqual(2);
  });

  it("never turns a call for one object into a call for all of them", async () => {
    await using server = await startScriptedServer();
    await using calls = makeKubeCalls(server.config);
    await expect(calls.delete(things, "")).rejects.toThrow("without a name");
    await expect(calls.replace(things, { metadata: {} })).rejects.toThrow("without a name");
    expect(server.asked).toEqual([]);
  });

  it("ends a call that the server never answers", async () => {
    await using server = await startScriptedServer();
    await using calls = makeKubeCalls(server.config, { timeoutMs: 20 });
    server.onList(() => undefined);
    expect(await codeOf(calls.get(things, "a"))).toBe("unavailable");
  });

  it("ends a call when its signal is aborted, and never sends one that still waits", async () => {
    await using server = await startScriptedServer();
    await using calls = makeKubeCalls(server.config, { maxInFlight: 1 });
    const held: ServerResponse[] = [];
    server.onList((response) => void held.push(response));
    const first = codeOf(calls.get(things, "first"));
    await until("the first is asked", () => held.length === 1);
    const stop = new AbortController();
    const waiting = codeOf(calls.get(things, "waiting", { signal: stop.signal }));
    const last = calls.get(things, "last");
    stop.abort();
    expect(await waiting).toBe("cancelled");
    expect(await codeOf(calls.get(things, "never", { signal: stop.signal }))).toBe("cancelled");
    server.onList(buildPage([makeThing("a", 1)], 5));
    held[0]!.end("{}");
    expect(await first).toBe("ok");
    await last;
    expect(server.asked.map(({ url }) => url.pathname.split("/").at(-1))).toEqual(["first", "last"]);
  });

  it("closes the connection of a call that is aborted in flight", async () => {
    await using server = await startScriptedServer();
    await using calls = makeKubeCalls(server.config);
    const stop = new AbortController();
    let closed: Promise<unknown> | undefined;
    server.onList((response) => {
      closed = once(response, "close");
      stop.abort();
    });
    expect(await codeOf(calls.get(things, "a", { signal: stop.signal }))).toBe("cancelled");
    await closed;
  });

  it("never exceeds its limit of requests in flight", async () => {
    await using server = await startScriptedServer();
    await using calls = makeKubeCalls(server.config, { maxInFlight: 3 });
    const held: ServerResponse[] = [];
    server.onList((response) => void held.push(response));
    const all = Promise.all(Array.from({ length: 50 }, (_, at) => calls.get(things, `t${at}`)));
    await until("three are asked", () => held.length >= 3);
    await waitUntilSettled();
    expect(held).toHaveLength(3);
    server.onList(answer("{}"));
    for (const response of held) response.end("{}");
    await all;
    expect(server.asked).toHaveLength(50);
  });

  it("retries once with new credentials after a refused token", async () => {
    await using server = await startScriptedServer();
    await using calls = makeKubeCalls(server.config);
    server.onList(answer("{}"), buildRefusal(401, "Unauthorized"), answer("{}"), buildRefusal(401, "Unauthorized"));
    await calls.get(things, "a");
    await calls.get(things, "b");
    expect(server.asked).toHaveLength(3);
    expect(await codeOf(calls.get(things, "c"))).toBe("unavailable");
    expect(server.asked).toHaveLength(5);
  });

  it("rejects with the API server's refusal and its pause, and does not retry", async () => {
    await using server = await startScriptedServer();
    await using calls = makeKubeCalls(server.config);
    server.onList(buildRefusal(429, "TooManyRequests", { "retry-after": "2" }));
    const error: unknown = await calls.get(things, "a").catch((reason: unknown) => reason);
    expect(toKubeFault(error)).toEqual({ code: "unavailable", dependency: "kubernetes", retryAfterMs: 2000 });
    expect(server.asked).toHaveLength(1);
  });

  it("rejects an answer that is no JSON, or no list", async () => {
    await using server = await startScriptedServer();
    await using calls = makeKubeCalls(server.config);
    server.onList(answer("<html>"), answer('{"kind":"Thing"}'));
    await expect(calls.get(things, "a")).rejects.toMatchObject({ name: "MalformedAnswerError" });
    await expect(calls.list(things)).rejects.toMatchObject({ name: "MalformedAnswerError" });
  });

  it("resolves a creation whose answer is unread, but rejects a refused one", async () => {
    await using server = await startScriptedServer();
    await using calls = makeKubeCalls(server.config);
    server.onList(answer("<html>"), buildRefusal(409, "AlreadyExists"));
    const sent = { metadata: { name: "a" } };
    expect(await calls.create(things, sent, { isAnswerUnread: true })).toBe(sent);
    expect(await codeOf(calls.create(things, sent, { isAnswerUnread: true }))).toBe("already_exists");
  });

  it("reports that the server is unavailable", async () => {
    const server = await startScriptedServer();
    await server[Symbol.asyncDispose]();
    await using calls = makeKubeCalls(server.config);
    expect(await codeOf(calls.get(things, "a"))).toBe("unavailable");
  });
});
