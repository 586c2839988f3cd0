import { startTestNats, until } from "@muster/testkit";
import { expect, it } from "vitest";
import { connectUser, buildNeeds, openNodeWriter, makeReservations, startManager } from "./managers.ts";

const owner = (id: string) => ({ kind: "session", id });

it("lists requests that wait for machines in queue order, and every node of a pool with its standing and holder", async () => {
  await using server = await startTestNats();
  await using bus = await connectUser(server);
  const nodes = await openNodeWriter(bus);
  await nodes.put("a1", "a");
  await nodes.put("a2", "a");
  await nodes.put("a3", "a");
  await nodes.put("b1", "b");
  await using manager = startManager(server);
  const reservations = makeReservations(bus);
  const reserve = (id: string, ...pools: string[]) =>
    reservations.reserve({ owner: owner(id), needs: buildNeeds(...pools), wait: true });
  await reserve("x", "a", "a");
  await reserve("y", "a", "a");
  await reserve("z", "a", "a", "b");

  const { reservations: waiting, more } = await reservations.listDemand({});
  expect(waiting).toMatchObject([
    { owner: owner("y"), needs: buildNeeds("a", "a"), because: { code: "POOL_AVAILABILITY", pool: "a", available: 1 } },
    { owner: owner("z"), needs: buildNeeds("a", "a", "b") },
  ]);
  expect(more).toBe(0);
  expect(await reservations.listDemand({ pools: ["b"] })).toMatchObject({ reservations: [{ owner: owner("z") }] });
  expect(await reservations.listDemand({ limit: 1 })).toMatchObject({ reservations: [{ id: "r-2" }], more: 1 });
  expect(await reservations.listDemand({ pools: ["none"] })).toMatchObject({ reservations: [], more: 0 });

  await nodes.put("a2", "a", { schedulable: false });
  await nodes.remove("a1");
  await until("the ledger has seen both", async () => {
    const { machines } = await reservations.listMachines({ pool: "a" });
    return machines[0]?.standing === "LOST" && machines[1]?.standing === "CORDONED";
  });
  const holder = { owner: owner("x"), reservationId: "r-1", machines: 2 };
  const first = await reservations.listMachines({ pool: "a", limit: 2 });
  expect(first).toMatchObject({
    machines: [
      { node: "a1", pool: "a", standing: "LOST", holder },
      { node: "a2", pool: "a", standing: "CORDONED", holder },
    ],
    continue: "a2",
    complete: true,
  });
  const second = await reservations.listMachines({ pool: "a", limit: 2, continue: first.continue });
  expect(second).toMatchObject({ machines: [{ node: "a3", standing: "FREE", holder: undefined }], continue: "" });
  const { machines } = await reservations.listMachines({});
  expect(machines.map(({ node }) => node)).toEqual(["a1", "a2", "a3", "b1"]);
  const one = await reservations.listMachines({ node: "a3" });
  expect([one.machines.map(({ node }) => node), one.continue]).toEqual([["a3"], ""]);
  expect((await reservations.listMachines({ node: "a" })).machines).toEqual([]);
  expect(manager.errors).toEqual([]);
});
