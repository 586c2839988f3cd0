import { connectNats } from "@muster/bus";
import { buckets, muster } from "@muster/proto";
import { openBucket, makeProtoCodec } from "@muster/store";
import { startTestNats } from "@muster/testkit";
import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { openPoolsWriter, type PoolsWriter } from "../src/adapters/pools-writer.ts";
import { buildFirstFacts } from "../src/domain/build-pool-facts.ts";
import { buildPolicy } from "./build-node.ts";

const stack = new AsyncDisposableStack();
let nowMs = 1000;
let writer: PoolsWriter;
let read: () => Promise<readonly muster.node.v1.PoolScaling[]>;

beforeAll(async () => {
  const nats = stack.use(await startTestNats());
  const bus = stack.use(await connectNats({ url: nats.url, token: nats.token, name: "test" }));
  writer = await openPoolsWriter(bus.connection, () => nowMs);
  const codec = makeProtoCodec(muster.node.v1.PoolScaling);
  const bucket = await openBucket(bus.connection, { name: buckets.pools, codec });
  read = async () => (await bucket.list()).map(({ value }) => value).sort((a, b) => (a.pool < b.pool ? -1 : 1));
});
afterAll(() => stack.disposeAsync());
beforeEach(() => writer.publish([]));

const a = buildPolicy({ name: "a", max: 3 });
const b = buildPolicy({ name: "b", max: 5, standby: [{ instanceType: "small", count: 2, spot: false }] });

it("announces the scaled pools before the first plan", async () => {
  await writer.announce([a, b]);
  expect(await read()).toMatchObject([
    { pool: "a", max: 3, standby: 0, booting: [], atMs: nowMs },
    { pool: "b", max: 5, standby: 2, booting: [], atMs: nowMs },
  ]);
});

it("keeps the facts of an earlier leader with the current sizes, and removes unscaled pools", async () => {
  const booting = [{ instanceType: "small", spot: false, count: 2, sinceMs: 5 }];
  const blocked = { code: "UNAVAILABLE", message: "short" } as const;
  await writer.publish([{ ...buildFirstFacts(a), booting, blocked }, buildFirstFacts(b)]);
  await writer.announce([{ ...a, max: 9 }]);
  expect(await read()).toMatchObject([{ pool: "a", max: 9, booting, blockedCode: "UNAVAILABLE" }]);
});

it("rewrites unchanged facts within half a minute, and not in each round", async () => {
  await writer.publish([buildFirstFacts(a)]);
  const firstMs = nowMs;
  nowMs += 7000;
  await writer.publish([buildFirstFacts(a)]);
  expect(await read()).toMatchObject([{ atMs: firstMs }]);
  nowMs += 22_000;
  await writer.publish([buildFirstFacts(a)]);
  expect(await read()).toMatchObject([{ atMs: nowMs }]);
});
