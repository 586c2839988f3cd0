import { buckets } from "@muster/proto";
import { openBucket } from "@muster/store";
import { until } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { rolloutCodec } from "../src/adapters/messages.ts";
import { makePlacement } from "./a-set.ts";
import { EMBEDDED } from "./api-servers.ts";
import { openFarmStore, waitForPlaced, listUids, type FarmStore } from "./farm-store.ts";
import { waitForAlert, openFarmWorld, waitUntilReady, buildTemplate, type FarmWorld } from "./farm-world.ts";

const NODES = ["n-0", "n-1", "n-2"];
const SOON = { FARM_UNHEALTHY_MS: "500", FARM_RESYNC_MS: "200", FARM_TRANSFER_MS: "1000" };
/** The container never runs: a container that runs for a moment is ready for that moment. */
const FAILING = buildTemplate().replace('["sleep","100000"]', '["/no/such/program"]');

describe("pods that never become healthy", () => {
  let world: FarmWorld;
  let store: FarmStore;

  beforeAll(async () => {
    world = await openFarmWorld(await EMBEDDED.start(), NODES.length);
    store = await openFarmStore(world.bus);
    await world.startFarm(SOON);
    await waitUntilReady(world);
  }, 300_000);

  afterAll(() => world[Symbol.asyncDispose]());

  const label = (name: string, nodes = NODES): Promise<unknown> =>
    Promise.all(nodes.map((node) => world.label(node, { [name]: "yes" })));
  const troubleOf = (name: string, code: string): Promise<unknown> =>
    until(`${name} reports ${code}`, async () => (await store.set(name)).trouble?.code === code, { timeoutMs: 90_000 });

  it("raise an alert until they are healthy", async () => {
    await label("sick");
    await store.create("sick", { nodeSelector: "sick=yes", replicasDesired: 2, template: FAILING });
    await troubleOf("sick", "NOT_HEALTHY");
    await waitForAlert(world, "not_healthy_sick");
    await store.change("sick", (set) => ({ ...set, spec: { ...set.spec, template: buildTemplate() } }));
    await waitForPlaced(world, store, "sick", 2);
    await until("all is well", async () => (await store.set("sick")).trouble === undefined, { timeoutMs: 90_000 });
  });

  it("keep a rolling update at its minimum, which raises an alert, and can be undone", async () => {
    await label("rolled");
    await store.create("old", { podId: "rolled", nodeSelector: "rolled=yes", replicasDesired: 3 });
    const before = listUids(await waitForPlaced(world, store, "old", 3));
    const roll = { requestId: "r", oldSet: "old", newSet: "new", templateJson: FAILING, minimumReplicas: 2 };
    await world.farms.createRoll(roll);
    const rolls = await openBucket(world.bus.connection, { name: buckets.rolls, codec: rolloutCodec });
    const stored = async () => {
      const found = await rolls.get("new");
      return found !== undefined && "record" in found.value ? found.value.record : undefined;
    };
    await until("it reports that it is stuck", async () => (await stored())?.trouble?.code === "ROLL_STUCK", {
      timeoutMs: 90_000,
    });
    await waitForAlert(world, "roll_stuck_new");
    const left = listUids(await waitForPlaced(world, store, "old", 2));
    expect(before).toEqual(expect.arrayContaining(left));
    expect(await stored()).toMatchObject({ oldDesired: 2, newDesired: 1 });
    await world.farms.changeRoll({ requestId: "u", id: "new", change: "UNDO" });
    await until("the update is over", async () => (await stored()) === undefined, { timeoutMs: 90_000 });
    const after = listUids(await waitForPlaced(world, store, "old", 3));
    expect(after).toEqual(expect.arrayContaining(left));
    await until("the new set is gone", async () => (await store.sets.get("new")) === undefined);
  }, 300_000);

  it("also block a rolling update if their programs are ready briefly and exit", async () => {
    await label("looped");
    const ending = buildTemplate().replace('["sleep","100000"]', '["sleep","0.3"]');
    await store.create("good", {
      podId: "looped",
      nodeSelector: "looped=yes",
      replicasDesired: 3,
      minReadySeconds: 60,
    });
    await waitForPlaced(world, store, "good", 3);
    const roll = { requestId: "l", oldSet: "good", newSet: "bad", templateJson: ending, minimumReplicas: 2 };
    await world.farms.createRoll(roll);
    // A pod that has ended is recreated, under another uid.
    const uids = new Set<string>();
    await until(
      "the new program was begun three times",
      async () => {
        for (const { metadata } of await world.pods("bad")) if (metadata?.uid !== undefined) uids.add(metadata.uid);
        return uids.size >= 3;
      },
      { timeoutMs: 120_000, everyMs: 100 },
    );
    const rolls = await openBucket(world.bus.connection, { name: buckets.rolls, codec: rolloutCodec });
    expect((await rolls.get("bad"))?.value).toMatchObject({ record: { oldDesired: 2, newDesired: 1 } });
    expect(await waitForPlaced(world, store, "good", 2)).toHaveLength(2);
  }, 300_000);

  it("make a transfer roll back, again and again with longer pauses, and keep the old pod", async () => {
    await label("moved", ["n-0", "n-1"]);
    await store.create("moved", { nodeSelector: "moved=yes", replicasDesired: 1 });
    const uids = listUids(await waitForPlaced(world, store, "moved", 1));
    // The kubelet reports no pod, while the node counts as ready for some time.
    await world.kubelets[1]?.die();
    await world.label("n-0", { moved: null });
    const { transferFailures, trouble, placements } = await until(
      "it was taken back twice",
      async () => {
        const set = await store.set("moved");
        return set.transferFailures >= 2 && set.transfer === undefined && set;
      },
      { timeoutMs: 90_000 },
    );
    expect(trouble).toMatchObject({ code: "TRANSFER_FAILED" });
    expect(trouble?.message).toContain(`attempt ${transferFailures}`);
    expect(placements.map(({ node }) => node)).toEqual(["n-0"]);
    expect(listUids(await world.pods("moved"))).toEqual(expect.arrayContaining(uids));
    const { records } = await world.farms.listAudit({ name: "moved" });
    const count = (event: string): number => records.filter(({ eventType }) => eventType === event).length;
    expect(count("NODE_TRANSFER_ROLLBACK")).toBeGreaterThanOrEqual(2);
    expect(count("NODE_TRANSFER_COMPLETION")).toBe(0);
  });

  it("keep a set whose rolling update is missing unchanged, which is reported", async () => {
    await label("widowed");
    await store.create("widowed", { nodeSelector: "widowed=yes", replicasDesired: 1 });
    await waitForPlaced(world, store, "widowed", 1);
    await store.change("widowed", (set) => ({ ...set, rollout: "nowhere", placements: [makePlacement("n-0", 1)] }));
    await troubleOf("widowed", "ROLL_SET_MISSING");
    await waitForAlert(world, "roll_set_missing_widowed");
    expect(await world.pods("widowed")).toHaveLength(1);
  });
});
