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
  makeTrio,
  type SessionWorld,
} from "./world.ts";

const POOLS = { drivers: 2, workers: 5 };
/** Only rack b has a driver and two workers, and a third worker. */
const RACKS: Readonly<Record<string, string>> = {
  ...{ "drivers-0": "a", "workers-0": "a" },
  ...{ "drivers-1": "b", "workers-1": "b", "workers-2": "b", "workers-4": "b" },
  ...{ "workers-3": "c" },
};
const ENV = { SESSION_EXECUTORS: "0", SESSION_MACHINE_LOST_MS: "200", SESSION_REPLACEMENT_WAIT_MS: "600000" };
const ONE_RACK = { topology: "rack" };

describe("a session with a topology", () => {
  let world: SessionWorld<ScriptedCluster>;

  beforeAll(async () => {
    const cluster = await openScriptedCluster(await EMBEDDED.start(), POOLS);
    for (const [name, rack] of Object.entries(RACKS)) {
      const node = await cluster.api.readNode({ name });
      const labels = { ...node.metadata?.labels, rack };
      await cluster.api.replaceNode({ name, body: { ...node, metadata: { ...node.metadata, labels } } });
    }
    world = await openSessionWorld(cluster, POOLS);
    await world.startController(ENV);
  });

  afterAll(async () => {
    await world[Symbol.asyncDispose]();
  });

  async function nodesOf(name: string): Promise<string[]> {
    const { session } = await readStoredRecord(world, name);
    return session?.components.map(({ node }) => node) ?? [];
  }

  async function racksOf(name: string): Promise<(string | undefined)[]> {
    return (await nodesOf(name)).map((node) => RACKS[node]);
  }

  it("gets all of its machines in one rack, and waits while no rack has enough", async () => {
    await submitSession(world, "first", makeTrio("serve"), ONE_RACK);
    await waitForEvent(world, "first", "RUN");
    expect(await racksOf("first")).toEqual(["b", "b", "b"]);

    await submitSession(world, "second", makeTrio("exit", "0"), ONE_RACK);
    await until("the ledger explains the wait", async () => {
      const { session } = await world.sessions.getSession({ name: "second" });
      return session?.waitingBecause.startsWith(
        "3 machines, or parts of machines, are needed on nodes with one value of the label rack, and no value has room for more than 2",
      );
    });
    const { explanation } = await world.sessions.explainSession({ name: "second" });
    expect(explanation).toMatchObject({
      ...{ phase: "QUEUE", reasons: [{ code: "WAITING_FOR_TOPOLOGY" }] },
      reservation: {
        message:
          "nodes with one value of the label rack are needed for 3 machines, and most fit with a: 2; held by session first (1)",
      },
    });

    await world.sessions.cancelSession({ requestId: "c", name: "first" });
    expect(listEvents(await waitUntilFinished(world, "second"))).toEqual([...RAN, "DONE"]);
    expect(await racksOf("second")).toEqual(["b", "b", "b"]);
    await waitUntilFinished(world, "first");
    await expectNothingLeft(world);
  });

  it("ends if no rack can ever have enough, though the pools have", async () => {
    const servers = [0, 1, 2, 3].map((index) => makeScripted(`server-${index}`, "server", "serve"));
    await submitSession(world, "large", [makeScripted("driver", "driver", "serve"), ...servers], ONE_RACK);
    const { events } = await waitUntilFinished(world, "large");
    expect(events?.at(-1)).toMatchObject({ reason: "POOL_CAPACITY" });
    expect(events?.at(-1)?.description).toContain("on nodes with one value of the label rack");
  });

  it("gets another machine of the same rack in place of a lost one", async () => {
    world.cluster.unplaced.add("unlucky-server-0");
    await submitSession(world, "unlucky", makeTrio("exit", "0"), ONE_RACK);
    await waitForEvent(world, "unlucky", "PROVISION");
    const [driver, server, client] = await nodesOf("unlucky");
    await world.cluster.api.deleteNode({ name: server ?? "" });
    await until("the server has another machine", async () => {
      const [, node] = await nodesOf("unlucky");
      return node !== "" && node !== server;
    });
    expect(await nodesOf("unlucky")).toEqual([driver, "workers-4", client]);
    world.cluster.unplaced.clear();
    expect(listEvents(await waitUntilFinished(world, "unlucky"))).toEqual([...RAN, "DONE"]);
    await expectNothingLeft(world);
  });
});
