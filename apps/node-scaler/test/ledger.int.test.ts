import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { makeClient, connectNats, type Client } from "@muster/bus";
import { bucketKeys, buckets, muster, ReservationService } from "@muster/proto";
import { openBucket, makeProtoCodec } from "@muster/store";
import { startTestNats, buildProcessEnv, until, makePatientClient } from "@muster/testkit";
import { afterAll, beforeAll, expect, it } from "vitest";
import { askDemands } from "../src/adapters/ledger.ts";
import { openPoolsWriter } from "../src/adapters/pools-writer.ts";
import { buildPolicy } from "./build-node.ts";

const LEDGER = fileURLToPath(new URL("../../reservation-manager/src/main.ts", import.meta.url));
/** The ledger lists one less in one answer. */
const WAITING = 501;

const policies = new Map(["crowded", "quiet"].map((name) => [name, buildPolicy({ name, max: 1 })]));
const timeoutMs = 60_000;
const { signal } = new AbortController();
const stack = new AsyncDisposableStack();
let ledger: Client<typeof ReservationService>;

beforeAll(async () => {
  const nats = stack.use(await startTestNats());
  const bus = stack.use(await connectNats({ url: nats.url, token: nats.token, name: "test" }));
  const marks = await openBucket(bus.connection, {
    name: buckets.nodes,
    codec: makeProtoCodec(muster.watch.v1.NodesComplete),
  });
  await marks.create(bucketKeys.nodesComplete, muster.watch.v1.NodesComplete.create({ atMs: Date.now() }));
  const writer = await openPoolsWriter(bus.connection, Date.now);
  await writer.announce(policies.values());
  const env = { ...buildProcessEnv(), MUSTER_NATS_URL: nats.url, MUSTER_NATS_TOKEN: nats.token };
  const child = spawn(process.execPath, [LEDGER], { stdio: ["ignore", "inherit", "ignore"], env });
  stack.defer(async () => {
    const exited = once(child, "exit");
    if (child.exitCode === null && child.kill("SIGKILL")) await exited;
  });
  ledger = makePatientClient(makeClient(bus, ReservationService));
  await until("the ledger knows the pools", async () => (await ledger.listPools({})).pools.length === 2, { timeoutMs });
}, 120_000);
afterAll(() => stack.disposeAsync());

const reserve = (id: string, ...pools: readonly string[]) => reserveFor({ kind: "session", id }, 0, pools);

function reserveFor(owner: { kind: string; id: string }, concurrencyLimit: number, pools: readonly string[]) {
  const needs = pools.map((pool, index) => ({ component: `c-${index}`, pool }));
  return ledger.reserve({ requestId: owner.id, owner, needs, wait: true, concurrencyLimit }, { timeoutMs });
}

it("reads demands for a pool behind more than one answer of another pool's, and each once", async () => {
  for (let at = 0; at < WAITING; at += 1) await reserve(`s-${at}`, "crowded");
  await reserve("behind", "quiet");
  await reserve("both", "quiet", "crowded");
  const demands = await askDemands({ ledger, policies, timeoutMs }, signal);
  expect(demands.filter(({ pool }) => pool === "quiet").map(({ group }) => group)).toEqual([
    "session/behind",
    "session/both",
  ]);
  expect(demands.filter(({ group }) => group === "session/both")).toHaveLength(2);
  expect(new Set(demands.map(({ name }) => name)).size).toBe(demands.length);
}, 300_000);

it("counts a kind's concurrency limit once over all lists of waiting reservations", async () => {
  await reserveFor({ kind: "job", id: "first" }, 1, ["quiet"]);
  await reserveFor({ kind: "job", id: "second" }, 1, ["crowded"]);
  const demands = await askDemands({ ledger, policies, timeoutMs }, signal);
  expect(demands.length).toBeGreaterThan(WAITING);
  expect(demands.filter(({ group }) => group?.startsWith("job/")).map(({ group }) => group)).toEqual(["job/first"]);
}, 120_000);
