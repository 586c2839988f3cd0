import { until } from "@muster/testkit";
import { afterAll, beforeAll, expect, it } from "vitest";
import { makeSpec, makePlacedSet } from "./a-set.ts";
import type { ReplicaSetSpec } from "../src/domain/replica-set.ts";
import { applySet } from "../src/apply-set.ts";
import type { RequestDeps } from "../src/request-deps.ts";
import { enableSet, removeSet } from "../src/requests.ts";
import { openPassWorld, type PassWorld } from "./pass-world.ts";

const SET_MADE_AT_MS = 1_000_000;

let world: PassWorld;
let deps: RequestDeps;

beforeAll(async () => {
  world = await openPassWorld();
  const { sets, rollouts: rolls } = world;
  deps = {
    // The clock of this farm is behind.
    now: () => SET_MADE_AT_MS - 1000,
    newId: () => crypto.randomUUID(),
    sets,
    rollouts: rolls,
    world: world.world,
    auditLog: { page: () => Promise.resolve({ items: [], before: undefined }), publish: () => Promise.resolve() },
    templateHash: () => "h1",
    transferMs: 1000,
    check: () => Promise.resolve(),
    pools: () => Promise.resolve([]),
    farmOf: () => "",
  };
  for (const node of ["n1", "n2"]) await world.putNode(node, { labels: { [node]: "yes", disk: "ssd" } });
  await world.complete();
});

afterAll(() => world[Symbol.asyncDispose]());

const specOf = (spec: Partial<ReplicaSetSpec>) => makeSpec({ replicasDesired: 1, ...spec });

function applied(name: string, spec: ReplicaSetSpec) {
  return applySet(deps, { requestId: crypto.randomUUID(), name, spec, replace: false, dryRun: false, by: "" });
}

async function stored(
  name: string,
  nodeSelector: string,
  rest: Parameters<typeof makePlacedSet>[1] = {},
): Promise<void> {
  const set = makePlacedSet(["n1"], { name, uid: name, createdAtMs: SET_MADE_AT_MS, ...rest });
  await world.sets.create(name, { ...set, spec: specOf({ podId: rest.spec?.podId ?? name, nodeSelector }) });
  await until(`${name} is seen`, () => world.world.set(name) !== undefined);
}

it("a set that requests nodes of another set of the pod id is refused, whatever the clocks show and whichever is older", async () => {
  await stored("first", "n1=yes");
  await expect(applied("thief", specOf({ podId: "first", nodeSelector: "disk=ssd" }))).rejects.toThrow(/set first/);
  const beside = await applied("beside", specOf({ podId: "first", nodeSelector: "n2=yes" }));
  expect(beside.set.record.createdAtMs).toBeGreaterThan(SET_MADE_AT_MS);
  await expect(applied("first", specOf({ podId: "first", nodeSelector: "disk=ssd" }))).rejects.toThrow(/set beside/);
  expect((await applied("first", specOf({ podId: "first", nodeSelector: "n1=yes", replicasDesired: 2 }))).outcome).toBe(
    "CHANGED",
  );
  await stored("off", "disk=ssd", { createdAtMs: 1, disabled: true, spec: makeSpec({ podId: "first" }) });
  await expect(enableSet(deps, { requestId: "e", name: "off", enabled: true, by: "" })).rejects.toThrow(
    /runs pod id first/,
  );
});

it("a set in deletion accepts no spec, and no request to keep its pods", async () => {
  await stored("leaving", "n1=yes", { deletion: { keepPods: false, atMs: 1 } });
  await expect(applied("leaving", specOf({ podId: "leaving", nodeSelector: "n1=yes" }))).rejects.toThrow(
    /is being deleted/,
  );
  const removal = { requestId: "d", name: "leaving", force: true, by: "" };
  await expect(removeSet(deps, { ...removal, keepPods: true })).rejects.toThrow(/cannot be kept/);
  expect((await removeSet(deps, { ...removal, keepPods: false }))?.record.deletion).toMatchObject({ keepPods: false });
});
