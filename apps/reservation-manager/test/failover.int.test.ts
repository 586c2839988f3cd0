import { faultOf } from "@muster/faults";
import { muster } from "@muster/proto";
import { natsServer, until } from "@muster/testkit";
import fc from "fast-check";
import { expect, it } from "vitest";
import {
  connected,
  needs,
  nodeWriter,
  persist,
  reservationsOf,
  startManager,
  type ManagerProcess,
  type Reservations,
} from "./managers.ts";

const GRANTED = muster.reservation.v1.ReservationState.RESERVATION_STATE_GRANTED;
const POOLS = ["a", "b", "c"];

const owner = (id: string) => ({ kind: "session", id });

async function leaderOf(managers: readonly ManagerProcess[], leads = 0): Promise<ManagerProcess> {
  return until("a manager leads", () => managers.find((manager) => manager.leads > leads));
}

/** What an owner may believe to hold: from the moment it is told until it asks for the release. */
class Claims {
  readonly byNode = new Map<string, string>();

  add(ownerId: string, machines: readonly { node?: string | null }[]): void {
    for (const { node } of machines) {
      if (node === undefined || node === null) throw new Error(`${ownerId} was given a machine without a name`);
      const other = this.byNode.get(node);
      if (other !== undefined && other !== ownerId) throw new Error(`${node} belongs to ${other} and ${ownerId}`);
      this.byNode.set(node, ownerId);
    }
  }

  drop(ownerId: string): void {
    for (const [node, holder] of this.byNode) if (holder === ownerId) this.byNode.delete(node);
  }
}

/** One owner that reserves and releases again and again; it ends holding what it was granted last. */
async function oneOwner(id: string, turns: readonly Turn[], reservations: Reservations, claims: Claims): Promise<void> {
  for (const { pools, wait } of turns) {
    claims.drop(id);
    await persist(() => reservations.unreserve({ owner: owner(id) }));
    const request = { owner: owner(id), needs: needs(...pools), wait };
    const reply = await persist(() => reservations.reserve(request)).catch((error: unknown) => {
      if (faultOf(error)?.code === "pool_availability") return undefined;
      throw error;
    });
    if (reply?.reservation?.state !== GRANTED) continue;
    expect(reply.reservation.machines?.map(({ pool }) => pool)).toEqual(pools);
    claims.add(id, reply.reservation.machines ?? []);
  }
}

type Turn = { readonly pools: readonly string[]; readonly wait: boolean };

const turns = fc.array(
  fc.record({ pools: fc.array(fc.constantFrom(...POOLS), { minLength: 1, maxLength: 3 }), wait: fc.boolean() }),
  { minLength: 25, maxLength: 25 },
);

it("never gives a machine to two owners and forgets nothing it said, while leaders are killed in a storm", async () => {
  await using server = await natsServer();
  await using bus = await connected(server);
  const nodes = await nodeWriter(bus);
  for (const pool of POOLS) for (const number of [0, 1, 2, 3]) await nodes.put(`${pool}${number}`, pool);
  await using first = startManager(server);
  await using second = startManager(server);
  const managers = [first, second];
  const leader = await leaderOf(managers);
  const reservations = reservationsOf(bus);
  const claims = new Claims();

  const seed = 20_260_101;
  const plans = fc.sample(turns, { seed, numRuns: 24 });
  const storm = Promise.all(plans.map((plan, index) => oneOwner(`o${index}`, plan, reservations, claims)));
  await until("the storm has begun", () => claims.byNode.size > 0);
  await leader.end("SIGKILL");
  await using third = startManager(server);
  const next = await leaderOf([...managers, third].filter((manager) => manager !== leader));
  await next.end("SIGTERM");
  await storm;

  const { reservations: listed } = await persist(() => reservations.listReservations({}));
  const held = new Map<string, string>();
  for (const { owner: holder, machines } of listed)
    for (const { node } of machines ?? []) {
      expect(held.has(node ?? "")).toBe(false);
      held.set(node ?? "", holder?.id ?? "");
    }
  for (const [node, holder] of claims.byNode) expect([node, held.get(node)]).toEqual([node, holder]);
  for (const { available, held: inPool, capacity } of (await reservations.listPools({})).pools)
    expect((available ?? 0) + (inPool ?? 0)).toBe(capacity);
  for (const manager of [...managers, third]) expect(manager.errors).toEqual([]);
});

it("goes on with the same ledger when the leader is killed", async () => {
  await using server = await natsServer();
  await using bus = await connected(server);
  const nodes = await nodeWriter(bus);
  await nodes.put("a0", "a");
  await using first = startManager(server);
  const leader = await leaderOf([first]);
  await using second = startManager(server);
  const reservations = reservationsOf(bus);
  for (const id of ["x", "y", "z"]) await reservations.reserve({ owner: owner(id), needs: needs("a"), wait: true });
  await persist(() => reservations.unreserve({ owner: owner("x") }));
  const before = await reservations.listReservations({});
  await leader.end("SIGKILL");
  const after = await persist(() => reservations.listReservations({}, { timeoutMs: 20_000 }));
  expect(after).toEqual(before);
  expect(second.leads).toBe(1);
  expect((await reservations.reserve({ owner: owner("w"), needs: needs("a"), wait: true })).reservation?.id).toBe(
    "r-4",
  );
});

it("gives the lead up at once when it is stopped, and ends with code 0", async () => {
  await using server = await natsServer();
  await using bus = await connected(server);
  await using first = startManager(server, { RESERVATION_LOCK_TTL_MS: "600000" });
  await leaderOf([first]);
  await using second = startManager(server, { RESERVATION_LOCK_TTL_MS: "600000" });
  await reservationsOf(bus).listPools({});
  expect(await first.end("SIGTERM")).toBe(0);
  await leaderOf([second]);
  await reservationsOf(bus).listPools({});
  expect([first.errors, second.errors]).toEqual([[], []]);
});

it("goes on when NATS was away, with everything that was acknowledged", async () => {
  await using server = await natsServer();
  await using bus = await connected(server);
  const nodes = await nodeWriter(bus);
  await nodes.put("a0", "a");
  await using manager = startManager(server);
  const reservations = reservationsOf(bus);
  const request = { owner: owner("x"), needs: needs("a") };
  const { reservation } = await reservations.reserve(request, { timeoutMs: 20_000 });
  await server.kill();
  await server.start();
  expect((await persist(() => reservations.reserve(request))).reservation).toEqual(reservation);
  const { released } = await persist(() => reservations.unreserve({ owner: owner("x") }));
  expect(released).toBe(true);
  expect(manager.errors).toEqual([]);
});
