import { until } from "@muster/testkit";
import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { openElasticWorld, type ElasticWorld } from "./elastic-world.ts";

const IDLE_MS = 2000;
// A machine of the pool has 4 cores and 8 GiB.
const HALF = { cpu: 1900, memory: 2 ** 30 };

let world: ElasticWorld;

beforeAll(async () => {
  world = await openElasticWorld({ idle: `${IDLE_MS}ms`, drainTimeout: "5s" });
  await world.startScaler();
}, 400_000);
afterAll(() => world[Symbol.asyncDispose]());

beforeEach(async () => {
  await until("no node is left", () => world.machines().length === 0, { timeoutMs: 240_000 });
}, 300_000);

/** Returns names of all created nodes, including ended ones. */
async function created(): Promise<readonly string[]> {
  return (await world.nodes.listNodes({})).nodes.map(({ name }) => name);
}

/** Waits until the scaler has decided again, a whole idle time from now. */
async function untilIdleTimeIsOver(): Promise<void> {
  const afterMs = Date.now() + IDLE_MS;
  await until("a round begins after the idle time", async () => {
    const { loops } = await world.nodes.dumpNodes({});
    const decided = loops.filter(({ name }) => name === "pool" || name === "heartbeat");
    return decided.length === 2 && decided.every(({ lastStartedAtMs }) => lastStartedAtMs > afterMs);
  });
}

it("creates one node for two parts that fit on it, which stays until both are released", async () => {
  const before = new Set(await created());
  const ids = await Promise.all(["a", "b"].map((name) => world.reserve(name, 1, HALF)));
  const nodes = await Promise.all(["a", "b"].map((name) => world.untilGranted(name)));
  expect(new Set(nodes.flat()).size).toBe(1);
  const [name = ""] = nodes.flat();
  expect((await world.nodes.listNodes({ name })).nodes.map((node) => node.name)).toEqual([name]);
  expect((await world.nodes.listNodes({ name: "missing" })).nodes).toEqual([]);
  await world.release("a", ids[0] ?? "");
  await untilIdleTimeIsOver();
  expect(world.machines()).toEqual(nodes[0]);
  expect((await created()).filter((name) => !before.has(name))).toHaveLength(1);
  await world.release("b", ids[1] ?? "");
}, 400_000);

it("creates two nodes for three parts if one node has room for two of them", async () => {
  const before = new Set(await created());
  const id = await world.reserve("gang", 3, HALF);
  expect(new Set(await world.untilGranted("gang")).size).toBe(2);
  await untilIdleTimeIsOver();
  expect((await created()).filter((name) => !before.has(name))).toHaveLength(2);
  await world.release("gang", id);
}, 400_000);
