import { once } from "node:events";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { type CoreV1Event, CoreV1Api, type KubeConfig, Log, type V1Pod, type V1PodSpec } from "@kubernetes/client-node";
import { listWatch, loadKube } from "@muster/kube";
import { until, type TestApiServer } from "@muster/testkit";
import { afterAll, beforeAll, beforeEach, expect } from "vitest";
import { type Kubelet, startKubelet } from "../src/index.ts";
import { makeApi } from "./api-servers.ts";

const NODE = "a-0";

/** A server and its node a-0 for all tests of a suite; each test has its own namespace. An error of the kubelet fails the suite at its end. */
export function startSuiteNode(start: () => Promise<TestApiServer>, now: () => number = Date.now) {
  let server: TestApiServer;
  let config: KubeConfig;
  let api: CoreV1Api;
  let kubelet: Kubelet;
  let directory: string;
  let namespace: string;
  let count = 0;
  const errors: unknown[] = [];

  async function startNode(): Promise<void> {
    kubelet = await startKubelet({
      kubeconfig: config,
      nodeName: NODE,
      nodeIndex: 0,
      directory,
      labels: { pool: "a" },
      ...server.nodeOptions,
      ...makeApi(server),
      now,
      stopGraceMs: 200,
      onError: (error, doing) => errors.push(`${doing}: ${String(error)}`),
    });
  }

  beforeAll(async () => {
    server = await start();
    directory = await mkdtemp(join(tmpdir(), "muster-kubelet-"));
    config = loadKube(server.kubeconfig);
    api = config.makeApiClient(CoreV1Api);
    await startNode();
  });

  afterAll(async () => {
    await kubelet[Symbol.asyncDispose]();
    await server[Symbol.asyncDispose]();
    await rm(directory, { recursive: true, force: true });
    expect(errors).toEqual([]);
  });

  beforeEach(async () => {
    namespace = `case-${++count}`;
    await api.createNamespace({ body: { metadata: { name: namespace } } });
  });

  return {
    ...podActions(() => ({ api, config, namespace })),
    /** Each of these is of the moment. */
    here: () => ({ api, config, kubelet, namespace }),
    /** The folder that the containers of a pod see as their home. */
    homeOf: (uid: string) => join(directory, "pods", uid, "home"),
    start: startNode,
  };
}

/** The operations of tests on pods of the node a-0, in the namespace of the running test. */
function podActions(world: () => { readonly api: CoreV1Api; readonly config: KubeConfig; readonly namespace: string }) {
  async function create(name: string, spec: Partial<V1PodSpec>): Promise<void> {
    await world().api.createNamespacedPod({
      namespace: world().namespace,
      body: {
        metadata: { name, labels: { role: "tested" } },
        spec: { containers: [], nodeName: NODE, restartPolicy: "Never", ...spec },
      },
    });
  }

  function run(name: string, command: string[], spec: Partial<V1PodSpec> = {}): Promise<void> {
    const container = { name: "main", image: "none", ...(command.length === 0 ? {} : { command }) };
    return create(name, { containers: [container], ...spec });
  }

  function read(name: string): Promise<V1Pod> {
    return world().api.readNamespacedPod({ name, namespace: world().namespace });
  }

  function inPhase(name: string, phase: string): Promise<V1Pod> {
    return until(`pod ${name} is ${phase}`, async () => {
      const pod = await read(name);
      if (pod.status?.phase !== phase) throw new Error(JSON.stringify(pod.status));
      return pod;
    });
  }

  function ready(name: string): Promise<V1Pod> {
    return until(`pod ${name} is ready`, async () => {
      const pod = await read(name);
      return pod.status?.conditions?.some((each) => each.type === "Ready" && each.status === "True") && pod;
    });
  }

  async function gone(name: string): Promise<void> {
    await until(`pod ${name} is gone`, async () => {
      const pods = await world().api.listNamespacedPod({ namespace: world().namespace });
      return !pods.items.some((pod) => pod.metadata?.name === name);
    });
  }

  async function remove(name: string): Promise<void> {
    await world().api.deleteNamespacedPod({ name, namespace: world().namespace, gracePeriodSeconds: 1 });
    await gone(name);
  }

  function logs(
    name: string,
    options: { container?: string; tailLines?: number; timestamps?: boolean; previous?: boolean } = {},
  ): Promise<string> {
    return world().api.readNamespacedPodLog({ name, namespace: world().namespace, ...options });
  }

  async function follow(name: string): Promise<string> {
    const stream = new PassThrough();
    const parts: Buffer[] = [];
    stream.on("data", (part: Buffer) => parts.push(part));
    const end = once(stream, "end");
    await new Log(world().config).log(world().namespace, name, "main", stream, { follow: true });
    await end;
    return Buffer.concat(parts).toString();
  }

  /** Returns the events of a pod in the order of their creation. */
  async function eventsOf(name: string): Promise<CoreV1Event[]> {
    const { items } = await world().api.listNamespacedEvent({
      namespace: world().namespace,
      fieldSelector: `involvedObject.name=${name}`,
    });
    const version = (each: (typeof items)[number]): number => Number(each.metadata.resourceVersion);
    return items.sort((a, b) => version(a) - version(b));
  }

  async function reasonsOf(name: string): Promise<string[]> {
    return (await eventsOf(name)).map((each) => each.reason ?? "");
  }

  /** The last phase and exit code that the API server had of a pod, once it is gone. */
  async function watchStatus(name: string): Promise<{ phase: string | undefined; exitCode: number | undefined }> {
    let last: V1Pod | undefined;
    const source = listWatch<V1Pod>(world().config, `/api/v1/namespaces/${world().namespace}/pods`, {
      fieldSelector: `metadata.name=${name}`,
    });
    const signal = AbortSignal.timeout(20_000);
    const { resourceVersion } = await source.list({ limit: 10, signal });
    for await (const event of source.watch({ resourceVersion, timeoutSeconds: 20, signal })) {
      if (event.type === "MODIFIED") last = event.object;
      if (event.type === "DELETED") break;
    }
    return {
      phase: last?.status?.phase,
      exitCode: last?.status?.containerStatuses?.[0]?.state?.terminated?.exitCode,
    };
  }

  return { create, run, read, inPhase, ready, gone, remove, logs, follow, eventsOf, reasonsOf, watchStatus };
}

/** Finds processes with the pod's uid in their environment: its own, and their descendants. */
export async function listProcesses(uid: string): Promise<string[]> {
  const found: string[] = [];
  for (const pid of (await readdir("/proc")).filter((name) => /^\d+$/.test(name))) {
    const environment = await readFile(`/proc/${pid}/environ`, "latin1").catch(() => "");
    if (environment.includes(`process://${uid}/`)) found.push(pid);
  }
  return found;
}

/** Answers every request with the status of the moment, and counts. */
export async function startHttpServer(
  status: () => number,
): Promise<AsyncDisposable & { readonly port: number; readonly requests: () => number }> {
  let requests = 0;
  const server: Server = createServer((_request, response) => {
    requests += 1;
    response.writeHead(status()).end();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    port: (server.address() as AddressInfo).port,
    requests: () => requests,
    [Symbol.asyncDispose]: async () => {
      server.close();
      server.closeAllConnections();
      await once(server, "close");
    },
  };
}
