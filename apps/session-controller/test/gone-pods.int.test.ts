import { buckets, muster } from "@muster/proto";
import { openBucket, makeProtoCodec } from "@muster/store";
import { until } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { EMBEDDED } from "./api-servers.ts";
import { openScriptedCluster, type ScriptedCluster } from "./scripted-cluster.ts";
import {
  expectNothingLeft,
  waitUntilFinished,
  waitForEvent,
  makeScripted,
  openSessionWorld,
  submitSession,
  type SessionWorld,
} from "./world.ts";

const pair = () => [makeScripted("driver", "driver", "serve"), makeScripted("server-0", "server", "serve")];
const POOLS = { drivers: 1, workers: 2 };
const NAMESPACE = "default";

describe("pods whose end was not observed", () => {
  let world: SessionWorld<ScriptedCluster>;

  beforeAll(async () => {
    world = await openSessionWorld(await openScriptedCluster(await EMBEDDED.start(), POOLS), POOLS);
  });

  afterAll(async () => {
    await world[Symbol.asyncDispose]();
  });

  async function removePod(name: string): Promise<void> {
    await world.cluster.api.deleteNamespacedPod({ name, namespace: NAMESPACE, gracePeriodSeconds: 0 });
    await until(`${name} is gone`, async () => {
      const { items } = await world.cluster.api.listNamespacedPod({ namespace: NAMESPACE });
      return items.every(({ metadata }) => metadata?.name !== name);
    });
  }

  async function expectGone(name: string, component: string): Promise<void> {
    const session = await waitUntilFinished(world, name);
    expect(session.events?.at(-1)).toMatchObject({ reason: "COMPONENT_FAILED" });
    expect(session.events?.at(-1)?.description).toContain(`${component} failed: PodGone`);
    await expectNothingLeft(world);
  }

  it("ends the session if its pod was created and deleted while no watcher ran", async () => {
    const controller = await world.startController();
    await world.watcher.kill();
    await submitSession(world, "unwatched", pair());
    await until("the server runs", () => world.cluster.bound.includes("unwatched-server-0"));
    await removePod("unwatched-server-0");
    await world.watcher.start();
    await expectGone("unwatched", "server server-0");
    await controller.kill();
  });

  it("ends the session if the end of its pod was forgotten while no watcher ran", async () => {
    const first = await world.startController();
    await submitSession(world, "forgotten", pair());
    await waitForEvent(world, "forgotten", "RUN");
    await first.kill();
    await world.watcher.kill();
    await removePod("forgotten-driver");
    const codec = makeProtoCodec(muster.watch.v1.PodState);
    const states = await openBucket(world.bus.connection, { name: buckets.pods, codec });
    for (const { key, revision } of await states.list("session.forgotten.>")) await states.delete(key, revision);
    await world.watcher.start();
    const second = await world.startController();
    await expectGone("forgotten", "driver");
    await second.kill();
  });
});
