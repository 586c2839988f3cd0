import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connectNats, type NatsBus } from "@muster/bus";
import { type ApiServer, type FaultyApi, startApiServer, startFaultyApi } from "@muster/devcluster";
import { bucketKeys, buckets } from "@muster/proto";
import { type Bucket, openBucket } from "@muster/store";
import { startTestNats, type TestNats, until } from "@muster/testkit";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { nodeCodec, podCodec } from "../src/adapters/messages.ts";
import type { NodeState } from "../src/domain/node-state.ts";
import type { PodState } from "../src/domain/pod-state.ts";
import { type Gate, openGate } from "./gate.ts";
import { startWatcherProcess, type WatcherProcess } from "./watcher-process.ts";
import { actors } from "./world.ts";

// The watchers are separate processes, killed and suspended externally. The configuration shortens a minute to a few seconds.
const OLD_AFTER_MS = 1_000;
/** Interval of the fake API server's bookmarks: without other events they alone keep a view fresh. */
const BOOKMARK_EVERY_MS = 200;
const QUICK = { WATCHER_AGE_LIMIT_MS: String(OLD_AFTER_MS) };

let stack: AsyncDisposableStack;
let nats: TestNats;
let bus: NatsBus;
let directory: string;
let api: ApiServer;
let act: ReturnType<typeof actors>;
let pods: Bucket<PodState>;
let nodes: Bucket<NodeState>;

beforeEach(async () => {
  stack = new AsyncDisposableStack();
  directory = await mkdtemp(join(tmpdir(), "muster-watcher-"));
  stack.defer(() => rm(directory, { recursive: true, force: true }));
  [nats, api] = await Promise.all([startTestNats(), startApi()]);
  stack.use(nats);
  stack.defer(() => api[Symbol.asyncDispose]());
  bus = stack.use(await connectNats({ url: nats.url, token: nats.token, name: "test" }));
  pods = await openBucket(bus.connection, { name: buckets.pods, codec: podCodec });
  nodes = await openBucket(bus.connection, { name: buckets.nodes, codec: nodeCodec });
  act = actors(api.kubeconfig);
});
afterEach(() => stack.disposeAsync());

/** On the same port it is the same server again: its state is on disk. */
function startApi(port = 0): Promise<ApiServer> {
  return startApiServer({ directory, persist: true, port, watchLimits: { bookmarkEveryMs: BOOKMARK_EVERY_MS } });
}

function startWatcher(
  options: { readonly gate?: Gate; readonly kubeconfig?: string; readonly env?: Readonly<Record<string, string>> } = {},
): WatcherProcess {
  const natsUrl = options.gate === undefined ? nats.url : `nats://127.0.0.1:${options.gate.port}`;
  const world = { natsUrl, token: nats.token, kubeconfig: options.kubeconfig ?? api.kubeconfig };
  return stack.use(startWatcherProcess(world, options.env));
}

const gate = async (): Promise<Gate> => stack.use(await openGate(Number(new URL(nats.url).port)));

const stateOf = async (pod: string): Promise<PodState | undefined> => (await pods.get(`session.s.${pod}`))?.value;
const awaitHealth = (pod: string, health: PodState["health"]): Promise<unknown> =>
  until(`${pod} is ${health}`, async () => (await stateOf(pod))?.health === health);
const awaitDeleted = (pod: string): Promise<unknown> =>
  until(`${pod} is published as gone`, async () => (await stateOf(pod))?.deleted === true);

/** Records every published state of the pods, in order, until the test ends. */
function record(): readonly PodState[] {
  const stop = new AbortController();
  const states: PodState[] = [];
  const read = async (): Promise<void> => {
    for await (const change of pods.watch({ filter: "session.s.>", signal: stop.signal })) {
      if (change.kind === "put") states.push(change.entry.value);
    }
  };
  const done = read().catch(() => undefined);
  stack.defer(async () => {
    stop.abort();
    await done;
  });
  return states;
}

/** The published states of a pod, reduced to its health. */
const storyOf = (states: readonly PodState[], pod: string): string[] =>
  states
    .filter((state) => state.pod === pod)
    .map(({ health, deleted }) => `${health}${deleted ? " deleted" : ""}`)
    .filter((line, index, all) => line !== all[index - 1]);

/** The bucket keeps only the last state, so a recorder that lags misses earlier ones. */
const heard = (states: readonly PodState[], pod: string, line: string): Promise<unknown> =>
  until(`the recorder has heard ${line} of ${pod}`, () => storyOf(states, pod).at(-1) === line);

describe("a watcher", () => {
  it("with NATS unavailable for a minute is not ready, and publishes everything afterwards", async () => {
    const watcher = startWatcher({ env: QUICK });
    await act.createPod("stays", "s", "n");
    await act.run("stays");
    await act.createPod("goes", "s", "n");
    await awaitHealth("stays", "READY");
    await nats.kill();
    await until("it is not ready", async () => (await watcher.http("/readyz")).status === 503);
    await act.end("stays", 3);
    await act.deletePod("goes");
    await act.createPod("comes", "s", "n");
    await nats.start();
    await awaitHealth("stays", "FAILED");
    await awaitDeleted("goes");
    await awaitHealth("comes", "NOT_READY");
    await until("it is ready", async () => (await watcher.http("/readyz")).ok);
    expect(watcher.exitCode()).toBeUndefined();
  });

  it("with the API server unavailable for a minute publishes nothing meanwhile, and everything afterwards, without any watch history", async () => {
    const watcher = startWatcher({ env: QUICK });
    const states = record();
    for (const name of ["stays", "goes"]) {
      await act.createPod(name, "s", "n");
      await act.run(name);
      await awaitHealth(name, "READY");
    }
    const before = states.length;
    const { port } = api;
    await api[Symbol.asyncDispose]();
    await until("it is not ready", async () => (await watcher.http("/readyz")).status === 503);
    expect(states).toHaveLength(before);
    api = await startApi(port);
    await act.deletePod("goes");
    api.expireHistory();
    api.closeWatches();
    await act.end("stays", 0);
    await awaitDeleted("goes");
    await awaitHealth("stays", "SUCCEEDED");
    await until("it is ready", async () => (await watcher.http("/readyz")).ok);
    expect(storyOf(states, "stays").at(-1)).toBe("SUCCEEDED");
    expect(watcher.exitCode()).toBeUndefined();
  });
});

describe("kill -9", () => {
  it("in the first list leaves published states unchanged, and the next watcher publishes the differences", async () => {
    const first = startWatcher();
    for (const name of ["there", "gone"]) {
      await act.createPod(name, "s", "n");
      await act.run(name);
      await awaitHealth(name, "READY");
    }
    await first.signal("SIGKILL");
    await act.deletePod("gone");
    const states = record();
    await until("the recorder has the published states", () => states.length === 2);

    const faulty: FaultyApi = stack.use(
      await startFaultyApi({ kubeconfig: api.kubeconfig, directory: join(directory, "faulty"), seed: 1 }),
    );
    await faulty.inject({ match: { verbs: ["list"], resources: ["pods"] }, fault: { do: "delay", ms: 600_000 } });
    const second = startWatcher({ kubeconfig: faulty.kubeconfig });
    await until("it lists", async () => (await faulty.counters()).rules.some(({ injected }) => injected > 0));
    expect((await second.http("/readyz")).status).toBe(503);
    await second.signal("SIGKILL");
    expect(states).toHaveLength(2);

    startWatcher();
    await awaitDeleted("gone");
    expect(storyOf(states, "there")).toEqual(["READY"]);
  });

  it("between a change and its write loses nothing: the next watcher publishes it", async () => {
    const held = await gate();
    const first = startWatcher({ gate: held });
    const states = record();
    await act.createPod("p", "s", "n");
    await act.run("p");
    await heard(states, "p", "READY");
    held.holdAt("session.s.p");
    await act.end("p", 3);
    await until("the write is on its way", () => held.isHolding());
    await first.signal("SIGKILL");
    expect(await stateOf("p")).toMatchObject({ health: "READY" });

    startWatcher();
    await awaitHealth("p", "FAILED");
    await heard(states, "p", "FAILED");
    await act.deletePod("p");
    await awaitDeleted("p");
    await until("the recorder has heard it", () => states.at(-1)?.deleted === true);
    expect(storyOf(states, "p").slice(-3)).toEqual(["READY", "FAILED", "FAILED deleted"]);
  });

  it("before the mark of completeness leaves no mark, and the next watcher sets it after all nodes", async () => {
    const names = ["n-0", "n-1", "n-2"];
    for (const name of names) await act.createNode(name);
    const held = await gate();
    held.holdAt(`$KV.${buckets.nodes}.${bucketKeys.nodesComplete}`);
    const first = startWatcher({ gate: held });
    await until("the mark is on its way", () => held.isHolding());
    await first.signal("SIGKILL");
    const keys = async (): Promise<string[]> => (await nodes.list()).map(({ key }) => key);
    expect(await keys()).not.toContain(bucketKeys.nodesComplete);

    await act.createNode("n-3");
    startWatcher();
    await until("the mark is there", async () => (await keys()).includes(bucketKeys.nodesComplete));
    const entries = await nodes.list();
    const mark = entries.find(({ key }) => key === bucketKeys.nodesComplete);
    for (const name of [...names, "n-3"]) {
      expect(entries.find(({ key }) => key === name)?.revision).toBeLessThan(mark?.revision ?? 0);
    }
  });
});

describe("a watcher that is suspended while another continues", () => {
  it("and resumed with an old write in flight reverts no state", async () => {
    const held = await gate();
    const first = startWatcher({ gate: held, env: QUICK });
    const states = record();
    await act.createPod("p", "s", "n");
    await heard(states, "p", "NOT_READY");
    held.holdAt("session.s.p");
    await act.run("p");
    await until("its write is on its way", () => held.isHolding());
    await first.signal("SIGSTOP");

    const second = startWatcher({ env: QUICK });
    await heard(states, "p", "READY");
    await act.end("p", 3);
    await heard(states, "p", "FAILED");
    await act.deletePod("p");
    await heard(states, "p", "FAILED deleted");
    const uid = (await stateOf("p"))?.uid;
    await act.createPod("p", "s", "n");
    await until("the next pod of that name is published", async () => {
      const state = await stateOf("p");
      return state !== undefined && state.uid !== uid;
    });
    await heard(states, "p", "NOT_READY");

    held.release();
    await first.signal("SIGCONT");
    await second.signal("SIGTERM");
    await until("the first sees again", async () => (await first.http("/readyz")).ok);
    await act.run("p");
    await awaitHealth("p", "READY");
    await until("the recorder has heard it", () => states.at(-1)?.health === "READY");
    expect(storyOf(states, "p")).toEqual(["NOT_READY", "READY", "FAILED", "FAILED deleted", "NOT_READY", "READY"]);
    const versions = states.map(({ resourceVersion }) => resourceVersion);
    expect(versions).toEqual([...versions].sort((one, other) => one - other));
    expect(first.exitCode()).toBeUndefined();
  });
});

describe("a pool", () => {
  it("may be named by any label: nodes are published with all their labels", async () => {
    await act.createNode("n");
    startWatcher();
    await until("the node is published", async () => (await nodes.get("n")) !== undefined);
    await act.labelNode("n", { "example.com/machine-kind": "large" });
    await until("its other label is published", async () => {
      const labels = (await nodes.get("n"))?.value.labels ?? {};
      return labels["example.com/machine-kind"] === "large" && labels["pool"] === "drivers";
    });
  });
});
