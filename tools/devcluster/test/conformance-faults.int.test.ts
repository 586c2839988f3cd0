import { once } from "node:events";
import { mkdtemp, readFile, rm, stat } from "node:fs/promises";
import { createServer } from "node:https";
import { connect } from "node:net";
import { networkInterfaces, tmpdir } from "node:os";
import { join } from "node:path";
import { connect as connectTls } from "node:tls";
import { makeFixedClock, until } from "@muster/testkit";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { makeAuthority, signLoopbackServer } from "../src/apiserver/certificates.ts";
import { getText } from "../src/apiserver/json.ts";
import { type ApiServer, type ApiServerOptions, startApiServer } from "../src/apiserver/start-api-server.ts";
import { type Api, api, configMap, listNames, pod, getVersion } from "./conformance/api.ts";

const MAPS = "/api/v1/namespaces/default/configmaps";
const PODS = "/api/v1/namespaces/default/pods";

type Started = AsyncDisposable & { readonly server: ApiServer; readonly client: Api; readonly defects: unknown[] };

async function start(options: Partial<ApiServerOptions> = {}): Promise<Started> {
  const directory = await mkdtemp(join(tmpdir(), "muster-apiserver-"));
  const defects: unknown[] = [];
  const server = await startApiServer({ directory, onError: (error) => defects.push(error), ...options });
  const client = api({ ...server, kubeletCertificate: server.kubelet.certificate, collects: true });
  return {
    server,
    client,
    defects,
    [Symbol.asyncDispose]: async () => {
      await server[Symbol.asyncDispose]();
      await rm(directory, { recursive: true, force: true });
    },
  };
}

describe("the embedded API server", () => {
  it("writes a kubeconfig that only its owner can read, and uses the given port and token", async () => {
    await using first = await start({ token: "a-token" });
    expect((await stat(first.server.kubeconfig)).mode & 0o777).toBe(0o600);
    expect(await readFile(first.server.kubeconfig, "utf8")).toContain("a-token");
    const { port } = first.server;
    await first.server[Symbol.asyncDispose]();
    await using second = await start({ port });
    expect(second.server.url).toBe(`https://127.0.0.1:${port}`);
  });

  it("listens on loopback only", async () => {
    await using started = await start();
    const addresses = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
    const others = addresses
      .filter(({ internal, family }) => !internal && family === "IPv4")
      .map(({ address }) => address);
    for (const host of others) {
      const socket = connect(started.server.port, host);
      const outcome = await Promise.race([once(socket, "connect"), once(socket, "error").catch(() => "refused")]).catch(
        () => "refused",
      );
      socket.destroy();
      expect(outcome).toBe("refused");
    }
  });

  it("keeps idle connections longer than the pause between two heartbeats of a node", async () => {
    await using started = await start();
    const { port, token, ca } = started.server;
    const socket = connectTls({ port, host: "127.0.0.1", ca });
    socket.write(`GET /api/v1/nodes HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${token}\r\n\r\n`);
    const [head] = (await once(socket, "data")) as [Buffer];
    socket.destroy();
    expect(head.toString()).toContain("Keep-Alive: timeout=90");
  });

  it("stops with open watches and leaves nothing listening", async () => {
    const started = await start();
    await using watch = await started.client.watch(`${MAPS}?watch=true`);
    await started[Symbol.asyncDispose]();
    expect(await watch.rest()).toEqual([]);
    const socket = connect(started.server.port, "127.0.0.1");
    const [error] = (await once(socket, "error").catch((reason: unknown) => [reason])) as [{ code: string }];
    expect(error.code).toBe("ECONNREFUSED");
  });

  describe("when its watches are cut off", () => {
    it("ends each of them, and serves new ones from their position", async () => {
      await using started = await start();
      const { client, server } = started;
      await using watch = await client.watch(`${MAPS}?watch=true`);
      const made = await client.post(MAPS, configMap("a"));
      expect(await watch.take(1)).toHaveLength(1);
      expect(server.openWatches()).toBe(1);
      server.closeWatches();
      expect(await watch.rest()).toEqual([]);
      await until("the watch is forgotten", () => server.openWatches() === 0);
      await client.post(MAPS, configMap("b"));
      await using again = await client.watch(`${MAPS}?watch=true&resourceVersion=${getVersion(made.body)}`);
      expect((await again.take(1)).map(({ object }) => getText(object, "metadata", "name"))).toEqual(["b"]);
    });

    it("forgets a watch whose client disconnects", async () => {
      await using started = await start();
      const watch = await started.client.watch(`${MAPS}?watch=true`);
      expect(started.server.openWatches()).toBe(1);
      await watch[Symbol.asyncDispose]();
      await until("the watch is forgotten", () => started.server.openWatches() === 0);
    });
  });

  describe("when its history is dropped", () => {
    it("answers every known version with 410", async () => {
      await using started = await start();
      const { client, server } = started;
      const before = getVersion((await client.get(MAPS)).body);
      server.expireHistory();
      await using watch = await client.watch(`${MAPS}?watch=true&resourceVersion=${before}`);
      const events = await watch.rest();
      expect(events).toMatchObject([{ type: "ERROR", object: { kind: "Status", code: 410, reason: "Expired" } }]);
      expect(getText(events[0]?.object, "message")).toMatch(/^too old resource version: \d+ \(\d+\)$/);
      const now = getVersion((await client.get(MAPS)).body);
      await using fresh = await client.watch(`${MAPS}?watch=true&resourceVersion=${now}&timeoutSeconds=1`);
      expect(await fresh.rest()).toEqual([]);
    });

    it("continues a list only as an inconsistent one", async () => {
      await using started = await start();
      const { client, server } = started;
      for (const name of ["a", "b", "c"]) await client.post(MAPS, configMap(name));
      const token = getText((await client.get(`${MAPS}?limit=2`)).body, "metadata", "continue");
      server.expireHistory();
      const expired = await client.get(`${MAPS}?limit=2&continue=${token}`);
      expect(expired.code).toBe(410);
      expect(expired.body).toMatchObject({ reason: "Expired" });
      const rest = await client.get(`${MAPS}?continue=${getText(expired.body, "metadata", "continue")}`);
      expect(listNames(rest.body)).toEqual(["c"]);
    });

    it("remembers as many changes as its limit allows, for each resource", async () => {
      await using started = await start({ historyLimit: 5 });
      const { client } = started;
      const before = getVersion((await client.get(MAPS)).body);
      for (let index = 0; index < 10; index++) await client.post(MAPS, configMap(`a-${index}`));
      await using old = await client.watch(`${MAPS}?watch=true&resourceVersion=${before}`);
      expect((await old.take(1))[0]?.type).toBe("ERROR");
      // The history of the pods stays complete.
      await using other = await client.watch(`${PODS}?watch=true&resourceVersion=${before}&timeoutSeconds=1`);
      expect(await other.rest()).toEqual([]);
    });
  });

  describe("under pressure", () => {
    it("refuses watches above its limit, and reports when to retry", async () => {
      await using started = await start({ watchLimits: { maxWatches: 1 } });
      const { client, server } = started;
      {
        await using _held = await client.watch(`${MAPS}?watch=true`);
        const refused = await client.get(`${MAPS}?watch=true`);
        expect(refused.code).toBe(429);
        expect(refused.headers["retry-after"]).toBe("1");
        expect(refused.body).toMatchObject({ reason: "TooManyRequests", details: { retryAfterSeconds: 1 } });
      }
      await until("there is room again", () => server.openWatches() === 0);
      await using again = await client.watch(`${MAPS}?watch=true`);
      expect(again.code).toBe(200);
    });

    it("drops a watch whose client does not read", async () => {
      await using started = await start({ watchLimits: { backlogMaxBytes: 1024 * 1024 } });
      const { client, server } = started;
      const socket = connectTls({ host: "127.0.0.1", port: server.port, ca: server.ca, servername: "localhost" });
      await once(socket, "secureConnect");
      socket.write(
        `GET ${MAPS}?watch=true HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${server.token}\r\n\r\n`,
      );
      await once(socket, "readable");
      socket.pause();
      const large = "x".repeat(2 * 1024 * 1024);
      await until("the watch is dropped", async () => {
        await client.patch(`${MAPS}/large`, "merge", { data: { large, turn: String(Math.random()) } });
        await client.post(MAPS, configMap("large", { data: { large } }));
        return server.openWatches() === 0;
      });
      socket.on("error", () => undefined);
      socket.destroy();
    });

    it("lets a client read large initial events at any speed", async () => {
      await using started = await start({ watchLimits: { backlogMaxBytes: 1024 * 1024 } });
      const { client, server } = started;
      const large = "x".repeat(1024 * 1024);
      for (let index = 0; index < 8; index++) await client.post(MAPS, configMap(`m-${index}`, { data: { large } }));
      const socket = connectTls({ host: "127.0.0.1", port: server.port, ca: server.ca, servername: "localhost" });
      await once(socket, "secureConnect");
      socket.pause();
      socket.write(
        `GET ${MAPS}?watch=true HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${server.token}\r\n\r\n`,
      );
      await until("the watch is open", () => server.openWatches() === 1);
      await client.post(MAPS, configMap("small"));
      expect(server.openWatches()).toBe(1);
      socket.setEncoding("latin1");
      let text = "";
      socket.on("data", (chunk: string) => (text = (text + chunk).slice(-4096)));
      socket.resume();
      await until("everything has been read, in order", () => text.includes('"name":"small"'));
      socket.destroy();
    });

    it("sends bookmarks to idle watches", async () => {
      await using started = await start({ watchLimits: { bookmarkEveryMs: 10 } });
      const { client } = started;
      const made = await client.post(PODS, pod("a"));
      await using watch = await client.watch(
        `${MAPS}?watch=true&allowWatchBookmarks=true&resourceVersion=${getVersion(made.body)}`,
      );
      const [bookmark] = await watch.take(1);
      expect(bookmark).toMatchObject({ type: "BOOKMARK", object: { kind: "ConfigMap", apiVersion: "v1" } });
      expect(getVersion(bookmark?.object ?? {})).toBe(getVersion(made.body));
    });
  });

  it("deletes events after an hour", async () => {
    const clock = makeFixedClock();
    await using started = await start({ now: clock.now });
    const { client } = started;
    const events = "/api/v1/namespaces/default/events";
    await client.post(events, { metadata: { name: "old" }, involvedObject: { kind: "Pod", namespace: "default" } });
    clock.advance(3_600_000);
    await client.post(events, { metadata: { name: "young" }, involvedObject: { kind: "Pod", namespace: "default" } });
    // An object whose owner is missing triggers the collector; otherwise it scans every minute.
    const ownerReferences = [{ apiVersion: "v1", kind: "ConfigMap", name: "missing", uid: "missing" }];
    await client.post(MAPS, configMap("a", { metadata: { ownerReferences } }));
    await until("the old event is gone", async () => (await client.get(`${events}/old`)).code === 404);
    expect((await client.get(`${events}/young`)).code).toBe(200);
  });

  describe("towards kubelets", () => {
    it("shows its token to a server of its authority, and answers no other", async () => {
      await using started = await start();
      const { client, server } = started;
      const seen: (string | undefined)[] = [];
      const listenWith = async (certificate: {
        cert: string;
        key: string;
      }): Promise<AsyncDisposable & { port: number }> => {
        const kubelet = createServer({ cert: certificate.cert, key: certificate.key }, (request, response) => {
          seen.push(request.headers.authorization);
          response.end("a line");
        });
        kubelet.listen(0, "127.0.0.1");
        await once(kubelet, "listening");
        const address = kubelet.address();
        return {
          port: typeof address === "object" && address !== null ? address.port : 0,
          [Symbol.asyncDispose]: async () => {
            kubelet.close();
            kubelet.closeAllConnections();
            await once(kubelet, "close");
          },
        };
      };
      await using known = await listenWith(server.kubelet.certificate);
      await using foreign = await listenWith(await signLoopbackServer(await makeAuthority("other"), "kubelet"));
      for (const [name, port] of [
        ["known", known.port],
        ["foreign", foreign.port],
      ] as const) {
        await client.post("/api/v1/nodes", { metadata: { name } });
        const daemonEndpoints = { kubeletEndpoint: { Port: port } };
        const addresses = [{ type: "InternalIP", address: "127.0.0.1" }];
        await client.patch(`/api/v1/nodes/${name}/status`, "merge", { status: { daemonEndpoints, addresses } });
        await client.post(PODS, pod(name, { spec: { nodeName: name } }));
      }
      expect((await client.get(`${PODS}/known/log`)).text).toBe("a line");
      expect((await client.get(`${PODS}/foreign/log`)).code).toBe(500);
      expect(seen).toEqual([`Bearer ${server.kubelet.token}`]);
    });
  });

  it("answers any request by its content, and survives", async () => {
    await using started = await start();
    const { client } = started;
    await client.post(PODS, pod("target"));
    const path = fc.constantFrom(
      PODS,
      `${PODS}/target`,
      `${PODS}/target/status`,
      `${PODS}/target/binding`,
      "/api/v1/nodes",
      "/api",
      "/%zz",
      "//x/../y",
    );
    const query = fc.constantFrom(
      "",
      "?watch=1&timeoutSeconds=1&resourceVersion=-1",
      "?limit=1&continue=e30",
      "?fieldSelector=%00",
      "?labelSelector=(((",
      "?dryRun=All&fieldManager=a",
    );
    const type = fc.constantFrom(
      "application/json",
      "application/json-patch+json",
      "application/merge-patch+json",
      "application/strategic-merge-patch+json",
      "application/apply-patch+yaml",
      "",
    );
    const key = fc.constantFrom(
      "metadata",
      "spec",
      "status",
      "kind",
      "name",
      "labels",
      "containers",
      "finalizers",
      "ownerReferences",
      "$patch",
      "op",
      "path",
      "__proto__",
    );
    const raw = fc.oneof(
      fc.string(),
      fc.object({ key, maxDepth: 4 }).map((value) => JSON.stringify(value)),
      fc.json(),
    );
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"),
        path,
        query,
        type,
        raw,
        async (method, where, how, mediaType, body) => {
          const answer = await client.call(method, where + how, {
            type: mediaType,
            ...(method === "GET" ? {} : { raw: body }),
          });
          // The failures with 500 that Kubernetes has for mistakes of a client.
          if (answer.code >= 500)
            expect([
              "target.name: Required value",
              "resourceVersion should not be set on objects to be created",
              'resourceVersion: Invalid value: "-1": strconv.ParseUint: parsing "-1": invalid syntax',
            ]).toContain(getText(answer.body, "message"));
        },
      ),
      { numRuns: 300 },
    );
    expect(started.defects).toEqual([]);
    expect((await client.get("/readyz")).text).toBe("ok");
  });

  it("survives clients that disconnect in the middle", async () => {
    await using started = await start();
    const { client, server } = started;
    const beginnings = [
      "",
      "GET",
      `POST ${MAPS} HTTP/1.1\r\nHost: a\r\n`,
      `POST ${MAPS} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${server.token}\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"meta`,
    ];
    for (const beginning of beginnings) {
      const socket = connectTls({ host: "127.0.0.1", port: server.port, ca: server.ca, servername: "localhost" });
      await once(socket, "secureConnect");
      await new Promise((resolve) => socket.write(beginning, resolve));
      socket.destroy();
    }
    const socket = connect(server.port, "127.0.0.1");
    socket.end("not TLS at all");
    await once(socket, "close");
    expect((await client.get("/readyz")).text).toBe("ok");
    expect(started.defects).toEqual([]);
  });
});
