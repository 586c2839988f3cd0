import type { V1Pod } from "@kubernetes/client-node";
import { until } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { API_SERVERS } from "./api-servers.ts";
import {
  openFarmWorld,
  isMissing,
  listNodes,
  waitUntilReady,
  waitForSettled,
  buildSpec,
  type FarmWorld,
  PODS,
} from "./farm-world.ts";

const PATIENT = { timeoutMs: 90_000, everyMs: 100 };

describe.each(API_SERVERS)("one pod of a pod id per node on $title", { timeout: 300_000 }, ({ skip, start }) => {
  let world: FarmWorld;
  const labelled = (label: string, ...nodes: string[]) =>
    Promise.all(nodes.map((node) => world.label(node, { [label]: "yes" })));
  const apply = (name: string, selector: string) =>
    world.farms.applyReplicaSet({ requestId: crypto.randomUUID(), name, spec: buildSpec(selector, 1) }, PATIENT);
  const unlabel = async (pod: string, names: readonly string[]) => {
    const labels = Object.fromEntries(names.map((name) => [name, null]));
    await world.calls.patch<V1Pod>(PODS, pod, { kind: "merge", body: { metadata: { labels } } });
  };
  /** Nodes of the placed pods, by their names: labels may be gone. */
  const placed = async (set: string): Promise<(string | undefined)[]> => {
    const { items } = await world.calls.list<V1Pod>(PODS);
    const own = items.filter(({ metadata }) => metadata?.name?.startsWith(`${set}-`));
    return own.flatMap(({ spec }) => spec?.nodeName ?? []).toSorted();
  };
  const verdict = async (name: string, node: string): Promise<string> => {
    const { nodes } = await world.farms.explainReplicaSet({ name });
    const found = nodes.find((each) => each.node === node);
    return `${found?.code ?? ""} ${found?.message ?? ""}`;
  };

  beforeAll(async () => {
    if (skip) return;
    world = await openFarmWorld(await start(), 3);
    await world.startFarm();
    await waitUntilReady(world);
  }, 300_000);

  afterAll(async () => {
    if (!skip) await world[Symbol.asyncDispose]();
  });

  it.skipIf(skip)("holds for a set whose pod id an orphaned pod has, and the set names that pod", async () => {
    await labelled("left", "n-0", "n-1");
    await apply("left", "left=yes");
    await waitForSettled(world, "left", 1);
    await world.farms.deleteReplicaSet({ requestId: "d", name: "left", keepPods: true, force: true });
    await until("the set is gone", () => isMissing(world.farms.getReplicaSet({ name: "left" })), PATIENT);
    await apply("left", "left=yes");
    expect(listNodes(await waitForSettled(world, "left", 1))).toEqual(["n-1"]);
    expect(await placed("left")).toEqual(["n-0", "n-1"]);
    expect(await verdict("left", "n-0")).toBe(
      "TAKEN pod left-1, which belongs to no replica set, runs pod id left there",
    );

    const [own] = await world.pods("left");
    await unlabel(own?.metadata?.name ?? "", ["muster.dev/owner-kind"]);
    await until(
      "the freed pod is named",
      async () => (await verdict("left", "n-1")).includes("no replica set"),
      PATIENT,
    );
    await world.calls.delete(PODS, "left-1");
    expect(
      listNodes(
        await until(
          "it is on the free node",
          async () => {
            const set = await waitForSettled(world, "left", 1);
            return listNodes(set)[0] === "n-0" ? set : undefined;
          },
          PATIENT,
        ),
      ),
    ).toEqual(["n-0"]);
    await until("no node has two", async () => (await placed("left")).join() === "n-0,n-1", PATIENT);
  });

  it.skipIf(skip)("holds if all labels of a pod were removed, enforced by the scheduler", async () => {
    await labelled("bare", "n-2");
    await apply("bare", "bare=yes");
    await waitForSettled(world, "bare", 1);
    const [own] = await world.pods("bare");
    await unlabel("bare-1", Object.keys(own?.metadata?.labels ?? {}));
    await until(
      "the next pod is not placed",
      async () => {
        const { set } = await world.farms.getReplicaSet({ name: "bare" });
        return set?.replicas[0]?.message.includes("anti-affinity");
      },
      PATIENT,
    );
    expect(await placed("bare")).toEqual(["n-2"]);
    await world.calls.delete(PODS, "bare-1");
    await waitForSettled(world, "bare", 1);
    expect(await placed("bare")).toEqual(["n-2"]);
  });
});
