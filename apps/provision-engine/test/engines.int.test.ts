import { publishEvent } from "@muster/bus";
import { muster, subjects } from "@muster/proto";
import { until } from "@muster/testkit";
import { afterAll, beforeAll, expect, it } from "vitest";
import { toWireOrder } from "@muster/leases/wire";
import {
  makeUser,
  openEngineWorld,
  LONG,
  sendOrder,
  readPhase,
  waitForPhase,
  waitUntilReady,
  signEnd,
  signOrder,
  type EngineWorld,
} from "./engine-world.ts";

const user = makeUser();
let world: EngineWorld;

const served = (engine: string) =>
  until(
    `${engine} answers`,
    () => world.leases.getCounters({ engine }, { timeoutMs: 5000 }).then(({ engine: id }) => id === engine),
    LONG,
  );

beforeAll(async () => {
  world = await openEngineWorld({ users: false });
  await world.startEngine();
  await world.startEngine({ PROVISION_ENGINE_ID: "west", PROVISION_CAPACITY_CRU: "5" });
  await waitUntilReady(world);
  await served("main");
  await served("west");
}, 300_000);

afterAll(() => world[Symbol.asyncDispose]());

it("each engine on one bus serves its own orders, on any replica and from any source", async () => {
  await sendOrder(world, signOrder(user, { id: "1-1", engine: "west" }));
  await sendOrder(world, signOrder(user, { id: "1-2" }));
  const streamed = signOrder(user, { id: "1-3", engine: "west" });
  const { Order } = muster.provision.v1;
  await publishEvent(world.bus, subjects.orderLease("west", "1-3"), Order, toWireOrder(streamed), { messageId: "1-3" });
  await until("it is taken", () => readPhase(world, "1-3").then(() => true), LONG);
  for (const id of ["1-1", "1-2", "1-3"]) await waitForPhase(world, id, "ACTIVE");
  const countOf = async (engine: string) => (await world.leases.getCounters({ engine })).counters?.debug;
  await until("each counts its own", async () => (await countOf("west")) === 2 && (await countOf("main")) === 1, LONG);
  const { capacity } = await world.leases.getCounters({ engine: "west" });
  const { cru, mruBytes, sruBytes, hruBytes } = capacity ?? {};
  expect([cru, mruBytes ?? "none", sruBytes ?? "none", hruBytes ?? "none"]).toEqual([5, "none", "none", "none"]);
  await world.leases.endLease({ requestId: "e", end: signEnd(user, "1-1", "west") });
  await waitForPhase(world, "1-1", "ENDED");
});

it("reports an engine without a replica, and refuses an invalid engine id", async () => {
  const unserved = { fault: { code: "unavailable", dependency: expect.stringContaining('"nowhere"') as string } };
  const sent = toWireOrder(signOrder(user, { id: "2-1", engine: "nowhere" }));
  const asked = { requestId: "r", order: sent, dryRun: false };
  await expect(world.leases.orderLease(asked, { repeat: "never", timeoutMs: 5000 })).rejects.toMatchObject(unserved);
  await expect(
    world.leases.getCounters({ engine: "nowhere" }, { repeat: "never", timeoutMs: 5000 }),
  ).rejects.toMatchObject(unserved);
  await expect(sendOrder(world, signOrder(user, { id: "2-2", engine: "No.Where" }))).rejects.toMatchObject({
    fault: { code: "invalid_request", field: "engine" },
  });
  // No replica and no lease shows that this engine exists.
  await expect(world.leases.getEngine({ engine: "nowhere" }, { timeoutMs: 5000 })).rejects.toMatchObject({
    fault: { code: "not_found", kind: "engine", id: "nowhere" },
  });
  // No engine can have this id, so the answer needs no other engine.
  await expect(world.leases.getEngine({ engine: "No.Where" })).rejects.toMatchObject({
    fault: { code: "not_found", kind: "engine", id: "No.Where" },
  });
  for (const id of ["2-1", "2-2"])
    await expect(world.leases.getLease({ id })).rejects.toMatchObject({ fault: { code: "not_found" } });
});

it("answers with counters that are newer than the caller's", async () => {
  for (let call = 0, afterNumber = 0; call < 3; call += 1) {
    const { number, engine } = await world.leases.getCounters({ engine: "west", afterNumber });
    expect(engine).toBe("west");
    expect(number).toBeGreaterThan(afterNumber);
    afterNumber = number;
  }
});
