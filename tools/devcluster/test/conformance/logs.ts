import { once } from "node:events";
import { createServer, type Server } from "node:https";
import type { IncomingMessage, ServerResponse } from "node:http";
import { until } from "@muster/testkit";
import { afterAll, beforeAll, expect, it } from "vitest";
import { getText } from "../../src/apiserver/json.ts";
import { type Api, pod } from "./api.ts";

type Answerer = (request: IncomingMessage, response: ServerResponse) => void;

/** Logs, as the server fetches them from a kubelet. */
export function describeLogs(api: () => Api): void {
  let kubelet: Server;
  let pods: string;
  let answerer: Answerer;
  const asked: string[] = [];
  beforeAll(async () => {
    const { cert, key } = api().cluster.kubeletCertificate;
    kubelet = createServer({ cert, key }, (request, response) => {
      asked.push(request.url ?? "");
      answerer(request, response);
    });
    kubelet.listen(0, "127.0.0.1");
    await once(kubelet, "listening");
    const address = kubelet.address();
    const port = typeof address === "object" && address !== null ? address.port : 0;
    await addNode(api(), "logging", port);
    await addNode(api(), "silent", 1);
    const namespace = await api().namespace();
    pods = `/api/v1/namespaces/${namespace}/pods`;
    await api().post(pods, pod("one", { spec: { nodeName: "logging" } }));
    const containers = ["a", "b"].map((name) => ({ name, image: "program:1" }));
    await api().post(pods, pod("two", { spec: { nodeName: "logging", containers } }));
  });
  afterAll(async () => {
    kubelet.closeAllConnections();
    kubelet.close();
    await once(kubelet, "close");
  });

  it("come from the kubelet of the pod's node, with the requested options", async () => {
    answerer = (_request, response) => response.end("line 1\nline 2\n");
    const answer = await api().get(`${pods}/one/log?tailLines=2&timestamps=true&previous=true&limitBytes=100`);
    expect([answer.code, answer.text]).toEqual([200, "line 1\nline 2\n"]);
    expect(answer.headers["content-type"]).toBe("text/plain");
    const url = new URL(asked.at(-1) ?? "", "https://kubelet");
    expect(url.pathname).toBe(`/containerLogs/${pods.split("/")[4] ?? ""}/one/main`);
    expect(Object.fromEntries(url.searchParams)).toEqual({
      tailLines: "2",
      timestamps: "true",
      previous: "true",
      limitBytes: "100",
    });
  });

  it("need a container when the pod has several", async () => {
    const unnamed = await api().get(`${pods}/two/log`);
    expect(unnamed.code).toBe(400);
    expect(getText(unnamed.body, "message")).toBe(
      "a container name must be specified for pod two, choose one of: [a b]",
    );
    const wrong = await api().get(`${pods}/two/log?container=c`);
    expect(wrong.code).toBe(400);
    expect(getText(wrong.body, "message")).toBe("container c is not valid for pod two");
    answerer = (_request, response) => response.end("of b");
    expect((await api().get(`${pods}/two/log?container=b`)).text).toBe("of b");
    expect(asked.at(-1)).toMatch(/\/two\/b$/);
  });

  it("are streamed, and the connection to the kubelet ends with the reader", async () => {
    let released = false;
    let writer: ServerResponse | undefined;
    answerer = (_request, response) => {
      writer = response;
      response.once("close", () => {
        released = true;
      });
      response.write('{"first":"line"}\n');
    };
    {
      await using follower = await api().watch(`${pods}/one/log?follow=true`);
      await until("the first line came", () => writer !== undefined);
      expect(await follower.next()).toBeDefined();
      writer?.write('{"second":"line"}\n');
      expect(await follower.next()).toBeDefined();
      expect(released).toBe(false);
    }
    await until("the connection to the kubelet ends", () => released);
  });

  it("forward the kubelet's refusal", async () => {
    const reason = 'container "main" in pod "one" is waiting to start: ContainerCreating';
    answerer = (_request, response) => {
      response.writeHead(400);
      response.end(reason);
    };
    const answer = await api().get(`${pods}/one/log`);
    expect(answer.code).toBe(400);
    expect(answer.body).toMatchObject({ kind: "Status", reason: "BadRequest", message: reason });
  });

  it("are empty for a pod without a node", async () => {
    await api().post(pods, pod("unplaced"));
    const answer = await api().get(`${pods}/unplaced/log`);
    expect([answer.code, answer.text]).toEqual([204, ""]);
  });

  it("report a missing pod, and a kubelet that cannot be reached", async () => {
    expect((await api().get(`${pods}/absent/log`)).code).toBe(404);
    await api().post(pods, pod("unreachable", { spec: { nodeName: "silent" } }));
    const answer = await api().get(`${pods}/unreachable/log`);
    expect(answer.code).toBe(500);
    expect(getText(answer.body, "message")).toContain("127.0.0.1:1/containerLogs/");
  });
}

async function addNode(api: Api, name: string, port: number): Promise<void> {
  await api.post("/api/v1/nodes", { metadata: { name } });
  const status = {
    addresses: [{ type: "InternalIP", address: "127.0.0.1" }],
    daemonEndpoints: { kubeletEndpoint: { Port: port } },
  };
  const written = await api.patch(`/api/v1/nodes/${name}/status`, "merge", { status });
  if (written.code !== 200) throw new Error(written.text);
}
