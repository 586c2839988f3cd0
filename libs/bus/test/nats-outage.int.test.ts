import { createServer, type AddressInfo } from "node:net";
import { once } from "node:events";
import { jetstreamManager } from "@nats-io/jetstream";
import { ReservationService, muster, subjects } from "@muster/proto";
import { startTestNats, until, type TestNats } from "@muster/testkit";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import {
  makeClient,
  connectNats,
  consumeEvents,
  publishEvent,
  serveMethods,
  type Handlers,
  type NatsBus,
} from "../src/index.ts";
import { answered } from "./answered.ts";
import { catchFault } from "./call-suite.ts";

const Granted = muster.reservation.v1.ReservationGranted;
const nothing = new Uint8Array();
const consuming = { durable: "worker", maxInFlight: 4, ackWaitMs: 3000, area: "test" };

let server: TestNats;
let killed = false;
const opened: NatsBus[] = [];

async function kill(): Promise<void> {
  killed = true;
  await server.kill();
}

async function restart(): Promise<void> {
  await server.start();
  killed = false;
}

beforeAll(async () => {
  server = await startTestNats();
});
afterEach(async () => {
  if (killed) await restart();
  await Promise.all(opened.splice(0).map((bus) => bus[Symbol.asyncDispose]()));
});
afterAll(async () => {
  await server[Symbol.asyncDispose]();
});

async function connected(name: string, status: string[] = [], signal?: AbortSignal): Promise<NatsBus> {
  const onStatus = (now: string): void => {
    status.push(now);
  };
  const bus = await connectNats({
    url: server.url,
    token: server.token,
    name,
    onStatus,
    drainMs: 2000,
    ...(signal && { signal }),
  });
  opened.push(bus);
  return bus;
}

it("delivers an answer across a restart of the server during the request", async () => {
  const status: string[] = [];
  const caller = await connected("caller", status);
  const service = await connected("service", status);
  const started = Promise.withResolvers<undefined>();
  const held = Promise.withResolvers<object>();
  let calls = 0;
  await serveMethods(
    service,
    ReservationService,
    handlersWith(() => {
      calls += 1;
      started.resolve(undefined);
      return held.promise;
    }),
    { version: "1.0.0", description: "" },
  );
  const call = makeClient(caller, ReservationService).listPools({}, { timeoutMs: 60_000 });
  await started.promise;
  await kill();
  await until("both have noticed", () => status.length === 2);
  await restart();
  await until("both are back", () => status.length === 4);
  held.resolve({ pools: [{ name: "kept" }] });
  expect((await call).pools).toMatchObject([{ name: "kept" }]);
  expect(calls).toBe(1);
  expect([...status].sort()).toEqual(["disconnected", "disconnected", "reconnected", "reconnected"]);
});

it("delivers an answer that was ready while the server was away, in either order of reconnects", async () => {
  const status: string[] = [];
  const caller = await connected("caller", status);
  const service = await connected("service", status);
  const started = Promise.withResolvers<undefined>();
  const held = Promise.withResolvers<object>();
  const handlers = handlersWith(() => {
    started.resolve(undefined);
    return held.promise;
  });
  await serveMethods(service, ReservationService, handlers, { version: "1.0.0", description: "" });
  const call = makeClient(caller, ReservationService).listPools({}, { timeoutMs: 60_000 });
  await started.promise;
  await kill();
  await until("both have noticed", () => status.length === 2);
  held.resolve({ pools: [{ name: "kept" }] });
  await restart();
  expect((await call).pools).toMatchObject([{ name: "kept" }]);
});

it("repeats a request that was lost with the connection, unless it must be sent once", async () => {
  const status: string[] = [];
  const caller = await connected("caller", status);
  const service = await connected("service", status);
  const arrived: string[] = [];
  const losing = ["reserve", "unreserve"].map((verb) =>
    service.connection.subscribe(subjects.request("reservation", verb), { callback: () => void arrived.push(verb) }),
  );
  await service.connection.flush();
  const stop = new AbortController();
  const { reserve, unreserve } = makeClient(caller, ReservationService);
  const repeated = reserve({}, { timeoutMs: 3_600_000 });
  const once = unreserve({}, { timeoutMs: 3_600_000, repeat: "never", signal: stop.signal });
  await until("both are lost", () => arrived.length === 2);
  await kill();
  await until("all have noticed", () => status.length === 2);
  for (const lost of losing) lost.unsubscribe();
  const handlers = answered({
    reserve: () => {
      arrived.push("reserve again");
      return Promise.resolve({ reservation: { id: "second" } });
    },
    unreserve: () => {
      arrived.push("unreserve again");
      return Promise.resolve({});
    },
  });
  await serveMethods(service, ReservationService, handlers, { version: "1.0.0", description: "" });
  await restart();
  expect((await repeated).reservation).toMatchObject({ id: "second" });
  stop.abort();
  expect(await catchFault(once)).toMatchObject({ code: "cancelled" });
  expect(arrived.toSorted()).toEqual(["reserve", "reserve again", "unreserve"]);
});

it("sends nothing while the connection is down, and rejects with unavailable at the deadline", async () => {
  const status: string[] = [];
  const caller = await connected("caller", status);
  await kill();
  await until("it is noticed", () => status.length > 0);
  const request = caller.request("test.down", nothing, { timeoutMs: 200 });
  expect(await catchFault(request)).toMatchObject({ code: "unavailable", dependency: "nats" });
  const call = makeClient(caller, ReservationService).listPools({}, { timeoutMs: 200 });
  expect(await catchFault(call)).toMatchObject({ code: "unavailable", dependency: "reservation" });
  expect(await catchFault(caller.publish("test.down", nothing, { messageId: "1" }))).toMatchObject({
    code: "unavailable",
    dependency: "nats",
  });
  await restart();
});

describe("a stop", () => {
  const noticed = (status: readonly string[], what: string) => until(what, () => status.includes(what));

  it("stops waiting for an unreachable server, and reports the status abandoned", async () => {
    const [status, stop] = [[] as string[], new AbortController()];
    const bus = await connected("stopping", status, stop.signal);
    await serveMethods(
      bus,
      ReservationService,
      handlersWith(() => Promise.resolve({})),
      { version: "1.0.0", description: "" },
    );
    await kill();
    await noticed(status, "disconnected");
    const long = { timeoutMs: 600_000 };
    const asked = catchFault(makeClient(bus, ReservationService).listPools({}, long));
    stop.abort();
    expect(await asked).toMatchObject({ code: "cancelled" });
    expect(status).toEqual(["disconnected", "abandoned"]);
    await bus[Symbol.asyncDispose]();
  });

  it("keeps using a reachable server, and abandons it when it becomes unreachable", async () => {
    const [status, stop] = [[] as string[], new AbortController()];
    const bus = await connected("stopping", status, stop.signal);
    stop.abort();
    await serveMethods(
      bus,
      ReservationService,
      handlersWith(() => Promise.resolve({})),
      { version: "1.0.0", description: "" },
    );
    await makeClient(bus, ReservationService).listPools({});
    await kill();
    await noticed(status, "abandoned");
    expect(status).toEqual(["disconnected", "abandoned"]);
  });
});

it("publishes messages once that it received while the server restarts", async () => {
  const status: string[] = [];
  const bus = await connected("publisher", status);
  await bus.ensureStream({ name: "RESTART", subjects: ["test.restart.>"], retention: "limits" });
  await kill();
  await until("it is noticed", () => status.length > 0);
  const published = bus.publish("test.restart.a", nothing, { messageId: "1" });
  await restart();
  expect((await published).sequence).toBe(1);
  expect(await bus.publish("test.restart.a", nothing, { messageId: "1" })).toEqual({ sequence: 1, duplicate: true });
});

it("loses no event when the server is killed while handlers run", async () => {
  const publisher = await connected("publisher");
  const consumer = await connected("consumer");
  await publisher.ensureStream({ name: "KILLS", subjects: ["test.kills.>"], retention: "limits" });
  const seen = new Set<string>();
  const options = { ...consuming, stream: "KILLS", subject: "test.kills.*" };
  await consumeEvents(consumer, options, Granted, async ({ reservation }) => {
    await new Promise((resolve) => setTimeout(resolve, 5));
    seen.add(reservation?.id ?? "");
  });
  const publish = async (from: number, to: number): Promise<void> => {
    for (let n = from; n < to; n += 1) {
      const event = { reservation: { id: String(n) } };
      const send = (): Promise<unknown> =>
        publishEvent(publisher, "test.kills.a", Granted, event, { messageId: String(n) });
      await until(`event ${n} is on disk`, async () => {
        await send();
        return true;
      });
    }
  };
  for (let round = 0; round < 3; round += 1) {
    const publishing = publish(round * 40, (round + 1) * 40);
    await until("some of it has arrived", () => seen.size >= round * 40 + 10);
    await kill();
    await restart();
    await publishing;
  }
  await until("all are there", () => seen.size === 120, { timeoutMs: 90_000 });
  const { consumers } = await jetstreamManager(consumer.connection);
  await until("all are acknowledged", async () => {
    const { num_ack_pending, num_pending } = await consumers.info("KILLS", "worker");
    return num_ack_pending + num_pending === 0;
  });
});

it("recreates its consumer when it is deleted", async () => {
  const bus = await connected("consumer");
  await bus.ensureStream({ name: "DELETED", subjects: ["test.deleted.>"], retention: "workqueue" });
  const seen: string[] = [];
  const options = { ...consuming, stream: "DELETED", subject: "test.deleted.*" };
  await bus.consume(options, async (delivery) => {
    seen.push(delivery.subject);
    await delivery.ack();
  });
  await bus.publish("test.deleted.a", nothing, { messageId: "1" });
  await until("the first is there", () => seen.length > 0);
  const { consumers } = await jetstreamManager(bus.connection);
  await consumers.delete("DELETED", "worker");
  await bus.publish("test.deleted.b", nothing, { messageId: "2" });
  await until("the second is there", () => seen.includes("test.deleted.b"));
});

it("continues when its stream was deleted and recreated", async () => {
  const bus = await connected("consumer");
  const stream = { name: "AGAIN", subjects: ["test.again.>"], retention: "limits" } as const;
  await bus.ensureStream(stream);
  const seen: string[] = [];
  await bus.consume({ ...consuming, stream: "AGAIN", subject: "test.again.*" }, async (delivery) => {
    seen.push(delivery.subject);
    await delivery.ack();
  });
  const { streams } = await jetstreamManager(bus.connection);
  await streams.delete("AGAIN");
  await bus.ensureStream(stream);
  await bus.publish("test.again.a", nothing, { messageId: "1" });
  await until("the event is there", () => seen.length > 0);
});

it("ends in bounded time when the server is away", async () => {
  const bus = await connected("consumer");
  await bus.ensureStream({ name: "AWAY", subjects: ["test.away.>"], retention: "limits" });
  await bus.consume({ ...consuming, stream: "AWAY", subject: "test.away.*" }, () => Promise.resolve());
  await serveMethods(
    bus,
    ReservationService,
    handlersWith(() => Promise.resolve({})),
    { version: "1.0.0", description: "" },
  );
  await kill();
  await bus[Symbol.asyncDispose]();
  expect(bus.connection.isClosed()).toBe(true);
  await restart();
});

it("waits for a server that starts later, and rejects with unavailable when none comes", async () => {
  await kill();
  const gone = connectNats({ url: server.url, token: server.token, name: "early", timeoutMs: 100 });
  expect(await catchFault(gone)).toMatchObject({ code: "unavailable", dependency: "nats" });
  const early = connectNats({ url: server.url, token: server.token, name: "early", timeoutMs: 60_000 });
  await restart();
  opened.push(await early);
});

it("rejects with unavailable immediately when the server refuses the token", async () => {
  const refused = connectNats({ url: server.url, token: "wrong", name: "foreign", timeoutMs: 3_600_000 });
  expect(await catchFault(refused)).toMatchObject({ code: "unavailable", dependency: "nats" });
});

it("times out on a server that accepts connections but does not speak NATS", async () => {
  const silent = createServer().listen(0, "127.0.0.1");
  await once(silent, "listening");
  const { port } = silent.address() as AddressInfo;
  const call = connectNats({ url: `nats://127.0.0.1:${port}`, name: "lost", timeoutMs: 300 });
  expect(await catchFault(call)).toMatchObject({ code: "unavailable", dependency: "nats" });
  silent.close();
});

function handlersWith(
  listPools: Handlers<typeof ReservationService>["listPools"],
): Handlers<typeof ReservationService> {
  return answered({ listPools });
}
