import { makeClient, type NatsBus } from "@muster/bus";
import { muster, ReservationService, streams, subjects } from "@muster/proto";
import { startTestNats, startOtlpCollector, makePatientClient, until } from "@muster/testkit";
import { expect, it } from "vitest";
import { makeLargeLedger, readSnapshotRevision, writeLedger } from "./large-ledger.ts";
import {
  connectUser,
  buildNeeds,
  openNodeWriter,
  retryUntilAnswered,
  makeReservations,
  startManager,
} from "./managers.ts";
import { followNews } from "./news.ts";

const { RESERVATION_STATE_GRANTED: GRANTED, RESERVATION_STATE_WAITING: WAITING } =
  muster.reservation.v1.ReservationState;

const owner = (id: string) => ({ kind: "session", id });

it("answers as the contract states: typed errors immediately, grants as events, a release of nothing as a reported no-op", async () => {
  await using server = await startTestNats();
  await using bus = await connectUser(server);
  const nodes = await openNodeWriter(bus);
  await nodes.put("a1", "a");
  await nodes.put("a2", "a");
  await using manager = startManager(server);
  const reservations = makeReservations(bus);

  const reserve = { owner: owner("x"), needs: buildNeeds("a", "a"), wait: true };
  const { reservation } = await reservations.reserve(reserve);
  expect(reservation).toMatchObject({
    id: "r-1",
    state: GRANTED,
    machines: [
      { component: "c0", pool: "a", node: "a1" },
      { component: "c1", pool: "a", node: "a2" },
    ],
  });
  expect((await reservations.reserve(reserve)).reservation).toEqual(reservation);
  expect((await reservations.getReservation({ owner: owner("x") })).reservation).toEqual(reservation);

  await expect(reservations.reserve({ ...reserve, needs: buildNeeds("a") })).rejects.toMatchObject({
    fault: { code: "reservation_differs", ownerId: "x" },
  });
  await expect(reservations.reserve({ owner: owner("y"), needs: buildNeeds("b") })).rejects.toMatchObject({
    fault: { code: "pool_unknown", pool: "b" },
  });
  await expect(
    reservations.reserve({ owner: owner("y"), needs: buildNeeds("a", "a", "a"), wait: true }),
  ).rejects.toMatchObject({ fault: { code: "pool_capacity", pool: "a", requested: 3, capacity: 2 } });
  await expect(reservations.reserve({ owner: owner("y"), needs: buildNeeds("a") })).rejects.toMatchObject({
    fault: { code: "pool_availability", pool: "a", requested: 1, available: 0 },
  });

  const queued = await reservations.reserve({ owner: owner("y"), needs: buildNeeds("a"), wait: true, priority: -1 });
  expect(queued.reservation).toMatchObject({
    state: WAITING,
    priority: -1,
    because: { code: "POOL_AVAILABILITY", pool: "a", requested: 1, available: 0, ahead: 0 },
  });
  expect((await reservations.listPools({})).pools).toMatchObject([
    { name: "a", available: 0, capacity: 2, held: 2, unusable: 0, waiting: 1 },
  ]);
  const first = await reservations.listReservations({ limit: 1 });
  const second = await reservations.listReservations({ limit: 1, continue: first.continue });
  expect([...first.reservations, ...second.reservations].map((one) => one.owner?.id)).toEqual(["x", "y"]);
  expect(second.continue).toBe("");
  expect(second.reservations).toMatchObject([{ id: "r-2", sequence: 2 }]);
  expect([first.nextSequence, second.nextSequence]).toEqual([3, 3]);

  await expect(reservations.unreserve({ owner: owner("x") })).rejects.toMatchObject({
    fault: { code: "invalid_request", field: "reservation_id" },
  });
  const release = { owner: owner("x"), reservationId: "r-1" };
  expect(await reservations.unreserve({ ...release, reservationId: "r-2" })).toMatchObject({ released: false });
  expect(await reservations.unreserve(release)).toMatchObject({ released: true });
  expect(await reservations.unreserve(release)).toMatchObject({ released: false });
  expect((await reservations.getReservation({ owner: owner("y") })).reservation).toMatchObject({ state: GRANTED });
  await expect(reservations.getReservation({ owner: owner("x") })).rejects.toMatchObject({
    fault: { code: "not_found" },
  });

  await using news = await followNews(bus);
  await until("both grants and the release were published", () => news.published.length === 3);
  expect(news.published.sort()).toEqual(["granted r-1", "granted r-2", "released r-1"]);
  expect(manager.errors).toEqual([]);
});

it("applies the newest limit of a kind to waiting requests, named by a later request or without one, and after a leader was killed", async () => {
  await using server = await startTestNats();
  await using bus = await connectUser(server);
  const nodes = await openNodeWriter(bus);
  for (const name of ["a1", "a2", "a3", "a4"]) await nodes.put(name, "a");
  await using first = startManager(server);
  const reservations = makeReservations(bus);
  const reserve = (id: string, concurrencyLimit: number) =>
    reservations.reserve({ owner: owner(id), needs: buildNeeds("a"), wait: true, concurrencyLimit });
  const granted = async () => {
    const { reservations: all } = await retryUntilAnswered(() => reservations.listReservations({}));
    return all.filter(({ state }) => state === GRANTED).map((one) => one.owner?.id);
  };
  for (const id of ["s", "t", "u", "v"]) await reserve(id, 1);
  expect(await granted()).toEqual(["s"]);
  await reserve("w", 2);
  expect(await granted()).toEqual(["s", "t"]);
  expect(await reservations.limitConcurrency({ ownerKind: "session", limit: 3 })).toMatchObject({ changed: true });
  expect(await granted()).toEqual(["s", "t", "u"]);
  expect(await reservations.limitConcurrency({ ownerKind: "session", limit: 3 })).toMatchObject({ changed: false });
  expect((await reservations.explainReservation({ owner: owner("v") })).concurrency).toMatchObject({ limit: 3 });

  await first.end("SIGKILL");
  await using second = startManager(server);
  expect(await granted()).toEqual(["s", "t", "u"]);
  await retryUntilAnswered(() => reservations.unreserve({ owner: owner("s"), reservationId: "r-1" }));
  expect(await granted()).toEqual(["t", "u", "v"]);
  expect([...first.errors, ...second.errors]).toEqual([]);
});

it("answers invalid_request to undecodable bytes, on every method", async () => {
  await using server = await startTestNats();
  await using bus = await connectUser(server);
  await using manager = startManager(server);
  await makeReservations(bus).listPools({});
  for (const { verb } of Object.values(ReservationService.methods)) {
    for (const bytes of [[0xff], [0x0a, 0x7f, 0x01], [0x0f]]) {
      const subject = subjects.request("reservation", verb);
      const reply = await bus.request(subject, Uint8Array.from(bytes), { timeoutMs: 30_000 });
      const fault = muster.common.v1.Fault.decode(reply.payload);
      expect([verb, fault.code, fault.reason]).toEqual([verb, 3, "INVALID_REQUEST"]);
    }
  }
  const { reserve, unreserve, getReservation, explainReservation, limitConcurrency } = makeReservations(bus);
  for (const call of [reserve, unreserve, getReservation, explainReservation, limitConcurrency])
    await expect(call({})).rejects.toMatchObject({ fault: { code: "invalid_request" } });
  expect(manager.errors).toEqual([]);
});

it("grants an owner several machines of one pool, a different one for each component, all or none", async () => {
  await using server = await startTestNats();
  await using bus = await connectUser(server);
  const nodes = await openNodeWriter(bus);
  for (const name of ["a1", "a2", "a3", "a4", "a5"]) await nodes.put(name, "a");
  await using manager = startManager(server);
  const reservations = makeReservations(bus);
  const reserve = (id: string, ...pools: string[]) =>
    reservations.reserve({ owner: owner(id), needs: buildNeeds(...pools), wait: true });
  const first = (await reserve("x", "a", "a", "a")).reservation;
  expect(first?.machines.map(({ component, node }) => [component, node])).toEqual([
    ["c0", "a1"],
    ["c1", "a2"],
    ["c2", "a3"],
  ]);
  const waiting = (await reserve("y", "a", "a", "a")).reservation;
  expect(waiting).toMatchObject({ state: WAITING, because: { pool: "a", requested: 3, available: 2 } });
  expect((await reservations.listPools({})).pools).toMatchObject([{ available: 2, held: 3, waiting: 1 }]);
  expect((await reserve("z", "a", "a")).reservation?.machines).toHaveLength(2);

  await reservations.unreserve({ owner: owner("x"), reservationId: first?.id ?? "" });
  const { reservation: granted } = await reservations.getReservation({ owner: owner("y") });
  expect(granted?.machines.map(({ node }) => node)).toEqual(["a1", "a2", "a3"]);
  expect((await reservations.listPools({})).pools).toMatchObject([{ available: 0, held: 5, waiting: 0 }]);
  expect(manager.errors).toEqual([]);
});

it("explains why a request waits, with a stable code, the numbers and who holds the machines", async () => {
  await using server = await startTestNats();
  await using bus = await connectUser(server);
  const nodes = await openNodeWriter(bus);
  await nodes.put("a1", "a");
  await nodes.put("a2", "a", { ready: false });
  await using _manager = startManager(server);
  const reservations = makeReservations(bus);
  await reservations.reserve({ owner: owner("x"), needs: buildNeeds("a") });
  await reservations.reserve({ owner: owner("y"), needs: buildNeeds("a"), wait: true, concurrencyLimit: 9 });
  expect(await reservations.explainReservation({ owner: owner("y") })).toMatchObject({
    reservation: { id: "r-2", state: WAITING },
    code: "POOL_AVAILABILITY",
    message: expect.stringContaining("held by session x (1)") as string,
    pools: [
      {
        pool: "a",
        requested: 1,
        available: 0,
        capacity: 1,
        held: 1,
        unusable: 1,
        unusableNodes: [{ node: "a2", reason: "NOT_READY" }],
        holders: [{ owner: owner("x"), reservationId: "r-1", machines: 1 }],
      },
    ],
    place: { ahead: 0 },
    concurrency: { limit: 9, granted: 1, holders: [{ owner: owner("x") }] },
  });
  expect(await reservations.explainReservation({ owner: owner("x") })).toMatchObject({
    code: "",
    message: "holds 1 machine",
  });
  await expect(reservations.explainReservation({ owner: owner("z") })).rejects.toMatchObject({
    fault: { code: "not_found", id: "session/z" },
  });
});

it("records its decisions and their reasons in traces and metrics", async () => {
  await using server = await startTestNats();
  await using bus = await connectUser(server);
  await using collector = await startOtlpCollector();
  const nodes = await openNodeWriter(bus);
  await nodes.put("a1", "a");
  await using manager = startManager(server, collector.variables);
  const reservations = makeReservations(bus);
  await reservations.reserve({ owner: owner("x"), needs: buildNeeds("a") });
  await reservations.reserve({ owner: owner("y"), needs: buildNeeds("a"), wait: true });
  await expect(reservations.reserve({ owner: owner("z"), needs: buildNeeds("b") })).rejects.toThrow("b does not exist");

  const decision = (id: string) =>
    until(`the decision about ${id} was exported`, () =>
      collector.spans.find((span) => span.name === "decide reservation" && span.attributes["muster.owner.id"] === id),
    );
  expect(await decision("x")).toMatchObject({ attributes: { "muster.outcome": "grant", "muster.because": "FITS" } });
  expect(await decision("y")).toMatchObject({
    attributes: {
      "muster.outcome": "queue",
      "muster.because": "POOL_AVAILABILITY",
      "muster.reservation": "r-2",
      "muster.wait.pool": "a",
      "muster.wait.available": 0,
    },
  });
  const refused = await decision("z");
  expect(refused.attributes).toMatchObject({ "muster.outcome": "refuse", "muster.because": "POOL_UNKNOWN" });
  expect(collector.spans.find(({ spanId }) => spanId === refused.parentSpanId)?.name).toBe(
    "process muster.req.reservation.reserve",
  );

  const address = await until("the address was logged", () => manager.http);
  const response = await fetch(new URL("/metrics", address.includes("://") ? address : `http://${address}`));
  const metrics = await response.text();
  expect(metrics).toMatch(/^muster_reservation_waiting\S* 1/m);
  expect(metrics).toMatch(/^muster_reservation_held\{[^}]*pool="a"[^}]*\} 1/m);
  expect(metrics).toMatch(/^muster_reservation_overcommitted\{[^}]*pool="a"[^}]*\} 0/m);
  expect(metrics).toMatch(/^muster_reservation_decisions_total\{[^}]*outcome="pool_unknown"[^}]*\} 1/m);
});

it("keeps the lead while it reads and writes the snapshot of a long queue", async () => {
  const ledger = makeLargeLedger(50_000);
  await using server = await startTestNats();
  await using bus = await connectUser(server);
  await writeLedger(bus, ledger);
  const nodes = await openNodeWriter(bus);
  await nodes.put("a1", "a");
  const before = await readSnapshotRevision(bus);
  await using manager = startManager(server, { RESERVATION_LOCK_TTL_MS: "15000" });
  const reservations = makeReservations(bus);
  expect((await reservations.listPools({}, { timeoutMs: 60_000 })).pools).toMatchObject([{ name: "a" }]);
  // Decisions that change the ledger are separate entries if each is answered before the next request.
  for (let turn = 0; (await readSnapshotRevision(bus)) === before; turn += 1) {
    const { reservation } = await reservations.reserve({ owner: owner(`t${turn}`), needs: buildNeeds("a") });
    await reservations.unreserve({ owner: owner(`t${turn}`), reservationId: reservation?.id ?? "" });
  }
  expect([manager.leads, manager.losses, manager.errors]).toEqual([1, 0, []]);
});

it("batches concurrent requests into one write, and traces every held machine to its owner", async () => {
  await using server = await startTestNats();
  await using bus = await connectUser(server);
  const nodes = await openNodeWriter(bus);
  const names = Array.from({ length: 200 }, (_, index) => `a${index}`);
  for (const name of names) await nodes.put(name, "a");
  await using _manager = startManager(server);
  const reservations = makeReservations(bus);
  await reservations.listPools({});
  const before = (await bus.streamState(streams.ledger.name))?.messages ?? 0;
  await Promise.all(names.map((id) => reservations.reserve({ owner: owner(id), needs: buildNeeds("a") })));
  const entries = ((await bus.streamState(streams.ledger.name))?.messages ?? 0) - before;
  expect(entries).toBeGreaterThan(0);
  expect(entries).toBeLessThan(names.length / 2);
  const { reservations: listed } = await reservations.listReservations({ ownerKind: "session" });
  const owners = new Map(listed.flatMap((one) => one.machines.map(({ node }) => [node, one.owner?.id])));
  expect([...owners.keys()].sort()).toEqual([...names].sort());
  expect(new Set(owners.values()).size).toBe(names.length);
});

it("limits the request rate of users and of lists, but not reservations and releases by services", async () => {
  await using server = await startTestNats();
  await using controller = await connectUser(server, "session-controller");
  await (await openNodeWriter(controller)).put("a1", "a");
  await using _manager = startManager(server, { MUSTER_REQUESTS_PER_SECOND: "1", MUSTER_REQUESTS_BURST: "3" });
  await makeReservations(controller).listPools({});
  const asking = (bus: NatsBus) => makePatientClient(makeClient(bus, ReservationService, { repeat: "never" }));
  const reservations = asking(controller);

  for (let turn = 0; turn < 20; turn += 1) {
    const each = { owner: owner(`x${turn}`) };
    const { reservation } = await reservations.reserve({ ...each, needs: buildNeeds("a") });
    expect((await reservations.getReservation(each)).reservation).toEqual(reservation);
    expect(await reservations.unreserve({ ...each, reservationId: reservation?.id ?? "" })).toEqual({ released: true });
  }

  const fault = { code: "limit_exceeded", limit: 1 };
  const lists = Array.from({ length: 40 }, () => reservations.listPools({}));
  await expect(Promise.all(lists)).rejects.toMatchObject({ fault });
  await using terminal = await connectUser(server, "cli");
  const check = { owner: owner("z"), needs: buildNeeds("a") };
  const checks = Array.from({ length: 40 }, () => asking(terminal).checkReservation(check));
  await expect(Promise.all(checks)).rejects.toMatchObject({ fault });
});

it("grants parts of machines, counts foreign pods, and restores both after a restart", async () => {
  await using server = await startTestNats();
  await using bus = await connectUser(server);
  const nodes = await openNodeWriter(bus);
  const allocatable = { cpu: 4000, memory: 8000, pods: 10, "nvidia.com/gpu": 4 };
  await nodes.put("a1", "a", { allocatable });
  const use = { pods: 1, requests: { cpu: 1000 }, examples: ["web/shop"] };
  await nodes.put("a2", "a", { allocatable, foreign: muster.watch.v1.NodeUse.create(use) });
  const reservations = makeReservations(bus);
  const gang = (id: string, gpus: readonly number[]) => ({
    owner: owner(id),
    needs: gpus.map((count, index) => ({
      component: `worker-${index}`,
      pool: "a",
      shared: { requests: { cpu: 500, "nvidia.com/gpu": count } },
    })),
    wait: true,
  });
  const before = await (async () => {
    await using manager = startManager(server);
    await reservations.reserve(gang("one", [2]));
    await reservations.reserve(gang("two", [4, 2]));
    await reservations.reserve({ owner: owner("whole"), needs: buildNeeds("a"), wait: true });
    const listed = await reservations.listReservations({});
    expect(manager.errors).toEqual([]);
    return listed;
  })();
  expect(before.reservations.map(({ owner: of, machines }) => [of?.id, machines.map(({ node }) => node)])).toEqual([
    ["one", ["a2"]],
    ["two", ["a1", "a2"]],
    ["whole", []],
  ]);
  await using manager = startManager(server);
  expect((await reservations.listReservations({})).reservations).toEqual(before.reservations);
  expect((await reservations.listMachines({ pool: "a" })).machines).toMatchObject([
    {
      node: "a1",
      standing: "SHARED",
      allocatable,
      free: { cpu: 3500, memory: 8000, pods: 9, "nvidia.com/gpu": 0 },
      sharedHolders: [{ owner: { id: "two" }, machines: 2 }],
    },
    {
      node: "a2",
      standing: "SHARED",
      free: { cpu: 2000, memory: 8000, pods: 7, "nvidia.com/gpu": 0 },
      sharedHolders: [{ owner: { id: "one" } }, { owner: { id: "two" } }],
      foreign: use,
    },
  ]);
  expect((await reservations.listPools({})).pools).toMatchObject([{ available: 0, capacity: 2, held: 2, waiting: 1 }]);
  await reservations.unreserve({ owner: owner("two"), reservationId: "r-2" });
  const { reservation } = await reservations.getReservation({ owner: owner("whole") });
  expect(reservation?.machines).toMatchObject([{ node: "a1" }]);
  expect(manager.errors).toEqual([]);
});
