import type { V1Node } from "@kubernetes/client-node";
import { until } from "@muster/testkit";
import { afterAll, beforeAll, expect, it } from "vitest";
import { openElasticWorld, type ElasticWorld } from "./elastic-world.ts";

const NODES = { apiVersion: "v1", plural: "nodes" };
const TAINT = { key: "example.com/gpu", value: "", effect: "NoSchedule" };
const HEALTHY_MS = 2000;

let world: ElasticWorld;

beforeAll(async () => {
  world = await openElasticWorld({ idle: "10m", healthyTimeout: `${HEALTHY_MS}ms`, taints: [TAINT] });
  await world.startScaler();
  await world.untilElastic();
}, 400_000);
afterAll(() => world[Symbol.asyncDispose]());

/** Requests one machine with this label, for work that tolerates the taint; returns the id of its reservation. */
async function reserve(name: string, disk?: string): Promise<string> {
  const matchExpressions = [{ key: "disk", operator: "In", values: [disk ?? ""] }];
  const selection = {
    terms: disk === undefined ? [] : [{ matchExpressions }],
    tolerations: [{ key: TAINT.key, operator: "Exists" }],
  };
  const needs = [{ component: "c", pool: "elastic", nodeSelection: 1 }];
  const owner = { kind: "lease", id: name };
  const reply = await world.ledger.reserve({ requestId: name, owner, needs, wait: true, nodeSelections: [selection] });
  return reply.reservation?.id ?? "";
}

const patch = (node: string, body: object): Promise<V1Node> => world.calls.patch(NODES, node, { kind: "merge", body });

/** Waits until each loop has begun after the time for which a node may be unhealthy. */
async function untilJudged(): Promise<void> {
  const afterMs = Date.now() + 2 * HEALTHY_MS;
  await until(
    "the scaler has judged its nodes",
    async () => {
      const { loops } = await world.nodes.dumpNodes({});
      const decided = loops.filter(({ name }) => name === "pool" || name === "heartbeat");
      return decided.length === 2 && decided.every(({ lastStartedAtMs }) => lastStartedAtMs > afterMs);
    },
    { timeoutMs: 120_000 },
  );
}

it("creates a node beside a free one with another label, and keeps one with a declared taint", async () => {
  const first = await reserve("first");
  const [slow = ""] = await world.untilGranted("first");
  await patch(slow, { metadata: { labels: { disk: "hdd" } }, spec: { taints: [TAINT] } });
  await world.release("first", first);

  const second = await reserve("second", "ssd");
  const fast = await until(
    "another node joins",
    async () => (await world.kubeNodes()).find((node) => node !== slow) ?? false,
    { timeoutMs: 120_000 },
  );
  await patch(fast, { metadata: { labels: { disk: "ssd" } } });
  expect(await world.untilGranted("second")).toEqual([fast]);

  await untilJudged();
  expect(world.machines().toSorted()).toEqual([slow, fast].toSorted());
  const third = await reserve("third", "hdd");
  expect(await world.untilGranted("third")).toEqual([slow]);
  expect((await world.nodes.listNodes({})).nodes).toHaveLength(2);
  await world.release("second", second);
  await world.release("third", third);
}, 400_000);
