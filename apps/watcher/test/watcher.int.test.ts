import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import type { V1ObjectMeta } from "@kubernetes/client-node";
import { makeClient, connectNats, type NatsBus } from "@muster/bus";
import { loadKube } from "@muster/kube";
import { bucketKeys, buckets, labels, WatchService } from "@muster/proto";
import { openBucket, type Bucket } from "@muster/store";
import { startApiServer } from "@muster/devcluster";
import { startKubeApiServer, findKubeAssets, startTestNats, until, type TestNats } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openWatcher } from "../src/adapters/deps.ts";
import { nodeCodec, podCodec } from "../src/adapters/messages.ts";
import { readConfig, type Config } from "../src/config.ts";
import type { NodeState } from "../src/domain/node-state.ts";
import { NO_USES } from "../src/domain/node-use.ts";
import type { PodState } from "../src/domain/pod-state.ts";
import { keepPublished } from "../src/keep-published.ts";
import { startWatcherProcess } from "./watcher-process.ts";
import { actors, buildConfigBehind, openProxy, silent } from "./world.ts";

/** The cluster of a suite. */
type Cluster = AsyncDisposable & { readonly url: string; readonly kubeconfig: string };

const assets = findKubeAssets();
const clusters: readonly { readonly name: string; readonly skip: boolean; readonly start: () => Promise<Cluster> }[] = [
  { name: "the embedded API server", skip: false, start: embedded },
  {
    name: assets.found ? "kube-apiserver" : `kube-apiserver (skipped: ${assets.reason})`,
    skip: !assets.found,
    start: startKubeApiServer,
  },
];

async function embedded(): Promise<Cluster> {
  const directory = await mkdtemp(join(tmpdir(), "muster-watcher-"));
  const server = await startApiServer({ directory });
  return {
    url: server.url,
    kubeconfig: server.kubeconfig,
    [Symbol.asyncDispose]: async () => {
      await server[Symbol.asyncDispose]();
      await rm(directory, { recursive: true, force: true });
    },
  };
}

describe.each(clusters)("the watcher on $name", ({ skip, start: startCluster }) => {
  if (skip) {
    it.skip("needs kube-apiserver and etcd in KUBEBUILDER_ASSETS");
    return;
  }
  let nats: TestNats;
  let api: Cluster;
  let bus: NatsBus;
  let pods: Bucket<PodState>;
  let nodes: Bucket<NodeState>;
  let config: Config;

  beforeAll(async () => {
    [nats, api] = await Promise.all([startTestNats(), startCluster()]);
    bus = await connectNats({ url: nats.url, token: nats.token, name: "test" });
    pods = await openBucket(bus.connection, { name: buckets.pods, codec: podCodec });
    nodes = await openBucket(bus.connection, { name: buckets.nodes, codec: nodeCodec });
    config = readConfig({});
  });
  afterAll(async () => {
    await bus[Symbol.asyncDispose]();
    await Promise.all([nats[Symbol.asyncDispose](), api[Symbol.asyncDispose]()]);
  });

  /** One replica with a connection of its own; disposing stops it in good order. */
  async function replica(options: { readonly port?: number; readonly policy?: Partial<Config["policy"]> } = {}) {
    const kube =
      options.port === undefined ? loadKube(api.kubeconfig) : buildConfigBehind(api.kubeconfig, options.port);
    const own = await connectNats({ url: nats.url, token: nats.token, name: "watcher" });
    const watcher = await openWatcher(config, { kube, bus: own, logger: silent });
    const stop = new AbortController();
    const done = keepPublished(watcher.deps, { ...config.policy, ...options.policy }, stop.signal);
    return {
      watcher,
      [Symbol.asyncDispose]: async () => {
        stop.abort();
        await done;
        await watcher[Symbol.asyncDispose]();
        await own[Symbol.asyncDispose]();
      },
    };
  }

  const stateOf = async (owner: string, pod: string) => (await pods.get(`session.${owner}.${pod}`))?.value;

  /** Every published state of an owner's pods, in order. */
  function record(owner: string): { readonly states: PodState[] } & AsyncDisposable {
    const stop = new AbortController();
    const states: PodState[] = [];
    const done = (async () => {
      for await (const change of pods.watch({ filter: `session.${owner}.>`, signal: stop.signal })) {
        if (change.kind === "put") states.push(change.entry.value);
      }
    })();
    return {
      states,
      [Symbol.asyncDispose]: async () => {
        stop.abort();
        await done.catch(() => undefined);
      },
    };
  }

  it("shows the present state to a late reader", async () => {
    const act = actors(api.kubeconfig);
    await using _one = await replica();
    await act.createPod("late-0", "late", "somewhere");
    await act.run("late-0");
    await until("the pod is ready", async () => (await stateOf("late", "late-0"))?.health === "READY");

    const [entry] = await pods.list("session.late.*");
    expect(entry?.value).toMatchObject({
      owner: { kind: "session", id: "late" },
      component: "server",
      namespace: "default",
      pod: "late-0",
      podIp: "10.0.0.9",
      node: "somewhere",
      health: "READY",
      deleted: false,
    });
    expect(entry?.value.uid).not.toBe("");
    expect(entry?.value.resourceVersion).toBeGreaterThan(0);
  });

  it("publishes each state once, however many replicas there are", async () => {
    const act = actors(api.kubeconfig);
    await using recorded = record("twice");
    await using _one = await replica();
    await using _two = await replica();
    await act.createPod("twice-0", "twice", "somewhere");
    // The bucket keeps the last state alone, so that a recorder which is behind misses those before it.
    const heard = (health: PodState["health"]): Promise<unknown> =>
      until(`${health} is recorded`, () => recorded.states.at(-1)?.health === health);
    await heard("NOT_READY");
    await act.run("twice-0");
    await heard("READY");
    await act.end("twice-0", 3);
    await heard("FAILED");
    await act.deletePod("twice-0");
    await until("the recorder has heard it", () => recorded.states.at(-1)?.deleted === true);
    const lines = recorded.states.map(({ health, deleting, deleted }) => `${health} ${deleting} ${deleted}`);
    expect(lines).toEqual([...new Set(lines)]);
    expect(new Set(recorded.states.map(({ health, reason, exitCode }) => `${health} ${reason} ${exitCode}`))).toEqual(
      new Set(["NOT_READY Pending undefined", "READY  undefined", "FAILED Error 3"]),
    );
    const versions = recorded.states.map(({ resourceVersion }) => resourceVersion);
    expect(versions).toEqual([...versions].sort((one, other) => one - other));
  });

  it("loses nothing when its watches are cut and the API server is unreachable for a while", async () => {
    const act = actors(api.kubeconfig);
    await using proxy = await openProxy(Number(new URL(api.url).port));
    await using _one = await replica({ port: proxy.port });
    await act.createPod("cut-0", "cut", "somewhere");
    await act.createPod("cut-1", "cut", "somewhere");
    await until("both are known", async () => (await pods.list("session.cut.*")).length === 2);

    proxy.refuse(true);
    proxy.cut();
    await act.run("cut-0");
    await act.end("cut-0", 0);
    await act.deletePod("cut-0");
    await act.run("cut-1");
    await act.createPod("cut-2", "cut");
    proxy.refuse(false);

    await until("the deletion is published", async () => (await stateOf("cut", "cut-0"))?.deleted === true);
    await until("the change is published", async () => (await stateOf("cut", "cut-1"))?.health === "READY");
    await until("the new pod is published", async () => (await stateOf("cut", "cut-2")) !== undefined);
  });

  it("publishes what was missed while no replica ran, deletions included", async () => {
    const act = actors(api.kubeconfig);
    await act.createPod("gap-0", "gap", "somewhere");
    await act.createPod("gap-1", "gap", "somewhere");
    {
      await using _one = await replica();
      await act.end("gap-1", 0);
      await until("it succeeded", async () => (await stateOf("gap", "gap-1"))?.health === "SUCCEEDED");
      await until("the other is known", async () => (await stateOf("gap", "gap-0")) !== undefined);
    }
    await act.deletePod("gap-0");
    await act.deletePod("gap-1");

    await using _two = await replica();
    await until("the first is gone", async () => (await stateOf("gap", "gap-0"))?.deleted === true);
    await until("the second is gone", async () => (await stateOf("gap", "gap-1"))?.deleted === true);
    expect(await stateOf("gap", "gap-0")).toMatchObject({ health: "FAILED", reason: "Deleted" });
    expect(await stateOf("gap", "gap-1")).toMatchObject({ health: "SUCCEEDED", exitCode: 0 });
  });

  it("publishes what happened while NATS was unavailable", async () => {
    const act = actors(api.kubeconfig);
    await using _one = await replica();
    await act.createPod("away-0", "away", "somewhere");
    await until("it is known", async () => (await stateOf("away", "away-0")) !== undefined);
    await nats.kill();
    await act.end("away-0", 0);
    await act.deletePod("away-0");
    await act.createPod("away-1", "away");
    await act.createPod("away-2", "away", "somewhere");
    await act.end("away-2", 0);
    await act.deletePod("away-2");
    await nats.start();
    await until("the deletion is published", async () => (await stateOf("away", "away-0"))?.deleted === true);
    await until("the new pod is published", async () => (await stateOf("away", "away-1")) !== undefined);
    await until(
      "the one that came and went is published",
      async () => (await stateOf("away", "away-2"))?.deleted === true,
    );
    for (const pod of ["away-0", "away-2"]) {
      expect(await stateOf("away", pod)).toMatchObject({ health: "SUCCEEDED", exitCode: 0 });
    }
  });

  it("forgets removed objects after their retention", async () => {
    const act = actors(api.kubeconfig);
    await act.createPod("gone-0", "gone");
    await using _one = await replica({ policy: { keepDeletedMs: 0 } });
    await until("it is known", async () => (await stateOf("gone", "gone-0")) !== undefined);
    await act.deletePod("gone-0");
    await until("it is forgotten", async () => (await pods.list("session.gone.*")).length === 0);
  });

  it("runs a pass by itself when the start grace ends", async () => {
    const act = actors(api.kubeconfig);
    await act.createPod("grace-0", "grace");
    await using _one = await replica({ policy: { startGraceMs: 3000 } });
    await act.waitInVain("grace-0", "ImagePullBackOff");
    await until("it has failed", async () => (await stateOf("grace", "grace-0"))?.health === "FAILED");
    expect(await stateOf("grace", "grace-0")).toMatchObject({ reason: "ImagePullBackOff" });
  });

  it("publishes a node and its occupants after a change, and not for heartbeats", async () => {
    const act = actors(api.kubeconfig);
    const states: NodeState[] = [];
    const stop = new AbortController();
    const recording = (async () => {
      for await (const change of nodes.watch({ filter: "node-1", signal: stop.signal })) {
        if (change.kind === "put") states.push(change.entry.value);
      }
    })();
    await using _one = await replica();
    await using _two = await replica();
    await act.createNode("node-1");
    await until("it is known", () => states.length > 0);
    await act.untaint("node-1");
    await act.nodeReady("node-1", "True", "2026-01-01T00:00:00Z");
    await act.nodeReady("node-1", "True", "2026-01-01T00:00:10Z");
    await act.createPod("occupant-0", "occupant", "node-1");
    // Pods and nodes are watched apart, so that either may be seen first.
    await until("it is ready and occupied", () => {
      const { ready, schedulable, occupants } = states.at(-1) ?? {};
      return ready === true && schedulable === true && occupants?.length === 1;
    });
    await act.end("occupant-0", 0);
    await until("it is free", () => states.at(-1)?.occupants.length === 0);
    await act.cordon("node-1");
    await until("it is cordoned", () => states.at(-1)?.schedulable === false);
    await act.deleteNode("node-1");
    await until("it is gone", () => states.at(-1)?.deleted === true);
    stop.abort();
    await recording.catch(() => undefined);

    const lines = states.map(({ ready, schedulable, occupants, deleted }) => ({
      ready,
      schedulable,
      occupants: occupants.map(({ id }) => id),
      deleted,
    }));
    const text = lines.map((line) => JSON.stringify(line));
    expect(text).toEqual(text.filter((line, index) => line !== text[index - 1]));
    expect(lines).toContainEqual({ ready: true, schedulable: true, occupants: ["occupant"], deleted: false });
    expect(lines.at(-1)).toEqual({ ready: false, schedulable: false, occupants: [], deleted: true });
  });

  it("publishes a node's allocatable amounts and uses, until both are gone", async () => {
    const act = actors(api.kubeconfig);
    const daemon = { apiVersion: "apps/v1", kind: "DaemonSet", name: "agent", uid: "agent-uid", controller: true };
    const shared = { [labels.ownerKind]: "job", [labels.owner]: "shared" };
    const pods: readonly (readonly [string, V1ObjectMeta])[] = [
      ["default", { name: "use-foreign" }],
      ["default", { name: "use-terminating" }],
      ["default", { name: "use-finished" }],
      ["default", { name: "use-daemon", ownerReferences: [daemon] }],
      ["default", { name: "use-mirror", annotations: { "kubernetes.io/config.mirror": "hash" } }],
      ["kube-system", { name: "use-system" }],
      ["default", { name: "use-shared", labels: shared }],
    ];
    await using _one = await replica();
    await using _two = await replica();
    await act.createNode("used");
    await act.setAllocatable("used", { cpu: "3920m", memory: "2Gi", pods: "110" });
    for (const [namespace, metadata] of pods) await act.createRequestingPod(namespace, metadata, "used");
    await act.end("use-finished", 0);
    await act.deleteWithGrace("use-terminating", "default");

    const state = async () => (await nodes.get("used"))?.value;
    const use = (...examples: readonly string[]) => ({
      pods: examples.length,
      requests: { cpu: 100 * examples.length },
      examples,
    });
    const expected = {
      allocatable: { cpu: 3920, memory: 2 ** 31, pods: 110 },
      occupants: [],
      overhead: use("default/use-daemon", "default/use-mirror", "kube-system/use-system"),
      foreign: use("default/use-foreign", "default/use-terminating"),
      shared: [{ owner: { kind: "job", id: "shared" }, use: use("default/use-shared") }],
    };
    await until("every pod counts in its group", async () =>
      isDeepStrictEqual({ ...(await state()), ...expected }, await state()),
    );
    expect(await state()).toMatchObject(expected);

    for (const [namespace, { name = "" }] of pods) await act.removePod(name, namespace);
    await until("no pod counts", async () => isDeepStrictEqual({ ...(await state()), ...NO_USES }, await state()));
    expect(await state()).toMatchObject({ allocatable: expected.allocatable, ...NO_USES });
    await act.deleteNode("used");
  });

  it("marks the nodes as complete after all of them, again after the bucket was lost, and never before", async () => {
    const act = actors(api.kubeconfig);
    const names = Array.from({ length: 20 }, (_, index) => `marked-${index}`);
    await Promise.all(names.map(act.createNode));
    const drop = () => bus.connection.request(`$JS.API.STREAM.DELETE.KV_${buckets.nodes}`);
    const marked = async () => {
      const entries = await nodes.list();
      const mark = entries.find(({ key }) => key === bucketKeys.nodesComplete);
      if (mark === undefined) return undefined;
      return names.filter((name) => !entries.some(({ key, revision }) => key === name && revision < mark.revision));
    };
    await drop();
    await openBucket(bus.connection, { name: buckets.nodes, codec: nodeCodec });
    await using _one = await replica();
    await using _two = await replica();
    await until("the bucket is marked", async () => (await marked()) !== undefined);
    expect(await marked()).toEqual([]);

    await drop();
    await until("the bucket is there again and marked", async () => (await marked()) !== undefined);
    expect(await marked()).toEqual([]);
    await Promise.all(names.map(act.deleteNode));
  });

  it("runs as a process: answers, reports when it is ready, and recovers after SIGKILL", async () => {
    const act = actors(api.kubeconfig);
    await act.createPod("kill-0", "kill", "somewhere");
    const start = () => startWatcherProcess({ natsUrl: nats.url, token: nats.token, kubeconfig: api.kubeconfig });
    await using first = start();
    const status = () => makeClient(bus, WatchService).getStatus({}, { timeoutMs: 1000 });
    await until("it is synced", async () => (await status()).synced);
    await until("the pod is published", async () => (await stateOf("kill", "kill-0")) !== undefined);
    await first.signal("SIGKILL");
    await act.deletePod("kill-0");

    await using second = start();
    await until("it is ready", async () => (await second.http("/readyz")).ok);
    await until("the deletion is published", async () => (await stateOf("kill", "kill-0"))?.deleted === true);
    // The watcher counts a write after its acknowledgement, and readers may see the write before that.
    const metrics = async () => (await second.http("/metrics")).text();
    await until("its writes are counted", async () => (await metrics()).includes("muster_watcher_publishes_total"));
    await second.signal("SIGTERM");
    expect(second.exitCode()).toBe(0);
  });
});
