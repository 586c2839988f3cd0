import type { muster } from "@muster/proto";
import { until } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { EMBEDDED } from "./api-servers.ts";
import { openScriptedCluster, type ScriptedCluster } from "./scripted-cluster.ts";
import {
  listEvents,
  expectNothingLeft,
  waitUntilFinished,
  RAN,
  waitForEvent,
  makeScripted,
  openSessionWorld,
  readStoredRecord,
  submitSession,
  type SessionWorld,
} from "./world.ts";

const POOLS = { drivers: 3, h100: 1, a100: 2 };
const ENV = { SESSION_EXECUTORS: "0", SESSION_MACHINE_LOST_MS: "200", SESSION_REPLACEMENT_WAIT_MS: "600000" };

describe("a session that accepts several pools", () => {
  let world: SessionWorld<ScriptedCluster>;

  beforeAll(async () => {
    const cluster = await openScriptedCluster(await EMBEDDED.start(), POOLS);
    world = await openSessionWorld(cluster, POOLS);
    await world.startController(ENV);
  });

  afterAll(async () => {
    await world[Symbol.asyncDispose]();
  });

  /** Submits a driver and a server of any of the pools. */
  async function submitServer(name: string, driver: string[], pool: string, ...otherPools: string[]): Promise<void> {
    const server = { ...makeScripted("server-0", "server", "serve"), pool, otherPools };
    await submitSession(world, name, [makeScripted("driver", "driver", ...driver), server]);
  }

  async function serverOf(name: string): Promise<muster.session.v1.ComponentStatus | undefined> {
    const { session } = await readStoredRecord(world, name);
    return session?.components.find((each) => each.name === "server-0");
  }

  async function end(...names: string[]): Promise<void> {
    for (const name of names) await world.sessions.cancelSession({ requestId: `end-${name}`, name });
    for (const name of names) await waitUntilFinished(world, name);
    await expectNothingLeft(world);
  }

  it("runs in the first pool, and in the second one while the first is full", async () => {
    await submitServer("first", ["serve"], "h100", "a100");
    await waitForEvent(world, "first", "RUN");
    expect(await serverOf("first")).toMatchObject({ pool: "h100", node: "h100-0" });

    await submitServer("second", ["serve"], "h100", "a100");
    await waitForEvent(world, "second", "RUN");
    const { node } = (await serverOf("second")) ?? {};
    expect(await serverOf("second")).toMatchObject({ pool: "a100", node: expect.stringMatching(/^a100-/) as string });
    const pod = await world.cluster.api.readNamespacedPod({ namespace: "default", name: "second-server-0" });
    expect(pod.spec).toMatchObject({ nodeName: node, nodeSelector: { pool: "a100" } });
    const { session } = await world.sessions.getSession({ name: "second" });
    expect(session?.spec?.components[1]).toMatchObject({ pool: "h100", otherPools: ["a100"] });
    await end("first", "second");
  });

  it("waits for the pool that has a machine first, and explains the wait with all of its pools", async () => {
    await submitServer("h100-user", ["serve"], "h100");
    await waitForEvent(world, "h100-user", "RUN");
    for (const name of ["a100-user-0", "a100-user-1"]) {
      await submitServer(name, ["serve"], "a100");
      await waitForEvent(world, name, "RUN");
    }
    await submitServer("waiting", ["serve"], "h100", "a100");
    await until("the ledger has queued it", async () => {
      return (await readStoredRecord(world, "waiting")).reservationId !== "";
    });
    const { explanation } = await world.sessions.explainSession({ name: "waiting" });
    expect(explanation?.reasons).toMatchObject([{ code: "POOL_AVAILABILITY" }]);
    expect(explanation?.reservation?.pools.map(({ pool }) => pool)).toEqual(expect.arrayContaining(["h100", "a100"]));

    const { node: released } = (await serverOf("a100-user-1")) ?? {};
    await world.sessions.cancelSession({ requestId: "c", name: "a100-user-1" });
    await waitForEvent(world, "waiting", "RUN");
    expect(await serverOf("waiting")).toMatchObject({ pool: "a100", node: released });
    await end("h100-user", "a100-user-0", "waiting");
  });

  it("gets another machine of the granted pool in place of a lost one, though the first pool is free by then", async () => {
    await submitServer("first-user", ["serve"], "h100");
    await waitForEvent(world, "first-user", "ACCEPT");
    world.cluster.unplaced.add("unlucky-server-0");
    await submitServer("unlucky", ["exit", "0"], "h100", "a100");
    await until("the server has a pod", async () => ((await serverOf("unlucky"))?.podUid ?? "") !== "");
    await world.sessions.cancelSession({ requestId: "c", name: "first-user" });
    await waitUntilFinished(world, "first-user");

    const { pool, node } = (await serverOf("unlucky")) ?? {};
    expect(pool).toBe("a100");
    await world.cluster.api.deleteNode({ name: node ?? "" });
    const replaced = await until("the server has another machine", async () => {
      const server = await serverOf("unlucky");
      return server?.node !== "" && server?.node !== node ? server : undefined;
    });
    expect(replaced).toMatchObject({ pool: "a100", node: node === "a100-0" ? "a100-1" : "a100-0" });
    world.cluster.unplaced.clear();
    expect(listEvents(await waitUntilFinished(world, "unlucky"))).toEqual([...RAN, "DONE"]);
    await expectNothingLeft(world);
  });
});
