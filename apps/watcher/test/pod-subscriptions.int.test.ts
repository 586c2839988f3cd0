import { connect, type NatsConnection } from "@nats-io/transport-node";
import { buckets, muster } from "@muster/proto";
import { openBucket, type Bucket } from "@muster/store";
import { startTestNats, until, type TestNats } from "@muster/testkit";
import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { podStateCodec } from "../src/subscriptions/pod-state-codec.ts";
import { openPodSubscriptions } from "../src/subscriptions/pod-subscriptions.ts";
import type { PodWatchEvent } from "../src/subscriptions/pod-watch-event.ts";
import type { PodUpdate } from "../src/subscriptions/subscriber.ts";

const { HEALTH_READY, HEALTH_FAILED } = muster.health.v1.Health;

let server: TestNats;
let connection: NatsConnection;
let states: Bucket<PodWatchEvent, muster.watch.v1.PodState.$Properties>;
let owners = 0;
let owner: { readonly kind: string; readonly id: string };

beforeAll(async () => {
  server = await startTestNats();
  connection = await connected();
  states = await openBucket(connection, { name: buckets.pods, codec: podStateCodec });
});
afterAll(async () => {
  await connection.close();
  await server[Symbol.asyncDispose]();
});
beforeEach(() => {
  owners += 1;
  owner = { kind: "session", id: `s${owners}` };
});

function connected(): Promise<NatsConnection> {
  const { url, token } = server;
  return connect({ servers: url, token, maxReconnectAttempts: -1, reconnectTimeWait: 20, reconnectJitter: 0 });
}

/** Writes one state after another of a pod, each of them once, whatever NATS does meanwhile. */
function writer(pod: string) {
  const key = `${owner.kind}.${owner.id}.${pod}`;
  const mine = owner;
  let at = 0;
  return async (part: muster.watch.v1.PodState.$Properties = {}): Promise<void> => {
    at += 1;
    const state = { owner: mine, component: pod, pod, uid: "u", health: HEALTH_READY, observedAtMs: at, ...part };
    await until("the state is written", async () => {
      const found = await states.get(key);
      // The answer to an earlier try was lost, and the write was not.
      if (found?.value.observedAtMs === at) return true;
      await (found === undefined ? states.create(key, state) : states.update(key, state, found.revision));
      return true;
    });
  };
}

/** Reads continuously and keeps the updates. */
function recorder(updates: AsyncIterable<PodUpdate>): { readonly received: PodUpdate[]; readonly done: Promise<void> } {
  const received: PodUpdate[] = [];
  const read = async (): Promise<void> => {
    for await (const each of updates) received.push(each);
  };
  return { received, done: read() };
}

const events = (received: readonly PodUpdate[]) =>
  received.flatMap((update) =>
    update.kind === "changed" ? [update.event] : update.kind === "current" ? update.pods : [],
  );

it("reports the current state of every pod of the session, then changes in order, with their fields", async () => {
  const [driver, server0] = [writer("driver"), writer("server-0")];
  await driver();
  await server0();
  await using pods = await openPodSubscriptions(connection);
  const { received, done } = recorder(pods.subscribe(owner));
  await until("the current state arrives", () => received.length > 0);
  await driver({ podIp: "10.0.0.1", node: "n" });
  await driver({ health: HEALTH_FAILED, reason: "Error", message: "it broke", exitCode: 3, deleted: true });
  await until("the end arrives", () => events(received).at(-1)?.deleted === true);
  pods.unsubscribe(owner);
  await done;

  expect(received[0]).toMatchObject({
    kind: "current",
    because: "subscribed",
    pods: [{ pod: "driver" }, { pod: "server-0" }],
  });
  expect(received.slice(1).map(({ kind }) => kind)).toEqual(["changed", "changed"]);
  expect(events(received).slice(2)).toMatchObject([
    { owner, component: "driver", podIp: "10.0.0.1", node: "n", health: "READY", error: undefined },
    { pod: "driver", health: "FAILED", error: "Error: it broke", reason: "Error", exitCode: 3, deleted: true },
  ]);
});

it("a subscriber that never reads delays no other, and receives what it missed when it reads", async () => {
  const silent = owner;
  const loud = writer("driver");
  owner = { kind: "session", id: `${owner.id}-other` };
  const other = writer("driver");
  await using pods = await openPodSubscriptions(connection, { eventBufferSize: 8 });
  const unread = pods.subscribe(silent);
  await unread.next();
  const { received } = recorder(pods.subscribe(owner));
  for (let round = 0; round < 100; round += 1) {
    await loud();
    await other();
    // The bucket keeps one state per pod, so a state is delivered for certain only if the next one is written later. States arrive in the order of writes.
    await until("both states have arrived", () => events(received).at(-1)?.observedAtMs === round + 1);
  }
  expect(received.filter(({ kind }) => kind === "overflowed")).toEqual([]);

  const late: PodUpdate[] = [];
  for await (const update of unread) {
    late.push(update);
    if (update.kind === "current") break;
  }
  expect(late.map(({ kind }) => kind)).toEqual([
    ...Array.from({ length: 8 }, () => "changed"),
    "overflowed",
    "current",
  ]);
  expect(late.at(-2)).toEqual({ kind: "overflowed", missed: 92 });
  expect(late.at(-1)).toMatchObject({ because: "overflowed", pods: [{ observedAtMs: 100 }] });
});

it("a gap in the connection, here a restart of the server, is followed by the current state", async () => {
  const [driver, client] = [writer("driver"), writer("client")];
  await using reading = await connected();
  await using pods = await openPodSubscriptions(reading);
  const { received } = recorder(pods.subscribe(owner));
  await driver();
  await client();
  await until("both arrive", () => events(received).length >= 2);
  await server.kill();
  await server.start();
  await driver({ health: HEALTH_FAILED });
  await until("the gap is reported", () =>
    received.some((update) => update.kind === "current" && update.because === "resync"),
  );
  await client({ health: HEALTH_FAILED, deleted: true });
  await until("what came after it, too", () => events(received).at(-1)?.deleted === true);
  const last = new Map(events(received).map((event) => [event.pod, event]));
  expect(last.get("driver")).toMatchObject({ health: "FAILED", observedAtMs: 2 });
  for (const pod of ["driver", "client"]) {
    const times = events(received).flatMap((event) => (event.pod === pod ? [event.observedAtMs] : []));
    expect(times).toEqual(times.toSorted((one, two) => one - two));
  }
});

it("a permanently closed connection ends every subscription with unavailable", async () => {
  const own = await connected();
  await using pods = await openPodSubscriptions(own);
  const { received, done } = recorder(pods.subscribe(owner));
  await until("it began", () => received.length > 0);
  await own.close();
  await expect(done).rejects.toMatchObject({ fault: { code: "unavailable" } });
});

it("follows only owners of the requested kind", async () => {
  await writer("driver")();
  await using pods = await openPodSubscriptions(connection, { ownerKind: "job" });
  const first = await pods.subscribe(owner).next();
  expect(first.value).toMatchObject({ kind: "current", pods: [] });
});
