import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { CoreV1Api, type V1Pod } from "@kubernetes/client-node";
import { findFault } from "@muster/faults";
import { loadKube } from "@muster/kube";
import { startKubeApiServer, findKubeAssets, makeKubeClient, until } from "@muster/testkit";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { attachNodes, endLeftovers, startDevCluster } from "../src/index.ts";

const MAIN = join(import.meta.dirname, "../src/main.ts");
const POOLS = [
  { name: "drivers", nodes: 1 },
  { name: "workers", nodes: 2 },
];

let directory: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "muster-devcluster-"));
});

afterEach(async () => {
  // A test that failed half-way may have left these.
  await endLeftovers(join(directory, "nodes"));
  await rm(directory, { recursive: true, force: true });
});

describe("startDevCluster", () => {
  it("is reachable under its given name, by a kubeconfig that names it", async () => {
    const kubeconfig = join(directory, "elsewhere/kubeconfig");
    await using cluster = await startDevCluster({ directory, pools: [], host: "localhost", kubeconfig });
    expect(await readFile(kubeconfig, "utf8")).toContain(`https://localhost:${cluster.server.port}`);
    expect((await apiOf(kubeconfig).listNamespace()).items.length).toBeGreaterThan(0);
  });

  it("has every node ready and labelled, runs pods where their selector requires, and leaves nothing behind", async () => {
    const errors: string[] = [];
    const cluster = await startDevCluster({
      directory,
      pools: POOLS,
      stopGraceMs: 200,
      onError: (error, doing) => errors.push(`${doing}: ${String(error)}`),
    });
    const api = apiOf(cluster.kubeconfig);
    const nodes = await api.listNode();
    expect(nodes.items.map((node) => [node.metadata?.name, node.metadata?.labels?.["pool"]])).toEqual([
      ["drivers-0", "drivers"],
      ["workers-0", "workers"],
      ["workers-1", "workers"],
    ]);
    for (const node of nodes.items) {
      expect(node.status?.conditions?.find((each) => each.type === "Ready")?.status).toBe("True");
    }
    await create(api, "one", directory);
    await create(api, "two", directory);
    const pods = [await running(api, "one"), await running(api, "two")];
    expect(pods.map((pod) => pod.spec?.nodeName).sort()).toEqual(["workers-0", "workers-1"]);
    expect(await marked(directory)).toHaveLength(2);
    await up(api, "one");
    await cluster[Symbol.asyncDispose]();
    expect(await marked(directory)).toEqual([]);
    expect(errors).toEqual([]);
  });

  it("continues after every watch was cut", async () => {
    await using cluster = await startDevCluster({ directory, pools: POOLS, stopGraceMs: 200 });
    const api = apiOf(cluster.kubeconfig);
    cluster.server.closeWatches();
    cluster.server.expireHistory();
    await create(api, "late", directory);
    await running(api, "late");
  });

  it("refuses a directory that another cluster uses", async () => {
    await using _child = await startMain(directory, "workers=1");
    const second = startDevCluster({ directory, pools: [{ name: "workers", nodes: 1 }] });
    expect(await second.catch(findFault)).toMatchObject({ code: "already_exists", kind: "kubelet" });
  });
});

const assets = findKubeAssets();
describe.skipIf(!assets.found)(`attachNodes (${assets.found ? "real kube-apiserver" : assets.reason})`, () => {
  it("runs pods of a real API server, logs included, with only its kubeconfig", async () => {
    await using server = await startKubeApiServer();
    const nodes = await attachNodes({ kubeconfig: server.kubeconfig, pools: POOLS, stopGraceMs: 200 });
    const api = apiOf(server.kubeconfig);
    await create(api, "one", directory);
    await up(api, "one");
    await nodes[Symbol.asyncDispose]();
    expect(await marked(directory)).toEqual([]);
  });
});

describe("the cluster as a process", () => {
  it.each<[string, (child: ChildProcess) => void]>([
    ["SIGTERM", (child) => child.kill("SIGTERM")],
    ["the end of its channel", (child) => child.disconnect()],
    ["the end of its input", (child) => child.stdin?.end()],
  ])("stops in order on %s, with all its parts", async (_title, end) => {
    await using started = await startMain(directory, "workers=1");
    const api = apiOf(started.kubeconfig);
    await create(api, "one", directory);
    await running(api, "one");
    end(started.child);
    await started.exited;
    expect(started.child.exitCode).toBe(0);
    expect(await marked(directory)).toEqual([]);
  });

  it("ends the processes of an earlier, killed cluster, also of nodes that it no longer has", async () => {
    const first = await startMain(directory, "workers=2");
    const api = apiOf(first.kubeconfig);
    for (const name of ["one", "two"]) {
      await create(api, name, directory);
      await up(api, name);
    }
    first.child.kill("SIGKILL");
    await first.exited;
    expect(await marked(directory)).toHaveLength(2);
    await using _second = await startMain(directory, "workers=1");
    expect(await marked(directory)).toEqual([]);
  });

  it("leaves processes that a supervisor can end without restarting it", async () => {
    const first = await startMain(directory, "workers=1");
    const api = apiOf(first.kubeconfig);
    await create(api, "one", directory);
    await up(api, "one");
    expect(await endLeftovers(join(directory, "nodes")).catch(findFault)).toMatchObject({ code: "already_exists" });
    first.child.kill("SIGKILL");
    await first.exited;
    await endLeftovers(join(directory, "nodes"));
    expect(await marked(directory)).toEqual([]);
  });

  it("reports the problems in its arguments", async () => {
    const child = spawn(process.execPath, [MAIN, "--pools", "x"], { stdio: ["ignore", "ignore", "pipe"] });
    let output = "";
    child.stderr.setEncoding("utf8").on("data", (text: string) => (output += text));
    await once(child, "close");
    expect(child.exitCode).toBe(1);
    expect(output).toContain("--directory is missing");
  });
});

async function startMain(
  at: string,
  pools: string,
): Promise<AsyncDisposable & { child: ChildProcess; kubeconfig: string; exited: Promise<unknown> }> {
  const kubeconfig = join(at, "copy", "kubeconfig");
  const child = spawn(process.execPath, [MAIN, "--directory", at, "--pools", pools, "--kubeconfig", kubeconfig], {
    stdio: ["pipe", "pipe", "inherit", "ipc"],
  });
  const exited = once(child, "exit");
  if (child.stdout === null) throw new Error("no output");
  const [line] = (await Promise.race([
    once(createInterface({ input: child.stdout }), "line"),
    exited.then(() => {
      throw new Error("the cluster ended before it was ready");
    }),
  ])) as [string];
  expect(JSON.parse(line)).toMatchObject({ kubeconfig });
  return {
    child,
    kubeconfig,
    exited,
    [Symbol.asyncDispose]: async () => {
      child.kill("SIGTERM");
      await exited;
    },
  };
}

function apiOf(kubeconfig: string): CoreV1Api {
  return makeKubeClient(loadKube(kubeconfig), CoreV1Api, { timeoutMs: 60_000 });
}

/** A pod whose processes carry a mark, so that the test finds them under any parent. */
async function create(api: CoreV1Api, name: string, mark: string): Promise<void> {
  const command = ["sh", "-c", "echo up; exec sleep 1000"];
  await api.createNamespacedPod({
    namespace: "default",
    body: {
      metadata: { name },
      spec: {
        nodeSelector: { pool: "workers" },
        containers: [{ name: "main", image: "none", command, env: [{ name: "TEST_MARK", value: mark }] }],
      },
    },
  });
}

function running(api: CoreV1Api, name: string): Promise<V1Pod> {
  return until(`pod ${name} runs`, async () => {
    const pod = await api.readNamespacedPod({ name, namespace: "default" });
    return pod.status?.phase === "Running" && pod;
  });
}

/** Has written its line, so that a broken pipe does not end it later. */
async function up(api: CoreV1Api, name: string): Promise<void> {
  await running(api, name);
  await until(`pod ${name} is up`, async () => {
    return (await api.readNamespacedPodLog({ name, namespace: "default" })) === "up\n";
  });
}

async function marked(mark: string): Promise<string[]> {
  const found: string[] = [];
  for (const pid of (await readdir("/proc")).filter((name) => /^\d+$/.test(name))) {
    const environment = await readFile(`/proc/${pid}/environ`, "latin1").catch(() => "");
    if (environment.split("\0").includes(`TEST_MARK=${mark}`)) found.push(pid);
  }
  return found;
}
