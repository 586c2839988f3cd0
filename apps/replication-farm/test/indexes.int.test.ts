import { buckets } from "@muster/proto";
import { until } from "@muster/testkit";
import { afterAll, beforeAll, expect, it } from "vitest";
import { makeRollout, makeSpec, makePlacedSet } from "./a-set.ts";
import { openPassWorld, type PassWorld } from "./pass-world.ts";

const OTHERS = 200;

let world: PassWorld;

beforeAll(async () => {
  world = await openPassWorld();
  const named = (name: string, podId: string) => makePlacedSet(["n1"], { name, uid: name, spec: makeSpec({ podId }) });
  const sets = [
    named("web", "web"),
    named("web-b", "web"),
    named("old", "rolled"),
    named("new", "other"),
    { ...named("marked", "marked"), rollout: "gone" },
    ...Array.from({ length: OTHERS }, (_, index) => named(`set-${index}`, `id-${index}`)),
  ];
  for (const set of sets) await world.sets.create(set.name, set);
  await world.rollouts.create("new", makeRollout({ id: "new", oldSet: "old", newSet: "new" }));
  await until("all is seen", () => world.world.sets().length === sets.length && world.world.rollouts().length === 1);
});

afterAll(() => world[Symbol.asyncDispose]());

it.each<[changed: string, concerned: readonly string[]]>([
  ["set-7", ["set-7"]],
  ["web", ["web", "web-b"]],
  ["old", ["new", "old"]],
  ["new", ["new"]],
  ["gone", ["gone", "marked"]],
  ["of-no-record", ["of-no-record"]],
])("a change of %s wakes the sets that it may concern, and none of many others", (changed, concerned) => {
  expect([...world.world.concernedBy(changed)].toSorted()).toEqual(concerned);
});

it("overlaps are found without a list of all sets, also for a set that was just stored", async () => {
  const before = world.lists();
  await world.sets.create(
    "web-c",
    makePlacedSet(["n2"], { name: "web-c", uid: "c", spec: makeSpec({ podId: "web" }) }),
  );
  const found = (await world.world.storedSetsOf("web")).map(({ name }) => name);
  expect(found.toSorted()).toEqual(["web", "web-b", "web-c"]);
  expect(world.lists() - before).toBe(0);
});

it("sets are listed from the store if the view cannot be as new", async () => {
  const { revision = 0 } = (await world.sets.get("web-c")) ?? {};
  await world.sets.remove("web-c", revision);
  // The mark of a deletion that expires leaves a revision that a later view cannot reach.
  const stream = `KV_${buckets.replicaSets}`;
  await world.bus.removeMessage(stream, (await world.bus.streamState(stream))?.lastSequence ?? 0);
  await using late = await world.openAnother();
  const before = world.lists();
  expect((await late.storedSetsOf("web")).map(({ name }) => name).toSorted()).toEqual(["web", "web-b"]);
  expect(world.lists() - before).toBe(1);
});
