import { findFault } from "@muster/faults";
import { muster } from "@muster/proto";
import { startTestNats, until } from "@muster/testkit";
import fc from "fast-check";
import { expect, it } from "vitest";
import {
  connectUser,
  buildNeeds,
  openNodeWriter,
  retryUntilAnswered,
  makeReservations,
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

/** The machines that an owner may consider its own: from the grant's answer until its request to release. */
class Claims {
  readonly byNode = new Map<string, string>();

  add(ownerId: string, machines: readonly { readonly node: string }[]): void {
    for (const { node } of machines) {
      if (node === "") throw new Error(`${ownerId} was granted a machine without a name`);
      const other = this.byNode.get(node);
      if (other !== undefined && other !== ownerId) throw new Error(`${node} belongs to ${other} and ${ownerId}`);
      this.byNode.set(node, ownerId);
    }
  }

  drop(ownerId: string): void {
    for (const [node, holder] of this.byNode) if (holder === ownerId) this.byNode.delete(node);
  }
}

/** Owners that reserve and release repeatedly until the storm is over; then they hold their last grants. */
type Storm = { over: boolean; grants: number; readonly claims: Claims; readonly reservations: Reservations };

async function oneOwner(id: string, turns: readonly Turn[], storm: Storm): Promise<void> {
  const { claims, reservations } = storm;
  let reservationId: string | undefined;
  for (let turn = 0; !storm.over; turn += 1) {
    const { pools, wait } = turns[turn % turns.length] ?? { pools: [], wait: false };
    claims.drop(id);
    const release = { owner: owner(id), reservationId: reservationId ?? "" };
    if (reservationId !== undefined) await retryUntilAnswered(() => reservations.unreserve(release));
    reservationId = undefined;
    const request = { owner: owner(id), needs: buildNeeds(...pools), wait };
    const reply = await retryUntilAnswered(() => reservations.reserve(request)).catch((error: unknown) => {
      if (findFault(error)?.code === "pool_availability") return undefined;
      throw error;
    });
    if (reply === undefined) continue;
    // A queued request may have been granted meanwhile.
    const { reservation } = await retryUntilAnswered(() => reservations.getReservation({ owner: owner(id) }));
    reservationId = reservation?.id ?? "none";
    expect(reservationId).toBe(reply.reservation?.id);
    if (reservation?.state !== GRANTED) continue;
    expect(reservation.machines.map(({ pool }) => pool)).toEqual(pools);
    claims.add(id, reservation.machines);
    storm.grants += 1;
  }
}

type Turn = { readonly pools: readonly string[]; readonly wait: boolean };

const turns = fc.array(
  fc.record({ pools: fc.array(fc.constantFrom(...POOLS), { minLength: 1, maxLength: 3 }), wait: fc.boolean() }),
  { minLength: 25, maxLength: 25 },
);

it("lets exactly one replica decide at a time: no machine has two owners and no answer is forgotten, while leaders are killed in a storm", async () => {
  await using server = await startTestNats();
  await using bus = await connectUser(server);
  const nodes = await openNodeWriter(bus);
  for (const pool of POOLS) for (const number of [0, 1, 2, 3]) await nodes.put(`${pool}${number}`, pool);
  await using first = startManager(server);
  await using second = startManager(server);
  const managers = [first, second];
  const leader = await leaderOf(managers);
  const reservations = makeReservations(bus);
  const storm: Storm = { over: false, grants: 0, claims: new Claims(), reservations };
  const ragesOn = (what: string): Promise<unknown> => {
    const enough = storm.grants + 100;
    return until(`the storm rages ${what}`, () => storm.grants > enough);
  };

  const plans = fc.sample(turns, { seed: 20_260_101, numRuns: 24 });
  const owners = Promise.all(plans.map((plan, index) => oneOwner(`o${index}`, plan, storm)));
  await ragesOn("at first");
  await leader.end("SIGKILL");
  await using third = startManager(server);
  const next = await leaderOf([...managers, third].filter((manager) => manager !== leader));
  await ragesOn("after a leader was killed");
  await next.end("SIGTERM");
  await ragesOn("after a leader was stopped");
  storm.over = true;
  await owners;

  const { reservations: listed } = await retryUntilAnswered(() => reservations.listReservations({}));
  const held = new Map<string, string>();
  for (const { owner: holder, machines } of listed)
    for (const { node } of machines) {
      expect(held.has(node)).toBe(false);
      held.set(node, holder?.id ?? "");
    }
  for (const [node, holder] of storm.claims.byNode) expect([node, held.get(node)]).toEqual([node, holder]);
  for (const { available, held: inPool, capacity } of (await reservations.listPools({})).pools)
    expect(available + inPool).toBe(capacity);
  for (const manager of [...managers, third]) expect(manager.errors).toEqual([]);
});

it("is durable: continues with the same ledger when the leader is killed", async () => {
  await using server = await startTestNats();
  await using bus = await connectUser(server);
  const nodes = await openNodeWriter(bus);
  await nodes.put("a0", "a");
  await using first = startManager(server);
  const leader = await leaderOf([first]);
  await using second = startManager(server, { RESERVATION_LOCK_TTL_MS: "10000" });
  const reservations = makeReservations(bus);
  for (const id of ["x", "y", "z"])
    await reservations.reserve({ owner: owner(id), needs: buildNeeds("a"), wait: true });
  await retryUntilAnswered(() => reservations.unreserve({ owner: owner("x"), reservationId: "r-1" }));
  const before = await reservations.listReservations({});
  await leader.end("SIGKILL");
  const after = await retryUntilAnswered(() => reservations.listReservations({}));
  expect(after).toEqual(before);
  expect(second.leads).toBe(1);
  expect((await reservations.reserve({ owner: owner("w"), needs: buildNeeds("a"), wait: true })).reservation?.id).toBe(
    "r-4",
  );
});

it("releases the lead immediately when it is stopped, and exits with code 0", async () => {
  await using server = await startTestNats();
  await using bus = await connectUser(server);
  await using first = startManager(server, { RESERVATION_LOCK_TTL_MS: "600000" });
  await leaderOf([first]);
  await using second = startManager(server, { RESERVATION_LOCK_TTL_MS: "600000" });
  await makeReservations(bus).listPools({});
  expect(await first.end("SIGTERM")).toBe(0);
  await leaderOf([second]);
  await makeReservations(bus).listPools({});
  expect([first.errors, second.errors]).toEqual([[], []]);
});

it("continues after NATS was unavailable, with every acknowledged change", async () => {
  await using server = await startTestNats();
  await using bus = await connectUser(server);
  const nodes = await openNodeWriter(bus);
  await nodes.put("a0", "a");
  await using manager = startManager(server);
  const reservations = makeReservations(bus);
  const request = { owner: owner("x"), needs: buildNeeds("a") };
  const { reservation } = await reservations.reserve(request);
  await server.kill();
  await server.start();
  expect((await retryUntilAnswered(() => reservations.reserve(request))).reservation).toEqual(reservation);
  const { released } = await retryUntilAnswered(() =>
    reservations.unreserve({ owner: owner("x"), reservationId: "r-1" }),
  );
  expect(released).toBe(true);
  expect(manager.errors).toEqual([]);
});

it("loses the lead to another replica while it is frozen; then it cannot write, drops no requests, steps down and stands by", async () => {
  await using server = await startTestNats();
  await using bus = await connectUser(server);
  const nodes = await openNodeWriter(bus);
  for (const name of ["a0", "a1"]) await nodes.put(name, "a");
  const env = { RESERVATION_LOCK_TTL_MS: "10000" };
  await using first = startManager(server, env);
  await leaderOf([first]);
  await using second = startManager(server, env);
  const reservations = makeReservations(bus);
  const reserve = (id: string) => reservations.reserve({ owner: owner(id), needs: buildNeeds("a"), wait: true });
  await reserve("x");

  first.freeze();
  // Only the frozen leader serves: this request stays in its socket until it resumes.
  await expect(
    reservations.reserve({ owner: owner("late"), needs: buildNeeds("a"), wait: true }, { timeoutMs: 300 }),
  ).rejects.toMatchObject({ fault: { code: "deadline_exceeded" } });
  await leaderOf([second]);
  await until("no request is swallowed any more", async () => {
    for (let call = 0; call < 30; call += 1) await reservations.listReservations({}, { timeoutMs: 1000 });
    return true;
  });
  expect((await reserve("y")).reservation?.machines).toMatchObject([{ node: "a1" }]);
  await reservations.unreserve({ owner: owner("x"), reservationId: "r-1" });
  expect((await reserve("z")).reservation?.machines).toMatchObject([{ node: "a0" }]);
  const before = await reservations.listReservations({});

  first.goOn();
  await until("the old leader knows that it leads no more", () => first.losses === 1);
  for (let call = 0; call < 30; call += 1) expect(await reservations.listReservations({})).toEqual(before);
  expect(before.reservations.map((one) => one.owner?.id)).toEqual(["y", "z"]);
  expect([first.leads, second.leads]).toEqual([1, 1]);

  // The next leader reads the state on disk.
  await second.end("SIGKILL");
  expect(await retryUntilAnswered(() => reservations.listReservations({}))).toEqual(before);
  expect([first.leads, first.errors, second.errors]).toEqual([2, [], []]);
});

it("has on disk whatever it answered when the leader is killed with 256 requests in flight, and accepts repetitions of the rest", async () => {
  await using server = await startTestNats();
  await using bus = await connectUser(server);
  const nodes = await openNodeWriter(bus);
  await Promise.all(Array.from({ length: 64 }, (_, index) => nodes.put(`a${index}`, "a")));
  await using first = startManager(server);
  await leaderOf([first]);
  await using second = startManager(server);
  const reservations = makeReservations(bus);
  // Some requests time out while the leader is dead.
  const limit = { timeoutMs: 5000 };
  const reserve = (id: string) => reservations.reserve({ owner: owner(id), needs: buildNeeds("a"), wait: true }, limit);
  const answered = new Map<string, string>();
  const unanswered: string[] = [];
  const enough = Promise.withResolvers<undefined>();
  let killed = false;
  const work = async (worker: number): Promise<void> => {
    for (let turn = 0; !killed; turn += 1) {
      const id = `w${worker}-${turn}`;
      try {
        const { reservation } = await reserve(id);
        answered.set(id, reservation?.id ?? "none");
      } catch {
        unanswered.push(id);
      }
      if (answered.size > 600) enough.resolve(undefined);
    }
  };
  const workers = Array.from({ length: 256 }, (_, worker) => work(worker));
  await enough.promise;
  killed = true;
  await first.end("SIGKILL");
  await Promise.all(workers);

  for (const id of unanswered)
    answered.set(id, (await retryUntilAnswered(() => reserve(id))).reservation?.id ?? "none");
  const known = new Map<string, string>();
  const held: string[] = [];
  for (let from = "", more = true; more;) {
    const page = await retryUntilAnswered(() => reservations.listReservations({ continue: from }));
    for (const { id, owner: of, machines } of page.reservations) {
      known.set(of?.id ?? "", id);
      held.push(...machines.map(({ node }) => node));
    }
    from = page.continue;
    more = from !== "";
  }
  expect(new Map([...known].sort())).toEqual(new Map([...answered].sort()));
  expect(new Set(known.values()).size).toBe(known.size);
  expect([held.length, new Set(held).size]).toEqual([64, 64]);
  expect(second.errors).toEqual([]);
});

it("recovers after NATS was unavailable for longer than any lock, and every owner keeps its machines", async () => {
  await using server = await startTestNats();
  await using bus = await connectUser(server);
  const nodes = await openNodeWriter(bus);
  for (const name of ["a0", "a1"]) await nodes.put(name, "a");
  await using first = startManager(server);
  await leaderOf([first]);
  await using second = startManager(server);
  const reservations = makeReservations(bus);
  const kept = { owner: owner("kept"), needs: buildNeeds("a") };
  const { reservation } = await reservations.reserve(kept);
  await reservations.reserve({ owner: owner("x"), needs: buildNeeds("a") });
  await reservations.reserve({ owner: owner("y"), needs: buildNeeds("a"), wait: true });

  const losses = (): number => first.losses + second.losses;
  const before = losses();
  await server.kill();
  await until("the leader knows that it has lost the lead", () => losses() > before);
  await expect(reservations.listPools({}, { timeoutMs: 300 })).rejects.toMatchObject({
    fault: { code: expect.stringMatching(/unavailable|deadline_exceeded/) as string },
  });
  await server.start();

  const after = await retryUntilAnswered(() => reservations.getReservation({ owner: kept.owner }));
  expect(after.reservation?.machines).toEqual(reservation?.machines);
  await retryUntilAnswered(() => reservations.unreserve({ owner: owner("x"), reservationId: "r-2" }));
  const { reservation: next } = await retryUntilAnswered(() => reservations.getReservation({ owner: owner("y") }));
  expect(next?.machines).toMatchObject([{ node: "a1" }]);
  expect([...first.errors, ...second.errors]).toEqual([]);
});

it("continues after NATS was unavailable longer than every limit: no grant is lost, doubled or made on nodes that may be gone", async () => {
  await using server = await startTestNats();
  await using bus = await connectUser(server);
  const nodes = await openNodeWriter(bus);
  for (const name of ["a0", "a1"]) await nodes.put(name, "a");
  // Both limits pass before NATS is back: the lead is lost, and the mark of the nodes is outdated.
  const env = {
    RESERVATION_LOCK_TTL_MS: "1000",
    RESERVATION_NODES_FRESH_MS: "1000",
  };
  await using first = startManager(server, env);
  await leaderOf([first]);
  await using second = startManager(server, env);
  const reservations = makeReservations(bus);
  for (const id of ["x", "y", "z"])
    await retryUntilAnswered(() => reservations.reserve({ owner: owner(id), needs: buildNeeds("a"), wait: true }));
  const listed = async () => {
    const { reservations: all } = await retryUntilAnswered(() => reservations.listReservations({}));
    return all.map(({ id, owner: of, machines }) => [id, of?.id, machines.map(({ node }) => node)]);
  };
  await until("two are granted", async () => {
    await nodes.complete();
    return (await listed()).flatMap(([, , held]) => held).length === 2;
  });
  const before = await listed();
  const awayFromMs = Date.now();
  await server.kill();
  await until("every limit is over", () => Date.now() - awayFromMs > 1000 && first.losses + second.losses > 0);
  await server.start();

  expect(await listed()).toEqual(before);
  await retryUntilAnswered(() => reservations.unreserve({ owner: owner("x"), reservationId: "r-1" }));
  const { reservation: waiting } = await retryUntilAnswered(() => reservations.getReservation({ owner: owner("z") }));
  expect([waiting?.id, waiting?.because?.code]).toEqual(["r-3", "POOLS_NOT_KNOWN_YET"]);
  await nodes.complete();
  await until("the machine is given on", async () => {
    const { reservation: next } = await retryUntilAnswered(() => reservations.getReservation({ owner: owner("z") }));
    return next?.machines[0]?.node === "a0";
  });
  expect([...first.errors, ...second.errors]).toEqual([]);
});
