import { jetstreamManager } from "@nats-io/jetstream";
import { connect } from "@nats-io/transport-node";
import { keepReplicas } from "@muster/jetstream";
import { buckets } from "@muster/proto";
import { startNatsCluster, until } from "@muster/testkit";
import { expect, it } from "vitest";
import { runWhileLeader, openBucket } from "../src/index.ts";
import { consumeInOrder } from "../src/consume-in-order.ts";
import { makeJsonCodec } from "./connected.ts";
import { note, openJournal } from "./journal.ts";

it("keeps the lock, the log and the buckets when their leader server dies", async () => {
  await using cluster = await startNatsCluster(3);
  const { url, token } = cluster;
  await using connection = await connect({
    servers: url.split(","),
    token,
    maxReconnectAttempts: -1,
    reconnectTimeWait: 50,
  });
  const codec = makeJsonCodec<number>();
  // Created with one replica, as on an installation that adds servers later.
  await openBucket(connection, { name: "grown", codec });
  keepReplicas(connection, 3);
  const bucket = await openBucket(connection, { name: "grown", codec });
  const { streams } = await jetstreamManager(connection);
  const written: string[] = [];
  const stop = new AbortController();
  let count = 0;

  const leading = runWhileLeader(
    connection,
    { lock: "l", holder: "h", ttlMs: 5000, signal: stop.signal },
    async (leadership) => {
      const { signal, isHeld } = leadership;
      // While the servers elect a leader, the stream looks missing; a service would restart.
      await using journal = await until("the log opens to its writer", () =>
        openJournal(connection, "replicated", leadership.token, { signal, isHeld }),
      );
      while (!journal.deposed.aborted && !stop.signal.aborted) {
        const text = String(written.length);
        await journal.transact(note(text)).then(
          () => written.push(text),
          () => undefined,
        );
      }
    },
  );
  // Counts twice if an answer was lost, and never less than the acknowledged writes.
  const bump = async (): Promise<boolean> => {
    const entry = await bucket.get("count");
    if (entry === undefined) await bucket.create("count", 1);
    else await bucket.update("count", entry.value + 1, entry.revision);
    count += 1;
    return true;
  };

  await until("some is written", () => written.length > 20);
  for (const stream of ["KV_grown", `KV_${buckets.locks}`, "KV_snapshots", "replicated"]) {
    expect({ stream, replicas: (await streams.info(stream)).config.num_replicas }).toEqual({ stream, replicas: 3 });
    // Until added replicas have caught up, the stream is no safer than without them.
    await until(`all replicas of ${stream} are current`, async () => {
      const others = (await streams.info(stream)).cluster?.replicas ?? [];
      return others.length === 2 && others.every(({ current }) => current);
    });
  }
  await until("the bucket counts", bump);
  const leader = await until("the log has a leader", async () => (await streams.info("replicated")).cluster?.leader);
  await cluster.kill(cluster.indexOf(leader));
  const before = written.length;
  await until("the log continues", () => written.length > before + 20, { timeoutMs: 90_000 });
  await until("the bucket continues", bump, { timeoutMs: 90_000 });
  stop.abort();
  await leading;

  const kept = await until("the bucket answers", async () => (await bucket.get("count"))?.value);
  expect(kept).toBeGreaterThanOrEqual(count);
  await using after = await until("the log opens", () =>
    openJournal(connection, "replicated", Number.MAX_SAFE_INTEGER),
  );
  expect(written.filter((text) => !after.state.texts.includes(text))).toEqual([]);
});

it("lists from the leader of the bucket, because another server may be behind", async () => {
  await using cluster = await startNatsCluster(3);
  const { url, token } = cluster;
  await using connection = await connect({ servers: url.split(","), token });
  keepReplicas(connection, 3);
  const bucket = await openBucket(connection, { name: "led", codec: makeJsonCodec<number>() });
  await bucket.create("a", 1);
  const { streams, consumers } = await jetstreamManager(connection);
  const signal = new AbortController().signal;
  for (let pass = 1; pass <= 10; pass += 1) {
    const options = {
      stream: "KV_led",
      subject: "$KV.led.>",
      from: "last-of-each-subject",
      atLeader: true,
      signal,
    } as const;
    for await (const { kind } of consumeInOrder(connection, options)) {
      if (kind !== "caught-up") continue;
      // The answering server lists a new consumer a moment later, while deleted consumers of other servers are still listed.
      await until("the consumer is on the server that leads", async () => {
        const { leader } = (await streams.info("KV_led")).cluster ?? {};
        const servers: (string | undefined)[] = [];
        for await (const each of consumers.list("KV_led")) servers.push(each.cluster?.leader);
        return servers.includes(leader);
      });
      break;
    }
  }
  expect(await bucket.list()).toMatchObject([{ key: "a", value: 1 }]);
});
