import { readFileSync } from "node:fs";
import { forEachSome } from "@muster/backoff";
import { consumeEvents, publishEvent } from "@muster/bus";
import { muster, streams, subjects } from "@muster/proto";
import { openView } from "@muster/store";
import { toWireOrder } from "@muster/leases/wire";
import { selectSize } from "@muster/testkit";
import { openLeases } from "../src/adapters/records.ts";
import type { LeaseRecord } from "../src/domain/lease.ts";
import { makeUser, openEngineWorld, waitUntilReady, signOrder, type EngineWorld } from "../test/engine-world.ts";

const COUNT = Number(process.env["BENCH_LEASES"] ?? selectSize(1000, 20));
const ROUNDS = selectSize(3, 1);
const PARALLEL = [1, 8];
const CONCURRENCY = 64;

/**
 * Orders of a workload that takes no time, measured from the stream until they are provisioned and reported, next to a consumer that only acknowledges them.
 */
export async function measureLeases(): Promise<void> {
  console.log(`leases: ${COUNT} orders of debug on their stream; the best of ${ROUNDS} rounds in turns, a second`);
  const best = new Map<string, number>();
  const note = (what: string, perSecond: number): void => void best.set(what, Math.max(best.get(what) ?? 0, perSecond));
  for (let round = 0; round < ROUNDS; round += 1) {
    note("bare consumption", await measureBare());
    for (const parallel of PARALLEL) {
      const { active, reported, cpuMs } = await measureEngine(parallel);
      note(`provisioned, ${parallel} at once`, active);
      note(`provisioned and reported, ${parallel} concurrently`, reported);
      note(`1000 / ms of the engine's processor each, ${parallel} at once`, (1000 * COUNT) / cpuMs);
    }
  }
  const bare = best.get("bare consumption") ?? NaN;
  for (const [what, perSecond] of best)
    console.log(`  ${what.padEnd(60)} ${perSecond.toFixed(0).padStart(7)}   ${(perSecond / bare).toFixed(3)} of bare`);
}

async function measureBare(): Promise<number> {
  await using world = await openEngineWorld();
  await publishAll(world);
  const done = Promise.withResolvers<number>();
  let began = NaN;
  let count = 0;
  const { signal } = new AbortController();
  await using _consumer = await consumeEvents(
    world.bus,
    {
      stream: streams.leaseOrders.name,
      durable: "bare",
      subject: subjects.ordersOfEngine("main"),
      maxInFlight: CONCURRENCY,
      ackWaitMs: 30_000,
      area: "lease",
      signal,
    },
    muster.provision.v1.Order,
    () => {
      count += 1;
      if (count === 1) began = performance.now();
      if (count === COUNT) done.resolve(performance.now() - began);
      return Promise.resolve();
    },
  );
  return (1000 * COUNT) / (await done.promise);
}

async function measureEngine(parallel: number) {
  await using world = await openEngineWorld();
  await publishAll(world);
  const stop = new AbortController();
  await using view = await openView(await openLeases(world.bus.connection), { signal: stop.signal });
  const active = Promise.withResolvers<number>();
  const reported = Promise.withResolvers<number>();
  const actives = new Set<string>();
  const reportedIds = new Set<string>();
  let began = NaN;
  view.onChange((id) => {
    const value = view.get(id)?.value;
    if (value === undefined || !("record" in value)) return;
    const { record } = value;
    if (actives.size === 0 && Number.isNaN(began)) began = performance.now();
    if (record.phase !== "ACTIVE") return;
    actives.add(id);
    if (isReported(record)) reportedIds.add(id);
    if (actives.size === COUNT) active.resolve(performance.now() - began);
    if (reportedIds.size === COUNT) reported.resolve(performance.now() - began);
  });
  const engine = await world.startEngine({ PROVISION_PARALLEL: String(parallel) });
  await waitUntilReady(world);
  const perSecond = (ms: number): number => (1000 * COUNT) / ms;
  const result = { active: perSecond(await active.promise), reported: perSecond(await reported.promise) };
  return { ...result, cpuMs: cpuMsOf(engine.pid) };
}

function isReported({ feedback, outbox }: LeaseRecord): boolean {
  return !feedback.result && outbox.length === 0;
}

async function publishAll({ bus }: EngineWorld): Promise<void> {
  await bus.ensureStream(streams.leaseOrders);
  const user = makeUser();
  const ids = Array.from({ length: COUNT }, (_, at) => `1-${at}`);
  const publish = (id: string): Promise<unknown> => {
    const order = toWireOrder(signOrder(user, { id }));
    const { Order } = muster.provision.v1;
    return publishEvent(bus, subjects.orderLease("main", id), Order, order, { messageId: id });
  };
  await forEachSome(ids, CONCURRENCY, publish, (id, error) => {
    throw new Error(`${id} is not published`, { cause: error });
  });
}

const TICKS_PER_S = 100;

/** CPU time of a process since its start, startup included, from /proc. */
export function cpuMsOf(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? [];
  return ((Number(fields[11]) + Number(fields[12])) * 1000) / TICKS_PER_S;
}
