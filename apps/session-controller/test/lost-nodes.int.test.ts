import { until } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { EMBEDDED } from "./api-servers.ts";
import { openScriptedCluster, type ScriptedCluster } from "./scripted-cluster.ts";
import {
  listEvents,
  waitUntilNothingLeft,
  waitUntilFinished,
  RAN,
  makeScripted,
  openSessionWorld,
  submitSession,
  type SessionWorld,
} from "./world.ts";

const POOLS = { drivers: 2, workers: 5 };
const NAMESPACE = "default";

const pair = (...driver: string[]) => [
  makeScripted("driver", "driver", ...driver),
  makeScripted("server-0", "server", "serve"),
];
const SPEC = { killAfterMs: 1000 };

/** One executor, so that a session with machines blocks all others. */
const ONE = { SESSION_EXECUTORS: "1", SESSION_CLEANUP_LIMIT_MS: "500", SESSION_NODE_LOST_MS: "3000" };

describe("a session whose pod loses its node", () => {
  let world: SessionWorld<ScriptedCluster>;

  beforeAll(async () => {
    const cluster = await openScriptedCluster(await EMBEDDED.start(), POOLS);
    world = await openSessionWorld(cluster, POOLS, { WATCHER_NODE_GRACE_MS: "500" });
    await world.startController(ONE);
  });

  afterAll(async () => {
    await world[Symbol.asyncDispose]();
  });

  /** Returns the node of the session's server once the session runs; from then on its pod is not removed. */
  async function serverNode(name: string): Promise<string> {
    const { components } = await until(`${name} runs`, async () => {
      const { session } = await world.sessions.getSession({ name });
      return session && listEvents(session).includes("RUN") && session;
    });
    world.cluster.held.add(`${name}-server-0`);
    return components.find((component) => component.name === "server-0")?.node ?? "";
  }

  async function setReady(name: string, status: "True" | "Unknown"): Promise<void> {
    const node = await world.cluster.api.readNode({ name });
    const nowAt = new Date();
    node.status = { conditions: [{ type: "Ready", status, lastHeartbeatTime: nowAt, lastTransitionTime: nowAt }] };
    await world.cluster.api.replaceNodeStatus({ name, body: node });
  }

  async function expectLost(name: string, description: RegExp): Promise<void> {
    const session = await waitUntilFinished(world, name);
    expect(listEvents(session)).toEqual([...RAN, "ERROR"]);
    expect(session.events?.at(-1)).toMatchObject({ reason: "COMPONENT_FAILED" });
    expect(session.events?.at(-1)?.description).toMatch(description);
  }

  async function runsAfter(name: string): Promise<void> {
    await submitSession(world, name, pair("exit", "0"), SPEC);
    expect(listEvents(await waitUntilFinished(world, name))).toEqual([...RAN, "DONE"]);
    // The time limit of the clean-up ends a slow one, and the sweep completes it.
    await waitUntilNothingLeft(world);
  }

  it("because it is removed ends as an error that names the component, and releases its machines to the next one", async () => {
    await submitSession(world, "gone", pair("serve"), SPEC);
    const name = await serverNode("gone");
    await world.cluster.api.deleteNode({ name });
    await expectLost("gone", /^server server-0 failed: NodeLost: node workers-\d of the pod is gone$/);
    await runsAfter("after-gone");
  });

  it("because it is removed ends with the node and the reason that the garbage collector of pods names", async () => {
    await submitSession(world, "collected", pair("serve"), SPEC);
    const name = await serverNode("collected");
    const pod = await world.cluster.api.readNamespacedPod({ name: "collected-server-0", namespace: NAMESPACE });
    const nowAt = new Date();
    // The garbage collector writes the condition and the phase together, and then deletes the pod.
    const condition = {
      type: "DisruptionTarget",
      status: "True",
      reason: "DeletionByPodGC",
      message: "PodGC: node no longer exists",
      lastTransitionTime: nowAt,
    };
    pod.status = { ...pod.status, phase: "Failed", conditions: [...(pod.status?.conditions ?? []), condition] };
    // Freezing the watcher makes both changes appear together, however slow the test is between them.
    world.watcher.freeze();
    await world.cluster.api.deleteNode({ name });
    await world.cluster.api.replaceNamespacedPodStatus({ name: "collected-server-0", namespace: NAMESPACE, body: pod });
    world.watcher.thaw();
    const why = `DeletionByPodGC: on node ${name}: PodGC: node no longer exists`;
    await expectLost("collected", new RegExp(`^server server-0 failed: ${why}$`));
    await runsAfter("after-collected");
  });

  it("because it is silent ends once its pod is evicted, and releases its machines when the node is considered lost", async () => {
    await submitSession(world, "silent", pair("serve"), SPEC);
    const name = await serverNode("silent");
    await setReady(name, "Unknown");
    // The node life cycle does this to the pods of a silent node after a while.
    await world.cluster.api.deleteNamespacedPod({ name: "silent-server-0", namespace: NAMESPACE });
    await expectLost("silent", /^server server-0 failed/);
    await runsAfter("after-silent");
  });

  it("keeps its machines while the node answers, however long its pod takes to end", async () => {
    await submitSession(world, "slow-to-go", pair("serve"), SPEC);
    await serverNode("slow-to-go");
    await world.sessions.cancelSession({ requestId: "c", name: "slow-to-go" });
    const session = await waitUntilFinished(world, "slow-to-go");
    expect(session.warnings?.map(({ code }) => code)).toContain("PODS_NOT_GONE");
    await submitSession(world, "waits", pair("exit", "0"), SPEC);
    await until("it waits for the one executor", async () => {
      const { session: waiting } = await world.sessions.getSession({ name: "waits" });
      return waiting?.waitingBecause.startsWith("as many sessions as SESSION_EXECUTORS allows are running");
    });
    world.cluster.held.clear();
    expect(listEvents(await waitUntilFinished(world, "waits"))).toEqual([...RAN, "DONE"]);
    await waitUntilNothingLeft(world);
  });
});
