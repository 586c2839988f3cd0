import { jetstreamManager } from "@nats-io/jetstream";
import { findFault } from "@muster/faults";
import { ReservationService, SessionService, streams, subjects } from "@muster/proto";
import { startTestNats, until, type TestNats } from "@muster/testkit";
import { afterAll, beforeAll, expect, it } from "vitest";
import { makeClient, connectNats, serveMethods, type Handlers, type NatsBus } from "../src/index.ts";
import { buildStreamConfig } from "../src/nats-streams.ts";
import { answered } from "./answered.ts";

let server: TestNats;
let bus: NatsBus;
let replica: NatsBus;
beforeAll(async () => {
  server = await startTestNats();
  bus = await connectNats({ url: server.url, token: server.token, name: "one" });
  replica = await connectNats({ url: server.url, token: server.token, name: "two" });
});
afterAll(async () => {
  await bus[Symbol.asyncDispose]();
  await replica[Symbol.asyncDispose]();
  await server[Symbol.asyncDispose]();
});

const reservations = answered({ listReservations: () => Promise.reject(new Error("a defect")) });
const identity = { version: "1.2.3", description: "the ledger" };

it("finds no service where none runs", async () => {
  expect(await bus.services()).toEqual([]);
});

it("reports every replica with name, version, description, endpoints and counters", async () => {
  await using _one = await serveMethods(bus, ReservationService, reservations, identity);
  await using _two = await serveMethods(replica, ReservationService, reservations, identity);
  const found = await replica.services();
  expect(found).toHaveLength(2);
  for (const service of found)
    expect(service).toMatchObject({
      name: "reservation",
      ...identity,
      metadata: { service: "muster.reservation.v1.ReservationService" },
    });
  expect(new Set(found.map(({ id }) => id)).size).toBe(2);

  const { listReservations } = makeClient(bus, ReservationService);
  await listReservations({}).catch(() => undefined);
  const info = await ask("INFO");
  expect(info.endpoints).toContainEqual({
    name: "list-pools",
    subject: subjects.request("reservation", "list-pools"),
    queue_group: "q",
  });
  await until("one replica counts the request", async () => {
    const counted = await Promise.all(found.map(({ id }) => ask("STATS", id)));
    return counted
      .flatMap(({ endpoints }) => endpoints)
      .some(({ name, num_requests }) => name === "list-reservations" && num_requests === 1);
  });
});

it("lists the signals that a replica lost, with their number", async () => {
  await using _one = await serveMethods(bus, ReservationService, reservations, identity);
  await using _two = await serveMethods(replica, ReservationService, reservations, identity);
  expect(await bus.droppedSignals()).toEqual([]);
  const busy = Promise.withResolvers<undefined>();
  await using _slow = await replica.listen("test.much.*", () => busy.promise, { maxPending: 2 });
  for (let n = 1; n <= 8; n += 1) bus.signal("test.much.a", new Uint8Array([n]));
  await until("the first loss is reported", async () => (await bus.droppedSignals()).length > 0);
  busy.resolve(undefined);
  await until("all losses are reported", async () => (await bus.droppedSignals())[0]?.dropped !== 1);
  expect(await bus.droppedSignals()).toEqual([
    { service: "reservation", id: expect.any(String) as string, subject: "test.much.*", dropped: 5 },
  ]);
});

it("is no longer listed once it has stopped", async () => {
  const handlers = new Proxy({}, { get: () => () => Promise.resolve({}) }) as Handlers<typeof SessionService>;
  const service = await serveMethods(bus, SessionService, handlers, identity);
  expect((await bus.services()).map(({ name }) => name)).toEqual(["session"]);
  await service[Symbol.asyncDispose]();
  expect(await bus.services()).toEqual([]);
});

it("keeps each stream by its retention", async () => {
  for (const stream of [streams.events, streams.leaseOrders, streams.dead]) await bus.ensureStream(stream);
  const jsm = await jetstreamManager(bus.connection);
  const configOf = async (name: string): Promise<unknown> => (await jsm.streams.info(name)).config;
  expect(await configOf(streams.events.name)).toMatchObject({
    retention: "limits",
    storage: "file",
    discard: "old",
    max_age: 7 * 24 * 3600 * 1e9,
    max_bytes: 256 * 1024 * 1024,
  });
  expect(await configOf(streams.leaseOrders.name)).toMatchObject({
    retention: "workqueue",
    storage: "file",
    discard: "new",
    max_msgs_per_subject: 1,
    discard_new_per_subject: true,
    max_bytes: 64 * 1024 * 1024,
  });
});

it("gives every stream a limit of bytes, so that none uses the space of the others", () => {
  for (const stream of [streams.events, streams.leaseOrders, streams.audit, streams.dead])
    expect(buildStreamConfig(stream).max_bytes, stream.name).toBeGreaterThan(0);
});

it("refuses messages beyond the limit of a work queue, keeps the queued ones, and still serves everything else", async () => {
  const queue = { name: "FULL", subjects: ["test.full.*"], retention: "workqueue", maxBytes: 64 * 1024 } as const;
  await bus.ensureStream(queue);
  const payload = new Uint8Array(20 * 1024);
  const send = (at: number) => bus.publish(`test.full.${at}`, payload, { messageId: `full ${at}` });
  for (const at of [1, 2, 3]) await send(at);
  expect(findFault(await send(4).catch((error: unknown) => error))).toMatchObject({
    code: "limit_exceeded",
    what: expect.stringContaining("maximum bytes") as string,
    retryAfterMs: expect.toSatisfy((ms: number) => ms > 0) as number,
  });
  expect((await bus.streamState("FULL"))?.messages).toBe(3);
  await bus.ensureStream({ name: "BESIDE", subjects: ["test.beside"], retention: "limits" });
  expect((await bus.publish("test.beside", payload, { messageId: "beside" })).sequence).toBe(1);
});

it("updates an existing consumer to a changed configuration", async () => {
  const { name } = streams.events;
  const consuming = { stream: name, durable: "changing", subject: subjects.anyReservationGranted };
  const first = await bus.consume({ ...consuming, maxInFlight: 4, ackWaitMs: 5000 }, () => Promise.resolve());
  await first[Symbol.asyncDispose]();
  const changed = { ...consuming, subject: subjects.anySessionEventRecorded, maxInFlight: 9, ackWaitMs: 7000 };
  await using _second = await bus.consume(changed, () => Promise.resolve());
  const { consumers } = await jetstreamManager(bus.connection);
  expect((await consumers.info(name, "changing")).config).toMatchObject({
    ack_policy: "explicit",
    filter_subject: subjects.anySessionEventRecorded,
    ack_wait: 7000 * 1e6,
  });
});

type Described = { endpoints: { name: string; subject: string; queue_group: string; num_requests?: number }[] };

async function ask(verb: "INFO" | "STATS", id?: string): Promise<Described> {
  const subject = id === undefined ? `$SRV.${verb}.reservation` : `$SRV.${verb}.reservation.${id}`;
  return (await bus.connection.request(subject)).json<Described>();
}
