import { until } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { EMBEDDED } from "./api-servers.ts";
import { openScriptedCluster, type ScriptedCluster } from "./scripted-cluster.ts";
import {
  listEvents,
  expectNothingLeft,
  waitUntilFinished,
  RAN,
  makeScripted,
  openSessionWorld,
  readStoredRecord,
  submitSession,
  type Controller,
  type SessionWorld,
} from "./world.ts";

const HARMS = ["gone", "not-ready", "cordoned", "tainted"] as const;
type Harm = (typeof HARMS)[number];
const POOLS = { drivers: 2 * HARMS.length, workers: 2 * HARMS.length, few: 1 };
/** Limits the sessions with machines to their number: replacement machines do not count as sessions. */
const ENV = {
  SESSION_EXECUTORS: String(HARMS.length),
  SESSION_MACHINE_LOST_MS: "200",
  SESSION_REPLACEMENT_WAIT_MS: "600000",
  SESSION_NODE_LOST_MS: "1000",
};

describe("a machine that is lost between the grant and the start of its component", () => {
  let world: SessionWorld<ScriptedCluster>;
  let controller: Controller;

  beforeAll(async () => {
    const cluster = await openScriptedCluster(await EMBEDDED.start(), POOLS);
    world = await openSessionWorld(cluster, POOLS, { WATCHER_NODE_GRACE_MS: "200" });
    controller = await world.startController(ENV);
  });

  afterAll(async () => {
    await world[Symbol.asyncDispose]();
  });

  async function nodeOf(name: string, component: string): Promise<string> {
    const { session } = await readStoredRecord(world, name);
    return session?.components.find((each) => each.name === component)?.node ?? "";
  }

  /** Submits a session whose server waits to be scheduled, which also delays its driver. */
  async function provision(name: string, driverPool = "drivers"): Promise<void> {
    world.cluster.unplaced.add(`${name}-server-0`);
    const driver = { ...makeScripted("driver", "driver", "exit", "0"), pool: driverPool };
    await submitSession(world, name, [driver, makeScripted("server-0", "server", "serve")], { killAfterMs: 1000 });
    await until(`${name} has its server's pod`, async () => {
      const { session } = await readStoredRecord(world, name);
      return (session?.components.find((each) => each.name === "server-0")?.podUid ?? "") !== "";
    });
  }

  async function harm(name: string, how: Harm): Promise<void> {
    if (how === "gone") {
      await world.cluster.api.deleteNode({ name });
      return;
    }
    const node = await world.cluster.api.readNode({ name });
    if (how === "not-ready") {
      const nowAt = new Date();
      const ready = { type: "Ready", status: "Unknown", lastHeartbeatTime: nowAt, lastTransitionTime: nowAt };
      await world.cluster.api.replaceNodeStatus({ name, body: { ...node, status: { conditions: [ready] } } });
      return;
    }
    const taints = how === "tainted" ? [{ key: "example.com/away", effect: "NoSchedule" }] : [];
    await world.cluster.api.replaceNode({
      name,
      body: { ...node, spec: { unschedulable: how === "cordoned", taints } },
    });
  }

  it.each(["driver", "server-0"])("is replaced for a %s, and the session runs to its end", async (component) => {
    const names = HARMS.map((how) => `${how}-${component}`);
    const machines = new Map<string, string>();
    for (const name of names) {
      await provision(name);
      machines.set(name, await nodeOf(name, component));
    }
    for (const [index, how] of HARMS.entries()) await harm(machines.get(names[index] ?? "") ?? "", how);
    await until(
      "each component has another machine",
      async () => {
        const nodes = await Promise.all(names.map((name) => nodeOf(name, component)));
        return nodes.every((node, index) => node !== "" && node !== machines.get(names[index] ?? ""));
      },
      { timeoutMs: 90_000 },
    );
    world.cluster.unplaced.clear();
    for (const name of names) expect(listEvents(await waitUntilFinished(world, name)), name).toEqual([...RAN, "DONE"]);
    await expectNothingLeft(world);
    for (const how of names) expect(world.cluster.bound.filter((pod) => pod.startsWith(how))).toHaveLength(2);
  });

  it("ends the session if no replacement exists, and names the machine", async () => {
    await controller.stop();
    controller = await world.startController({ ...ENV, SESSION_REPLACEMENT_WAIT_MS: "1000" });
    await provision("alone", "few");
    await harm("few-0", "gone");
    const session = await waitUntilFinished(world, "alone");
    expect(listEvents(session)).toEqual(["QUEUE", "ACCEPT", "PROVISION", "ERROR"]);
    expect(session.events?.at(-1)).toMatchObject({ reason: "MACHINE_LOST" });
    expect(session.events?.at(-1)?.description).toMatch(/^driver .*node few-0 is gone/);
    await expectNothingLeft(world);
  });
});
