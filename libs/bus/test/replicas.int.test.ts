import { jetstreamManager } from "@nats-io/jetstream";
import { startNatsCluster, startTestNats, until, type TestNatsCluster } from "@muster/testkit";
import { afterAll, beforeAll, expect, it } from "vitest";
import { connectNats, type Delivery, type NatsBus } from "../src/index.ts";
import { catchFault } from "./call-suite.ts";

let cluster: TestNatsCluster;
beforeAll(async () => {
  cluster = await startNatsCluster(3);
});
afterAll(async () => {
  await cluster[Symbol.asyncDispose]();
});

const connect = (replicas?: number): Promise<NatsBus> =>
  connectNats({ url: cluster.url, token: cluster.token, name: "tested", ...(replicas && { replicas }) });

async function replicasOf(bus: NatsBus, stream: string): Promise<number> {
  return (await (await jetstreamManager(bus.connection)).streams.info(stream)).config.num_replicas;
}

it("creates streams with the configured replicas, changes those that have another number, and leaves them without a setting", async () => {
  const config = { name: "COUNTED", subjects: ["counted.>"], retention: "limits" } as const;
  const counts: number[] = [];
  for (const replicas of [undefined, 3, undefined, 1]) {
    await using bus = await connect(replicas);
    await bus.ensureStream(config);
    counts.push(await replicasOf(bus, "COUNTED"));
  }
  expect(counts).toEqual([1, 3, 3, 1]);
});

it("loses nothing that was acknowledged when a server is killed, and continues to write and read", async () => {
  await using bus = await connect(3);
  await bus.ensureStream({ name: "KEPT", subjects: ["kept.>"], retention: "limits" });
  const acknowledged = new Set<string>();
  const stop = new AbortController();
  const publishing = (async () => {
    for (let n = 0; !stop.signal.aborted; n += 1) {
      const id = String(n);
      const payload = new TextEncoder().encode(id);
      await until(`${id} is acknowledged`, async () => bus.publish("kept.a", payload, { messageId: id }));
      acknowledged.add(id);
    }
  })();
  const manager = await jetstreamManager(bus.connection);
  for (let round = 0; round < 2; round += 1) {
    const before = acknowledged.size;
    await until("some are written", () => acknowledged.size > before + 50);
    const leader = await until("there is a leader", async () => (await manager.streams.info("KEPT")).cluster?.leader);
    const index = cluster.indexOf(leader);
    await cluster.kill(index);
    const then = acknowledged.size;
    await until("writes continue without it", () => acknowledged.size > then + 50);
    await cluster.start(index);
  }
  stop.abort();
  await publishing;
  const seen = new Set<string>();
  const consuming = { stream: "KEPT", durable: "reader", subject: "kept.>", maxInFlight: 64, ackWaitMs: 10_000 };
  await using _consumer = await bus.consume(consuming, async (delivery: Delivery) => {
    seen.add(new TextDecoder().decode(delivery.payload));
    await delivery.ack();
  });
  await until("all are read", () => seen.size === acknowledged.size);
  expect([...acknowledged].filter((id) => !seen.has(id))).toEqual([]);
});

it("names the stream that cannot have so many replicas with one server", async () => {
  await using server = await startTestNats();
  await using bus = await connectNats({ url: server.url, token: server.token, name: "tested", replicas: 3 });
  const fault = await catchFault(bus.ensureStream({ name: "ALONE", subjects: ["alone"], retention: "limits" }));
  expect(fault).toMatchObject({ code: "invalid_request", field: "replicas of stream ALONE" });
});

it("reports unavailable while fewer servers run than a stream needs replicas, because others may join", async () => {
  await using bus = await connect(5);
  const making = bus.ensureStream({ name: "MANY", subjects: ["many"], retention: "limits" });
  await expect(making).rejects.toMatchObject({
    fault: { code: "unavailable", dependency: "nats" },
    cause: { message: expect.stringMatching(/^replicas of stream MANY: /) as unknown },
  });
});

it("refuses a number of replicas that no cluster supports", async () => {
  expect(await catchFault(connect(6))).toMatchObject({ code: "invalid_request", field: "replicas" });
});
