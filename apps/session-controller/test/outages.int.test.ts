import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startFaultyApi, type FaultyApi } from "@muster/devcluster";
import { muster } from "@muster/proto";
import { until } from "@muster/testkit";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { EMBEDDED } from "./api-servers.ts";
import { openScriptedCluster, type ScriptedCluster } from "./scripted-cluster.ts";
import { slowApi } from "./slow-api.ts";
import {
  listEvents,
  waitUntilNothingLeft,
  waitUntilFinished,
  RAN,
  waitForEvent,
  openSessionWorld,
  submitSession,
  makeTrio,
  type Controller,
  type SessionWorld,
} from "./world.ts";

const POOLS = { drivers: 1, workers: 2 };
/** Longer than any test waits; each test ends its outage. */
const LONG_MS = 600_000;

describe("while NATS or the API server is unavailable", () => {
  let world: SessionWorld<ScriptedCluster>;
  let faulty: FaultyApi;
  let directory: string;
  let controller: Controller;

  beforeAll(async () => {
    const cluster = await openScriptedCluster(await EMBEDDED.start(), POOLS);
    directory = await mkdtemp(join(tmpdir(), "muster-outages-"));
    faulty = await startFaultyApi({ kubeconfig: cluster.kubeconfig, directory, seed: 1 });
    // The services reach the API server through the proxy; the pods run independently of it.
    world = await openSessionWorld({ ...cluster, kubeconfig: faulty.kubeconfig }, POOLS);
    controller = await world.startController();
  });

  afterEach(async () => {
    await faulty.comeBack();
  });

  afterAll(async () => {
    await world[Symbol.asyncDispose]();
    await faulty[Symbol.asyncDispose]();
    await rm(directory, { recursive: true, force: true });
  });

  async function session(name: string) {
    return (await world.sessions.getSession({ name })).session ?? muster.session.v1.Session.create();
  }

  async function saysWhatIsAway(name: string): Promise<void> {
    await until(`${name} names the missing dependency`, async () =>
      (await session(name)).waitingBecause.startsWith("kubernetes is not available"),
    );
  }

  /** Lets the driver succeed, which only the cluster itself observes. */
  async function endDriver(name: string): Promise<void> {
    world.cluster.ending.add(`${name}-driver`);
    await until("the driver has ended", async () => {
      const pod = await world.cluster.api.readNamespacedPod({ name: `${name}-driver`, namespace: "default" });
      return pod.status?.phase === "Succeeded";
    });
  }

  async function expectOneEnd(name: string, end: string): Promise<void> {
    expect(listEvents(await waitUntilFinished(world, name))).toEqual([...RAN, end]);
    expect(world.cluster.bound.filter((pod) => pod.startsWith(`${name}-`))).toEqual(
      ["server-0", "client-0", "driver"].map((component) => `${name}-${component}`),
    );
    await waitUntilNothingLeft(world);
  }

  it("a session that is submitted without an API server reports it, and runs when it is back", async () => {
    await faulty.goAway(LONG_MS);
    await submitSession(world, "api-provision", makeTrio("exit", "0"));
    await saysWhatIsAway("api-provision");
    await faulty.comeBack();
    await expectOneEnd("api-provision", "DONE");
  });

  it("a driver that ends without an API server is observed when it is back", async () => {
    await submitSession(world, "api-run", makeTrio("wait"));
    await waitForEvent(world, "api-run", "RUN");
    await faulty.goAway(LONG_MS);
    await endDriver("api-run");
    expect(listEvents(await session("api-run"))).toEqual(RAN);
    await faulty.comeBack();
    await expectOneEnd("api-run", "DONE");
  });

  it("a clean-up that begins without an API server reports it, and is finished when it is back", async () => {
    await submitSession(world, "api-clean-up", makeTrio("serve"));
    await waitForEvent(world, "api-clean-up", "RUN");
    await faulty.goAway(LONG_MS);
    await world.sessions.cancelSession({ requestId: "c", name: "api-clean-up" });
    await saysWhatIsAway("api-clean-up");
    await faulty.comeBack();
    await expectOneEnd("api-clean-up", "CANCELLED");
  });

  it("a controller that cannot hand its session back, because NATS is unavailable, still exits", async () => {
    await controller.stop();
    await using slow = await slowApi(world.cluster.kubeconfig);
    controller = await world.startController({ MUSTER_KUBECONFIG: slow.kubeconfig });
    let held = slow.hold("nats-hand-back-driver");
    await submitSession(world, "nats-hand-back", makeTrio("exit", "0"));
    await held.arrived;
    await controller.kill();
    held = slow.hold("nats-hand-back-driver");
    controller = await world.startController({ MUSTER_KUBECONFIG: slow.kubeconfig });
    await held.arrived;
    await world.nats.kill();
    await controller.stop();
    await world.nats.start();
    controller = await world.startController();
    await expectOneEnd("nats-hand-back", "DONE");
  });

  it("a pod created while NATS is unavailable is the session's one pod of that name when it is back", async () => {
    await controller.stop();
    await using slow = await slowApi(world.cluster.kubeconfig);
    controller = await world.startController({ MUSTER_KUBECONFIG: slow.kubeconfig });
    const held = slow.hold("nats-provision-driver");
    await submitSession(world, "nats-provision", makeTrio("exit", "0"));
    await held.arrived;
    await world.nats.kill();
    expect(await held.release()).toBe(201);
    await world.nats.start();
    await expectOneEnd("nats-provision", "DONE");
    await controller.stop();
    controller = await world.startController();
  });

  it("a driver that ends while NATS is unavailable is observed when it is back", async () => {
    await submitSession(world, "nats-run", makeTrio("wait"));
    await waitForEvent(world, "nats-run", "RUN");
    await world.nats.kill();
    await endDriver("nats-run");
    await world.nats.start();
    await expectOneEnd("nats-run", "DONE");
  });
});
