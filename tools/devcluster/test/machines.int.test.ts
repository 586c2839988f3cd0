import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { CoreV1Api, type V1Node } from "@kubernetes/client-node";
import { loadKube } from "@muster/kube";
import { startKubeApiServer, findKubeAssets, makeKubeClient, until } from "@muster/testkit";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import {
  type DevClusterOptions,
  type DevCluster,
  endLeftovers,
  machineNodesOf,
  type Machines,
  listPoolMachines,
  makeKubeletNodes,
  makeRemoteMachineControls,
  startDevCluster,
  startMachines,
} from "../src/index.ts";

const TYPES = [
  { name: "small", cpu: "2", memory: "4Gi" },
  { name: "large", cpu: "8", memory: "32Gi", gpus: 2, spot: false },
];
/** A time of the clock that the tests push: no pause of this process is as long. */
const BOOT_MS = 120_000;
const END_MS = 60_000;

describe.each([
  { title: "kubelets", simulated: false },
  { title: "simulated nodes", simulated: true },
])("a cloud of $title", ({ simulated }) => {
  let directory: string;
  let cluster: DevCluster;
  let cloud: Machines;
  let nodes: CoreV1Api;
  // The clock runs, and a test pushes it ahead.
  let aheadMs: number;
  const errors: string[] = [];

  const start = async (more: Partial<NonNullable<DevClusterOptions["machines"]>> = {}): Promise<void> => {
    cluster = await startDevCluster({
      directory,
      simulated,
      pools: [{ name: "fixed", nodes: 1 }],
      persist: true,
      now: () => Date.now() + aheadMs,
      stopGraceMs: 100,
      // No node counts as silent because the test has pushed the clock.
      nodeGraceMs: 100 * BOOT_MS,
      onError: (error, doing) => errors.push(`${doing}: ${String(error)}`),
      machines: { types: TYPES, bootMs: { from: BOOT_MS, to: BOOT_MS }, endMs: END_MS, seed: 7, ...more },
    });
    if (cluster.machines === undefined) throw new Error("the cluster has no cloud");
    cloud = cluster.machines;
    nodes = makeKubeClient(loadKube(cluster.kubeconfig), CoreV1Api, { timeoutMs: 60_000 });
  };
  beforeEach(async () => {
    aheadMs = 0;
    errors.length = 0;
    directory = await mkdtemp(join(tmpdir(), "muster-machines-"));
    await start();
  });
  afterEach(async () => {
    await cluster[Symbol.asyncDispose]();
    await rm(directory, { recursive: true, force: true });
    expect(errors).toEqual([]);
  });

  const ask = async (
    method: string,
    path: string,
    body?: object,
    token = cloud.control.token,
  ): Promise<{ code: number; body: Record<string, unknown>; headers: Headers }> => {
    const response = await fetch(`${cloud.url}/v1/${path}`, {
      method,
      headers: { authorization: `Bearer ${token}` },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return {
      code: response.status,
      body: (await response.json()) as Record<string, unknown>,
      headers: response.headers,
    };
  };
  const order = (nodeName: string, more: object = {}) =>
    ask("POST", "instances", { nodeName, owner: "tests", instanceType: "small", labels: { pool: "elastic" }, ...more });
  const listed = (nodeName: string) => cloud.list().find((machine) => machine.nodeName === nodeName);
  const readyOf = (node: V1Node): string | undefined =>
    node.status?.conditions?.find(({ type }) => type === "Ready")?.status;
  const joined = (name: string): Promise<V1Node> =>
    until(`node ${name} is ready`, async () => {
      const { items } = await nodes.listNode();
      return items.find((node) => node.metadata?.name === name && readyOf(node) === "True");
    });
  const running = async (nodeName: string, more: object = {}): Promise<string> => {
    const { body, code } = await order(nodeName, more);
    expect(code).toBe(201);
    aheadMs += BOOT_MS;
    await joined(nodeName);
    await until(`${nodeName} runs`, () => listed(nodeName)?.state === "running");
    return String(body["instanceId"]);
  };
  const gone = (nodeName: string) => until(`${nodeName} is gone`, () => listed(nodeName) === undefined);

  it("boots a machine into a node with the labels, taints, zone and capacity of its type, after the boot time", async () => {
    const taints = [{ key: "example.com/new", effect: "NoSchedule" }];
    const made = await order("n-1", { instanceType: "large", zone: "zone-b", gpus: 2, taints });
    expect(made).toMatchObject({ code: 201, body: { nodeName: "n-1", state: "pending", zone: "zone-b" } });
    expect(made.body).not.toHaveProperty("kubernetesNode");
    aheadMs += BOOT_MS;
    const node = await joined("n-1");
    expect(node.metadata?.labels).toMatchObject({
      pool: "elastic",
      "topology.kubernetes.io/zone": "zone-b",
      "node.kubernetes.io/instance-type": "large",
    });
    expect(node.spec?.taints).toContainEqual(expect.objectContaining(taints[0]));
    expect(node.status?.capacity).toMatchObject({ cpu: "8", memory: "32Gi", "nvidia.com/gpu": "2" });
    await until("it is listed", () => listed("n-1")?.kubernetesNode === "n-1");
    expect(listed("n-1")).toMatchObject({ state: "running", addresses: ["127.0.0.1"] });
  });

  it("creates one machine for two orders of one name, and refuses other properties under it", async () => {
    const [first, second] = await Promise.all([order("n-1"), order("n-1")]);
    expect([first.code, second.code].sort()).toEqual([200, 201]);
    expect(second.body["instanceId"]).toBe(first.body["instanceId"]);
    expect(await order("n-1", { instanceType: "large" })).toMatchObject({
      code: 409,
      body: { error: { code: "conflict" } },
    });
    expect(await order("n-1", { owner: "others" })).toMatchObject({ code: 201 });
    expect(cloud.list()).toHaveLength(2);
  });

  it("shows each owner its own machines, and nothing to clients without the token", async () => {
    await order("n-1");
    await order("n-2", { owner: "others" });
    expect((await ask("GET", "instances?owner=tests")).body).toMatchObject({ instances: [{ nodeName: "n-1" }] });
    expect((await ask("GET", "instances", undefined, "wrong")).code).toBe(401);
    expect((await ask("POST", "control", { do: "count" }, "")).code).toBe(401);
  });

  it("ends a machine once after repeated orders, and keeps its node object", async () => {
    const id = await running("n-1");
    const answers = [await ask("DELETE", `instances/${id}`), await ask("DELETE", `instances/${id}`)];
    expect(answers.map(({ code }) => code)).toEqual([202, 202]);
    expect(listed("n-1")?.state).toBe("stopping");
    aheadMs += END_MS;
    await gone("n-1");
    expect((await ask("DELETE", `instances/${id}`)).body).toMatchObject({ state: "gone" });
    expect((await ask("DELETE", "instances/i-ffffffff")).code).toBe(404);
    expect(readyOf(await nodes.readNode({ name: "n-1" }))).toBe("False");
    // A repeated order that comes late makes no second machine.
    expect((await order("n-1")).body).toMatchObject({ instanceId: id, state: "gone" });
  });

  it("ends a machine that is still booting", async () => {
    const { body } = await order("n-1");
    await ask("DELETE", `instances/${String(body["instanceId"])}`);
    aheadMs += BOOT_MS;
    await gone("n-1");
    expect((await nodes.listNode()).items.map((node) => node.metadata?.name)).toEqual(["fixed-0"]);
  });

  it("continues with its machines after a restart, with the same token", async () => {
    const id = await running("n-1");
    await order("n-2");
    const { token } = cloud.control;
    await cluster[Symbol.asyncDispose]();
    await start();
    expect(cloud.control.token).toBe(token);
    await until("n-1 runs again", () => listed("n-1")?.state === "running");
    aheadMs += BOOT_MS;
    await joined("n-2");
    expect((await order("n-1")).body).toMatchObject({ instanceId: id });
    expect((await order("n-3")).body).toMatchObject({ instanceId: "i-00000003" });
  });

  it("reports a full cloud as a lack of capacity", async () => {
    await cluster[Symbol.asyncDispose]();
    await start({ machinesMax: 1 });
    await order("n-1");
    expect(await order("n-2")).toMatchObject({ code: 409, body: { error: { code: "no-capacity" } } });
  });

  it.each([
    [{ instanceType: "huge" }, 422, "unsupported"],
    [{ instanceType: "large", spot: true }, 422, "unsupported"],
    [{ gpus: 1 }, 422, "unsupported"],
    [{ zone: "zone-z" }, 400, "invalid"],
    [{ image: "no-such" }, 400, "invalid"],
    [{ nodeName: "Not a name" }, 400, "invalid"],
    [{ colour: "blue" }, 400, "invalid"],
  ])("refuses %j with %d %s", async (more, code, word) => {
    expect(await order("n-1", more)).toMatchObject({ code, body: { error: { code: word } } });
    expect(cloud.list()).toEqual([]);
  });

  describe("with faults", () => {
    it("has no capacity of a type, of spot, or in a zone, and names it", async () => {
      await cloud.inject(
        { id: "zone", match: { zones: ["zone-a"], spot: true }, fault: { do: "no-capacity" } },
        { id: "type", match: { instanceTypes: ["large"] }, fault: { do: "no-capacity" } },
      );
      expect(await order("n-1", { spot: true, zone: "zone-a" })).toMatchObject({
        code: 409,
        body: { error: { code: "no-capacity", zone: "zone-a" } },
      });
      expect((await order("n-2", { spot: true })).body).toMatchObject({ zone: "zone-b" });
      expect((await order("n-3", { zone: "zone-a" })).code).toBe(201);
      const large = await order("n-4", { instanceType: "large" });
      expect(large).toMatchObject({ code: 409, body: { error: { code: "no-capacity" } } });
      expect(large.body["error"]).not.toHaveProperty("zone");
    });

    it("answers with a rate limit, an error, or nothing at all, as often as its rules require", async () => {
      const remote = makeRemoteMachineControls(cloud.control);
      await remote.inject({
        id: "limit",
        match: { calls: ["list"] },
        fault: { do: "answer", code: 429, retryAfterSeconds: 3 },
        times: 1,
      });
      const limited = await ask("GET", "instances");
      expect([limited.code, limited.headers.get("retry-after")]).toEqual([429, "3"]);
      expect((await ask("GET", "instances")).code).toBe(200);
      await remote.inject({ id: "lost", match: { calls: ["create"] }, fault: { do: "lose-answer" }, times: 1 });
      await expect(order("n-1")).rejects.toThrow();
      expect((await order("n-1")).code).toBe(200);
      const counted = await remote.counters();
      expect(counted).toMatchObject({ launched: 1, rules: [{ injected: 1 }, { id: "lost", injected: 1 }] });
      expect((await remote.remove()).rules).toEqual([]);
    });

    it("lets a boot fail, with or without a report", async () => {
      await cloud.inject(
        { id: "reported", match: { nodeNames: ["n-1"] }, fault: { do: "boot-failure", message: "no disk" } },
        { id: "silent", match: { nodeNames: ["n-2"] }, fault: { do: "boot-failure" } },
      );
      await order("n-1");
      await order("n-2");
      expect(listed("n-1")).not.toHaveProperty("failure");
      aheadMs += BOOT_MS;
      await until("both are on", () => cloud.list().every(({ state }) => state === "running"));
      expect(listed("n-1")).toMatchObject({ failure: "no disk" });
      expect(listed("n-2")).not.toHaveProperty("failure");
      expect(cloud.list().map((machine) => machine.kubernetesNode)).toEqual([undefined, undefined]);
    });

    it("removes a spot machine after a notice", async () => {
      await running("n-1", { spot: true });
      await cloud.loseSpot("n-1", 60_000);
      expect(listed("n-1")?.lostAtMs).toBeGreaterThan(Date.now() + aheadMs);
      aheadMs += 60_000;
      await gone("n-1");
    });

    it("removes no on-demand machine", async () => {
      await running("n-1");
      const refused = await cloud.loseSpot("n-1", 60_000).catch((error: unknown) => error);
      expect(String(refused)).toMatch(/n-1 is an on-demand machine/);
      expect(listed("n-1")).not.toHaveProperty("lostAtMs");
    });

    it("lets a machine vanish without a notice: its node is still shown as ready", async () => {
      await running("n-1");
      await cloud.vanish("n-1");
      await gone("n-1");
      expect(readyOf(await nodes.readNode({ name: "n-1" }))).toBe("True");
    });

    // Simulated machines have no processes.
    const ways = simulated ? [] : (["vanish", "end"] as const);
    it.each(ways)("leaves no process of a machine at its %s", async (way) => {
      const id = await running("n-1");
      const command = ["sh", "-c", "trap '' TERM; while :; do sleep 1; done"];
      const containers = [{ name: "main", image: "none", command }];
      const spec = { nodeName: "n-1", containers };
      await nodes.createNamespacedPod({ namespace: "default", body: { metadata: { name: "p" }, spec } });
      const records = join(listPoolMachines(directory), "nodes/n-1/processes");
      const pids = await until("the pod runs", async () => {
        const found = (await readdir(records).catch(() => [])).map(Number);
        return found.length > 0 && found;
      });
      if (way === "vanish") await cloud.vanish("n-1");
      else await ask("DELETE", `instances/${id}`);
      aheadMs += END_MS;
      await gone("n-1");
      for (const pid of pids) expect(() => process.kill(pid, 0)).toThrow("ESRCH");
      expect(await readdir(join(listPoolMachines(directory), "nodes"))).toEqual([]);
    });

    it("loses a machine a fixed time after it has joined", async () => {
      await cloud.inject(
        {
          id: "spot",
          match: { nodeNames: ["n-1"] },
          fault: { do: "spot-loss", afterMs: 10 * BOOT_MS, noticeMs: 5 * BOOT_MS },
        },
        { id: "vanish", match: { nodeNames: ["n-2"] }, fault: { do: "vanish", afterMs: 10 * BOOT_MS } },
      );
      await running("n-1", { spot: true });
      await running("n-2");
      expect(listed("n-1")).not.toHaveProperty("lostAtMs");
      aheadMs += 10 * BOOT_MS;
      expect(listed("n-1")).toHaveProperty("lostAtMs");
      await gone("n-2");
      aheadMs += 5 * BOOT_MS;
      await gone("n-1");
    });

    it("keeps a zombie after an order to end until the next order", async () => {
      await cloud.inject({ id: "zombie", match: {}, fault: { do: "zombie", orders: 2 } });
      const id = await running("n-1");
      for (let orders = 1; orders <= 2; orders++) {
        expect((await ask("DELETE", `instances/${id}`)).body).toMatchObject({ state: "running" });
      }
      expect((await ask("DELETE", `instances/${id}`)).body).toMatchObject({ state: "stopping" });
      aheadMs += END_MS;
      await gone("n-1");
    });

    it("lets a machine join under two names", async () => {
      await cloud.inject({ id: "twin", match: {}, fault: { do: "twin" } });
      await running("n-1");
      await joined("n-1-twin");
      expect(cloud.list()).toHaveLength(1);
      await ask("DELETE", `instances/${listed("n-1")?.instanceId ?? ""}`);
      aheadMs += END_MS;
      await gone("n-1");
      expect(readyOf(await nodes.readNode({ name: "n-1-twin" }))).toBe("False");
    });
  });
});

it("leaves nothing running once the leftovers of a killed cluster and its cloud are ended", async () => {
  const directory = await mkdtemp(join(tmpdir(), "muster-machines-"));
  const file = join(directory, "machines.yaml");
  await writeFile(file, "types: [{ name: small, cpu: 4, memory: 8Gi }]\nbootMs: 0\n");
  const entry = join(import.meta.dirname, "../src/main.ts");
  const args = [entry, "--directory", directory, "--pools", "fixed=1", "--machines", file];
  const child = spawn(process.execPath, args, { stdio: ["pipe", "pipe", "inherit"] });
  try {
    const [line] = (await once(createInterface({ input: child.stdout }), "line")) as [string];
    const { kubeconfig, machines } = JSON.parse(line) as {
      kubeconfig: string;
      machines: { url: string; tokenFile: string };
    };
    const token = await readFile(machines.tokenFile, "utf8");
    await fetch(`${machines.url}/v1/instances`, {
      method: "POST",
      headers: { authorization: `Bearer ${token}` },
      body: JSON.stringify({ nodeName: "n-1", owner: "tests", instanceType: "small" }),
    });
    const api = makeKubeClient(loadKube(kubeconfig), CoreV1Api, { timeoutMs: 60_000 });
    const containers = [{ name: "main", image: "none", command: ["sleep", "1000"] }];
    const pod = { metadata: { name: "p" }, spec: { nodeName: "n-1", containers } };
    await api.createNamespacedPod({ namespace: "default", body: pod });
    const nodes = machineNodesOf(listPoolMachines(directory));
    const pids = await until("the pod runs", async () => {
      const found = await readdir(join(nodes, "n-1/processes")).catch(() => []);
      return found.length > 0 && found.map(Number);
    });
    child.kill("SIGKILL");
    await once(child, "exit");
    for (const pid of pids) expect(process.kill(pid, 0)).toBe(true);
    await endLeftovers(nodes);
    for (const pid of pids) await until("its process is gone", () => !existsSync(`/proc/${pid}`));
  } finally {
    child.kill("SIGKILL");
    await rm(directory, { recursive: true, force: true });
  }
});

const assets = findKubeAssets();
it.skipIf(!assets.found)("creates and removes nodes of a real kube-apiserver, too", async () => {
  const directory = await mkdtemp(join(tmpdir(), "muster-machines-"));
  try {
    await using server = await startKubeApiServer();
    const kubeconfig = loadKube(server.kubeconfig);
    const api = makeKubeClient(kubeconfig, CoreV1Api, { timeoutMs: 60_000 });
    const nodes = makeKubeletNodes(machineNodesOf(directory), { kubeconfig, stopGraceMs: 100 });
    await using cloud = await startMachines({ directory, nodes, types: TYPES, bootMs: { from: 0, to: 0 }, endMs: 0 });
    const headers = { authorization: `Bearer ${cloud.control.token}` };
    const body = JSON.stringify({ nodeName: "n-1", owner: "tests", instanceType: "small", labels: { pool: "e" } });
    await fetch(`${cloud.url}/v1/instances`, { method: "POST", headers, body });
    const ready = async () => {
      const { items } = await api.listNode({ labelSelector: "pool=e" });
      return items[0]?.status?.conditions?.find(({ type }) => type === "Ready")?.status;
    };
    await until("the node is ready", async () => (await ready()) === "True");
    await until("the cloud knows", () => cloud.list()[0]?.state === "running");
    await fetch(`${cloud.url}/v1/instances/${cloud.list()[0]?.instanceId ?? ""}`, { method: "DELETE", headers });
    await until("the machine is gone", () => cloud.list().length === 0);
    expect(await ready()).toBe("False");
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
});
