import type { V1ContainerState, V1Pod, V1PodStatus } from "@kubernetes/client-node";
import { connectNats, type NatsBus } from "@muster/bus";
import { labels } from "@muster/proto";
import { startTestNats, until, type TestNats } from "@muster/testkit";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { openWatcher } from "../src/adapters/deps.ts";
import { readConfig } from "../src/config.ts";
import { keepPublished } from "../src/keep-published.ts";
import { openPodSubscriptions } from "../src/subscriptions/pod-subscriptions.ts";
import type { PodWatchEvent } from "../src/subscriptions/pod-watch-event.ts";
import type { PodUpdate } from "../src/subscriptions/subscriber.ts";
import { startFakeApiServer, type FakeApiServer } from "./fake-api-server.ts";
import { silent } from "./world.ts";

/** The sentences of the specification, each in its own words, from the API server's HTTP to the subscriber. */
const session = { kind: "session", id: "s" };

let stack: AsyncDisposableStack;
let nats: TestNats;
let bus: NatsBus;
let api: FakeApiServer;

beforeEach(async () => {
  stack = new AsyncDisposableStack();
  nats = stack.use(await startTestNats());
  api = stack.use(await startFakeApiServer());
  bus = stack.use(await connectNats({ url: nats.url, token: nats.token, name: "test" }));
});
afterEach(() => stack.disposeAsync());

const timing = { minBackoffMs: 100, maxBackoffMs: 400 };

/** One replica of the watcher, until the test ends. */
async function startWatcher(
  options: { readonly ageLimitMs?: number; readonly startGraceMs?: number; readonly maxSilenceMs?: number } = {},
) {
  const { ageLimitMs, startGraceMs, maxSilenceMs } = options;
  const config = readConfig({});
  const own = stack.use(await connectNats({ url: nats.url, token: nats.token, name: "watcher" }));
  const watcher = stack.use(
    await openWatcher(
      { ...config, ...(ageLimitMs !== undefined && { ageLimitMs }) },
      {
        kube: api.config,
        bus: own,
        logger: silent,
        timing: { ...timing, ...(maxSilenceMs !== undefined && { maxSilenceMs }) },
      },
    ),
  );
  const stop = new AbortController();
  const policy = { ...config.policy, ...(startGraceMs !== undefined && { startGraceMs }), nodeGraceMs: 200 };
  const done = keepPublished(watcher.deps, policy, stop.signal);
  stack.defer(async () => {
    stop.abort();
    await done;
  });
  await until("the watcher has published what there is", () => watcher.notReady() === undefined);
  return watcher;
}

/** Reads all updates of the session, until the test ends. */
async function subscriber(): Promise<{ readonly states: PodUpdate[]; last(pod: string): PodWatchEvent | undefined }> {
  const subscriptions = stack.use(await openPodSubscriptions(bus.connection));
  const states: PodUpdate[] = [];
  const read = async (): Promise<void> => {
    for await (const update of subscriptions.subscribe(session)) states.push(update);
  };
  void read();
  await until("the subscriber has begun", () => states.length > 0);
  return { states, last: (pod) => events(states).findLast((event) => event.pod === pod) };
}

const events = (states: readonly PodUpdate[]): readonly PodWatchEvent[] =>
  states.flatMap((update) =>
    update.kind === "changed" ? [update.event] : update.kind === "current" ? update.pods : [],
  );

const changes = (states: readonly PodUpdate[]): string[] =>
  states.flatMap((update) => (update.kind === "changed" ? [`${update.event.health} ${update.event.deleted}`] : []));

function pod(name: string, status: V1PodStatus = {}, part: Partial<V1Pod["spec"] & V1Pod["metadata"]> = {}): V1Pod {
  const { annotations, containers = [{ name: "main" }], nodeName, initContainers, deletionTimestamp } = part;
  return {
    metadata: {
      name,
      namespace: "default",
      labels: { [labels.ownerKind]: "session", [labels.owner]: "s", [labels.component]: name },
      ...(annotations !== undefined && { annotations }),
      ...(deletionTimestamp !== undefined && { deletionTimestamp }),
    },
    spec: {
      restartPolicy: "Never",
      containers,
      ...(nodeName !== undefined && { nodeName }),
      ...(initContainers !== undefined && { initContainers }),
    },
    status,
  };
}

function container(state: V1ContainerState, more: { readonly name?: string; readonly ready?: boolean } = {}) {
  return { name: "main", image: "i", imageID: "", restartCount: 0, ready: true, state, ...more };
}

const running: V1PodStatus = { phase: "Running", podIP: "10.0.0.1", containerStatuses: [container({ running: {} })] };
const ended = (exitCode: number): V1PodStatus => ({
  phase: exitCode === 0 ? "Succeeded" : "Failed",
  containerStatuses: [container({ terminated: { exitCode } })],
});
const waiting = (reason: string): V1PodStatus => ({
  phase: "Pending",
  containerStatuses: [container({ waiting: { reason, message: "a message" } }, { ready: false })],
});

describe("watches pods and nodes for ever", () => {
  it("list + watch with bookmarks", async () => {
    await startWatcher();
    await until("both are watched", () => api.watching === 2);
    for (const resource of ["pods", "nodes"] as const) {
      const [list, watch] = api.asked.filter((asked) => asked.resource === resource);
      expect(list?.watch).toBe(false);
      expect(watch?.watch).toBe(true);
      expect(watch?.query.get("allowWatchBookmarks")).toBe("true");
    }
    api.put("nodes", { metadata: { name: "n" } });
    api.bookmark("pods");
    api.end();
    await until("both are watched again", () => api.asked.filter(({ watch }) => watch).length === 4);
    const again = api.asked.filter(({ watch, resource }) => watch && resource === "pods")[1];
    expect(Number(again?.query.get("resourceVersion"))).toBe(2);
    expect(api.asked.filter(({ watch }) => !watch)).toHaveLength(2);
  });

  it("relist on 410", async () => {
    await startWatcher();
    const { last } = await subscriber();
    api.put("pods", pod("a", running));
    await until("it is published", () => last("a")?.health === "READY");
    api.put("pods", pod("b", running));
    api.expire();
    api.delete("pods", "a", "default");
    api.cut();
    await until("the deletion is published", () => last("a")?.deleted === true);
    expect(api.asked.filter(({ watch, resource }) => !watch && resource === "pods").length).toBeGreaterThan(1);
  });

  it.each<[string, () => void, number]>([
    ["the orderly end of a watch", () => api.end(), 0],
    ["a watch that breaks", () => api.cut(), 50],
    [
      "500",
      () => {
        api.refuse(4, 500);
        api.cut();
      },
      50,
    ],
    [
      "429, as late as Retry-After says",
      () => {
        api.refuse(2, 429, { "retry-after": "1" });
        api.cut();
      },
      1000,
    ],
  ])("reconnect with back-off after any end or error: %s", async (_title, trouble, pauseMs) => {
    await startWatcher();
    const { last } = await subscriber();
    await until("both are watched", () => api.watching === 2);
    const before = api.asked.length;
    const atMs = performance.now();
    trouble();
    api.put("pods", pod("a", running));
    await until("the change is published", () => last("a")?.health === "READY");
    const times = api.asked.slice(before).flatMap(({ resource, atMs: at }) => (resource === "pods" ? [at] : []));
    expect(times.at(-1)! - atMs).toBeGreaterThanOrEqual(pauseMs);
  });

  it("a Status object instead of a pod is an error and not a crash", async () => {
    const watcher = await startWatcher();
    const { last } = await subscriber();
    await until("both are watched", () => api.watching === 2);
    api.say("pods", { type: "ADDED", object: { kind: "Status", status: "Failure", code: 500, message: "broken" } });
    api.put("pods", pod("a", running));
    await until("the change is published", () => last("a")?.health === "READY");
    expect(watcher.notReady()).toBeUndefined();
  });

  it("a silently dead watch is detected", async () => {
    await startWatcher({ maxSilenceMs: 300 });
    const { last } = await subscriber();
    await until("both are watched", () => api.watching === 2);
    api.mute();
    api.put("pods", pod("a", running));
    await until("the change is published", () => last("a")?.health === "READY");
  });

  it("an API server that is unavailable longer than the age limit is reported, nothing is published meanwhile, and everything afterwards", async () => {
    const bookmarks = setInterval(() => {
      api.bookmark("pods");
      api.bookmark("nodes");
    }, 50);
    stack.defer(() => clearInterval(bookmarks));
    const watcher = await startWatcher({ ageLimitMs: 500 });
    const { states, last } = await subscriber();
    api.put("pods", pod("a", running));
    await until("it is published", () => last("a")?.health === "READY");
    api.refuse(Infinity, 503);
    api.cut();
    api.delete("pods", "a", "default");
    await until("the watcher reports it", () => watcher.notReady()?.includes("nothing was heard of"));
    expect(changes(states).at(-1)).toBe("READY false");
    api.refuse(0, 0);
    await until("the deletion is published", () => last("a")?.deleted === true);
    await until("the watcher is ready again", () => watcher.notReady() === undefined);
  });
});

describe("a gap in the watch never loses a change of state", () => {
  it("not the end of a pod, not its deletion, not another pod of the same name", async () => {
    await startWatcher();
    const { states, last } = await subscriber();
    for (const name of ["ends", "goes", "changes"]) api.put("pods", pod(name, running));
    await until("all are published", () => ["ends", "goes", "changes"].every((name) => last(name)?.health === "READY"));
    const first = last("changes")?.uid;
    api.refuse(4, 503);
    api.cut();
    api.put("pods", pod("ends", ended(3)));
    api.delete("pods", "goes", "default");
    api.delete("pods", "changes", "default");
    api.put("pods", pod("changes", running));
    await until("the end is published", () => last("ends")?.health === "FAILED");
    await until("the deletion is published", () => last("goes")?.deleted === true);
    await until("the other pod is published", () => last("changes")?.uid !== first);
    expect(last("ends")?.exitCode).toBe(3);
    expect(states.some(({ kind }) => kind === "overflowed")).toBe(false);
  });
});

describe("publishes a PodWatchEvent", () => {
  /** The pod "a" is made, runs, succeeds and is deleted, each after the state before was published. */
  const wholeLife = async (last: (pod: string) => PodWatchEvent | undefined): Promise<void> => {
    for (const [status, health] of [
      [{}, "NOT_READY"],
      [running, "READY"],
      [ended(0), "SUCCEEDED"],
    ] as const) {
      api.put("pods", pod("a", status));
      await until(`${health} is published`, () => last("a")?.health === health);
    }
    api.delete("pods", "a", "default");
    await until("the deletion is published", () => last("a")?.deleted === true);
  };

  it("for each change of a labelled pod, and the deletion", async () => {
    await startWatcher();
    const { states, last } = await subscriber();
    api.put("pods", { metadata: { name: "x", namespace: "default" }, spec: { containers: [] } });
    await wholeLife(last);
    expect(changes(states)).toEqual(["NOT_READY false", "READY false", "SUCCEEDED false", "SUCCEEDED true"]);
    expect(last("a")).toMatchObject({
      owner: session,
      component: "a",
      pod: "a",
      health: "SUCCEEDED",
      error: undefined,
    });
    expect(last("x")).toBeUndefined();
  });

  it("two watcher replicas may run: duplicates are dropped", async () => {
    await Promise.all([startWatcher(), startWatcher()]);
    const { states, last } = await subscriber();
    await wholeLife(last);
    expect(changes(states)).toEqual(["NOT_READY false", "READY false", "SUCCEEDED false", "SUCCEEDED true"]);
  });
});

describe("a subscriber", () => {
  it("that starts late, or restarts, gets the current state of every pod of its session, then changes", async () => {
    await startWatcher();
    api.put("pods", pod("a", running));
    api.put("pods", pod("b", ended(3)));
    const { last } = await subscriber();
    await until("both are published", () => last("a")?.health === "READY" && last("b")?.health === "FAILED");
    const again = await subscriber();
    expect(again.states[0]).toMatchObject({ kind: "current", pods: [{ pod: "a" }, { pod: "b" }] });
    api.delete("pods", "a", "default");
    await until("both receive the change", () => last("a")?.deleted === true && again.last("a")?.deleted === true);
  });
});

describe("Pod -> Health", () => {
  const probed = { containers: [{ name: "main", readinessProbe: {} }] };
  const two = [{ name: "main" }, { name: "side" }];
  const unready = { phase: "Running", containerStatuses: [container({ running: {} }, { ready: false })] };

  it.each<[string, V1Pod, Partial<PodWatchEvent>]>([
    ["readiness of the container counts when it has a readiness probe", pod("p", running, probed), { health: "READY" }],
    [
      "a readiness that never comes is not ready",
      pod("p", unready, probed),
      { health: "NOT_READY", reason: "ProbeFailing" },
    ],
    ["readiness does not count without a probe", pod("p", unready), { health: "READY" }],
    [
      "a deleted pod that had not succeeded is FAILED",
      pod("p", running, { deletionTimestamp: new Date() }),
      { health: "FAILED", reason: "Deleted" },
    ],
    [
      "an evicted pod that had not succeeded is FAILED",
      pod("p", { phase: "Failed", reason: "Evicted", message: "low on memory" }),
      { health: "FAILED", error: "Evicted: low on memory" },
    ],
    [
      "init container failures are FAILED",
      pod(
        "p",
        { phase: "Pending", initContainerStatuses: [container({ terminated: { exitCode: 9 } }, { name: "init" })] },
        { initContainers: [{ name: "init" }] },
      ),
      { health: "FAILED", reason: "InitContainerError" },
    ],
    [
      "multi-container pods are judged by the first container",
      pod(
        "p",
        {
          phase: "Running",
          containerStatuses: [container({ running: {} }), container({ terminated: { exitCode: 1 } }, { name: "side" })],
        },
        { containers: two },
      ),
      { health: "READY" },
    ],
    [
      "multi-container pods are judged by the container that the annotation names",
      pod(
        "p",
        {
          phase: "Running",
          containerStatuses: [container({ running: {} }), container({ terminated: { exitCode: 1 } }, { name: "side" })],
        },
        { containers: two, annotations: { "muster.dev/main-container": "side" } },
      ),
      { health: "FAILED", exitCode: 1 },
    ],
    [
      "a config problem is UNKNOWN with a reason",
      pod("p", waiting("CreateContainerConfigError")),
      { health: "UNKNOWN", error: "CreateContainerConfigError: container main: a message" },
    ],
    [
      "an unschedulable pod is NOT_READY with a reason",
      pod("p", {
        phase: "Pending",
        conditions: [{ type: "PodScheduled", status: "False", reason: "Unschedulable", message: "0/3 nodes" }],
      }),
      { health: "NOT_READY", error: "Unschedulable: 0/3 nodes" },
    ],
  ])("%s", async (_title, object, expected) => {
    api.put("pods", object);
    await startWatcher();
    const { last } = await subscriber();
    await until("it is published", () => last("p") !== undefined);
    expect(last("p")).toMatchObject(expected);
  });

  it("an image that does not exist is UNKNOWN with a reason, and FAILED after the start grace", async () => {
    await startWatcher({ startGraceMs: 5000 });
    const { states, last } = await subscriber();
    api.put("pods", pod("p", waiting("ImagePullBackOff")));
    await until("it has failed", () => last("p")?.health === "FAILED");
    expect(events(states).map(({ health, reason }) => `${health} ${reason}`)).toEqual([
      "UNKNOWN ImagePullBackOff",
      "FAILED ImagePullBackOff",
    ]);
  });

  it("a pod that loses its node is FAILED if the node does not return", async () => {
    await startWatcher();
    const { last } = await subscriber();
    api.put("nodes", { metadata: { name: "n" } });
    api.put("pods", pod("p", running, { nodeName: "n" }));
    await until("it runs", () => last("p")?.health === "READY");
    api.delete("nodes", "n");
    await until("it has failed", () => last("p")?.health === "FAILED");
    expect(last("p")).toMatchObject({ reason: "NodeLost", deleted: false });
  });
});
