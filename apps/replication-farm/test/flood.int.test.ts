import { findFault, isRetryable } from "@muster/faults";
import { until } from "@muster/testkit";
import { afterAll, beforeAll, expect, it } from "vitest";
import { EMBEDDED } from "./api-servers.ts";
import { openFarmStore, waitForPlaced, type FarmStore } from "./farm-store.ts";
import { openFarmWorld, waitUntilReady, buildSpec, type FarmWorld } from "./farm-world.ts";

const NODES = ["n-0", "n-1", "n-2"];
const SETS = Array.from({ length: 10 }, (_, index) => `flooded-${index}`);
const APPLIES = 100;

let world: FarmWorld;
let store: FarmStore;

beforeAll(async () => {
  world = await openFarmWorld(await EMBEDDED.start(), NODES.length);
  store = await openFarmStore(world.bus);
  await Promise.all(NODES.map((node) => world.label(node, { zone: "a" })));
  await world.startFarm();
  await world.startFarm();
  await waitUntilReady(world);
}, 300_000);

afterAll(() => world[Symbol.asyncDispose]());

/** Acts as a client: retries faults that allow it. */
async function apply(name: string, count: number): Promise<void> {
  const spec = buildSpec("zone=a", count % 3, { labels: { count: `${count}` } });
  const request = { requestId: `${name}-${count}`, name, spec };
  await until(
    `apply ${count} of ${name} is taken`,
    async () => {
      try {
        await world.farms.applyReplicaSet(request, { timeoutMs: 30_000 });
        return true;
      } catch (error) {
        const fault = findFault(error);
        if (fault !== undefined && (isRetryable(fault) || fault.code === "conflict")) return false;
        throw error;
      }
    },
    { timeoutMs: 120_000 },
  );
}

it("a thousand concurrent changes end in the state of the last ones, each audited once, with places and pods for the rest", async () => {
  await Promise.all(
    SETS.map(async (name) => {
      for (let count = 1; count <= APPLIES; count += 1) await apply(name, count);
    }),
  );
  for (const name of SETS) await waitForPlaced(world, store, name, APPLIES % 3);
  await until("all audits are on their stream", async () =>
    (await store.sets.list()).every(({ value }) => "record" in value && value.record.outbox.length === 0),
  );
  for (const name of SETS) {
    const { generation, nextOrdinal, placements } = await store.set(name);
    expect(generation).toBe(APPLIES);
    // Of three changes two add a place: what comes and goes while a pass is under way is never placed, and nothing is placed twice.
    expect(nextOrdinal - 1).toBeLessThanOrEqual(Math.ceil(APPLIES / 3) * 2);
    const { records } = await world.farms.listAudit({ name, limit: 500 });
    const events = records.map(({ eventType }) => eventType);
    expect(events.filter((event) => event === "CREATED" || event === "CHANGED")).toHaveLength(APPLIES);
    expect(new Set(records.map(({ id }) => id)).size).toBe(records.length);
    const last = records.findLast(({ eventType }) => eventType === "REPLICATION_CONTROLLER_RETARGET");
    expect(JSON.parse(last?.eventDetails ?? "{}")).toMatchObject({ nodes: placements.map(({ node }) => node) });
  }
}, 240_000);
