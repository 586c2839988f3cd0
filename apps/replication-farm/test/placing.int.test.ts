import { until } from "@muster/testkit";
import { expect, it } from "vitest";
import { makeSet, makeSpec } from "./a-set.ts";
import { buildPodName, type ReplicaSet } from "../src/domain/replica-set.ts";
import type { PassDeps } from "../src/pass-deps.ts";
import { openPassWorld, type PassWorld } from "./pass-world.ts";

const GROUP = 5;
const STEPS_AT_ONCE = 32;
const NODES = Array.from({ length: 40 }, (_, index) => `n-${String(index).padStart(2, "0")}`);

/** An API server that makes no pod until it is reported to. */
function slowServer() {
  const open = Promise.withResolvers<undefined>();
  const [begun, confirmed, deleted]: [string[], string[], string[]] = [[], [], []];
  let [underWay, mostAtOnce] = [0, 0];
  const pods: Partial<PassDeps["pods"]> = {
    create: async (set, { ordinal }) => {
      const pod = buildPodName(set.name, ordinal);
      begun.push(pod);
      underWay += 1;
      mostAtOnce = Math.max(mostAtOnce, underWay);
      await open.promise;
      underWay -= 1;
      return { kind: "made", uid: pod, confirmed: false };
    },
    confirm: (pod) => Promise.resolve(void confirmed.push(pod)),
    delete: (pod) => Promise.resolve(void deleted.push(pod)),
  };
  return { pods, begun, confirmed, deleted, mostAtOnce: () => mostAtOnce, open: () => open.resolve(undefined) };
}

async function withSet(world: PassWorld, replicasDesired: number): Promise<void> {
  for (const node of NODES) await world.putNode(node);
  await world.complete();
  await until("all nodes are known", () => world.world.observedNodes()?.length === NODES.length);
  const spec = makeSpec({ nodeSelector: "", replicasDesired });
  await world.sets.create("web", makeSet({ name: "web", spec, fence: 1 }));
}

async function read(world: PassWorld): Promise<{ readonly record: ReplicaSet; readonly revision: number }> {
  const found = await world.sets.get("web");
  if (found === undefined || !("record" in found)) throw new Error("the set is not there");
  return found;
}

async function passUntilRest(world: PassWorld): Promise<void> {
  while ((await world.pass("web")).kind === "again");
}

it("pods are created while the next group is placed, up to the limit concurrently", async () => {
  const server = slowServer();
  await using world = await openPassWorld(server.pods);
  await withSet(world, NODES.length);
  for (let placed = GROUP; placed <= NODES.length; placed += GROUP) {
    expect(await world.pass("web")).toEqual({ kind: "again" });
    expect((await read(world)).record.placements).toHaveLength(placed);
    expect(server.begun).toHaveLength(Math.min(placed, STEPS_AT_ONCE));
  }
  server.open();
  await passUntilRest(world);
  expect(server.mostAtOnce()).toBe(STEPS_AT_ONCE);
  const all = NODES.map((_, index) => buildPodName("web", index + 1)).toSorted();
  expect(server.begun.toSorted()).toEqual(all);
  expect(server.confirmed.toSorted()).toEqual(all);
  expect(server.deleted).toEqual([]);
});

it("a pod whose placement is removed during its creation never runs, and is deleted", async () => {
  const server = slowServer();
  await using world = await openPassWorld(server.pods);
  await withSet(world, GROUP);
  await world.pass("web");
  expect(server.begun).toHaveLength(GROUP);
  const { record, revision } = await read(world);
  const next = { ...record, spec: { ...record.spec, replicasDesired: 2 } };
  await world.sets.change({ key: "web", revision, next, audits: [] });
  await world.pass("web");
  const kept = (await read(world)).record.placements.map(({ ordinal }) => buildPodName("web", ordinal));
  expect(kept).toHaveLength(2);
  server.open();
  await passUntilRest(world);
  expect(server.confirmed.toSorted()).toEqual(kept.toSorted());
  expect([...server.deleted, ...kept].toSorted()).toEqual(server.begun.toSorted());
});
