import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { forEachSome } from "@muster/backoff";
import { computeEndNs, type Order } from "@muster/leases";
import { openView } from "@muster/store";
import { selectSize, until } from "@muster/testkit";
import { makeRecords, openLeases } from "../src/adapters/records.ts";
import { makeLeaseRecord, makeOrder } from "../test/a-lease.ts";
import { openEngineWorld, nowNs, NS_PER_MS } from "../test/engine-world.ts";
import { toJsonOrder } from "../test/http-controller.ts";
import { cpuMsOf } from "./leases.ts";

const LIVE = Number(process.env["BENCH_LIVE"] ?? selectSize(100_000, 400));
const ENDING = Math.min(2000, LIVE);
const ENDING_OVER_MS = selectSize(20_000, 1000);
/** Time until the first lease ends; the engine must be ready before. */
const LEAD_MS = Number(process.env["BENCH_LEAD_MS"] ?? selectSize(60_000, 4000));
const CONCURRENCY = 128;
const PAGE = 200;
const LONG = { timeoutMs: 600_000, everyMs: 200 };

/** The start with many live leases, the history of a controller that lists all of them, and the delay of ends among them. */
export async function measureLive(): Promise<void> {
  await using world = await openEngineWorld();
  const records = makeRecords(await openLeases(world.bus.connection));
  const createdNs = nowNs();
  const orders = Array.from({ length: LIVE }, (_, at) =>
    makeOrder({ id: `1-${at}`, createdNs, durationNs: 86_400_000n * NS_PER_MS }),
  );
  const writeMs = await timed(() =>
    writeAll(orders, (order) => records.create(makeLeaseRecord({ order, source: "http", fence: 0 }))),
  );
  console.log(`live: ${LIVE} active leases, written in ${(writeMs / 1000).toFixed(1)} s`);
  const { server, url } = await serve(orders.map((order) => JSON.stringify(toJsonOrder(order, ANSWERED))));
  try {
    const bareMs = await timed(() => readBare(url));
    const began = performance.now();
    const engine = await world.startEngine({ PROVISION_HTTP_URL: url, PROVISION_LOCK_TTL_MS: "20000" });
    const isLogged = (text: string) => until(text, () => world.logLines.some((line) => line.includes(text)), LONG);
    await isLogged('"state":"leading"');
    const leadMs = performance.now() - began;
    await isLogged("all earlier orders are taken");
    const takenMs = performance.now() - began;
    console.log(`  a bare reading of its ${LIVE / PAGE} pages       ${(bareMs / 1000).toFixed(2)} s`);
    console.log(`  from its start until the engine leads  ${(leadMs / 1000).toFixed(2)} s`);
    console.log(
      `  and until it has taken all history     ${((takenMs - leadMs) / 1000).toFixed(2)} s more, ${((takenMs - leadMs) / bareMs).toFixed(2)} of bare`,
    );
    console.log(`  processor time until then              ${(cpuMsOf(engine.pid) / 1000).toFixed(2)} s`);
  } finally {
    server.closeAllConnections();
    server.close();
  }
  await measureEnds(world, records);
  const leads = world.logLines.filter((line) => line.includes('"state":"leading"')).length;
  console.log(`  the engine has led ${leads} time${leads === 1 ? "" : "s"}`);
}

async function measureEnds(
  { bus }: Awaited<ReturnType<typeof openEngineWorld>>,
  records: ReturnType<typeof makeRecords>,
) {
  const stop = new AbortController();
  await using view = await openView(await openLeases(bus.connection), { signal: stop.signal });
  const beganNs = nowNs();
  const orders = Array.from({ length: ENDING }, (_, at) => {
    const afterMs = LEAD_MS / 4 + (at * ENDING_OVER_MS) / ENDING;
    return makeOrder({ id: `2-${at}`, createdNs: beganNs, durationNs: BigInt(Math.round(afterMs)) * NS_PER_MS });
  });
  await writeAll(orders, (order) => records.create(makeLeaseRecord({ order, source: "nats", fence: 0 })));
  const recordOf = (id: string) => {
    const value = view.get(id)?.value;
    return value !== undefined && "record" in value ? value.record : undefined;
  };
  await until("all have ended", () => orders.every(({ id }) => recordOf(id)?.phase === "ENDED"), LONG);
  const late = (atNs: (order: Order) => bigint | undefined): string => {
    const all = orders
      .map((order) => Number((atNs(order) ?? 0n) - computeEndNs(order)) / 1e6)
      .toSorted((a, b) => a - b);
    const at = (part: number): string => (all[Math.floor(part * (all.length - 1))] ?? NaN).toFixed(0);
    return `p50 ${at(0.5)} ms, p99 ${at(0.99)} ms, most ${at(1)} ms`;
  };
  console.log(`  ${ENDING} more that end one after the other within ${ENDING_OVER_MS / 1000} s:`);
  console.log(`    until their end begins               ${late(({ id }) => recordOf(id)?.ending?.atNs)}`);
  console.log(`    until nothing of them is there       ${late(({ id }) => recordOf(id)?.endedAtNs)}`);
}

const ANSWERED = { result: { created: "2026-01-01T00:00:00Z", data: "{}" } };

async function serve(listed: readonly string[]): Promise<{ readonly server: Server; readonly url: string }> {
  const server = createServer((request, response) => {
    const { searchParams } = new URL(request.url ?? "", "http://controller");
    if (request.method !== "GET") {
      request.resume();
      response.writeHead(204).end();
      return;
    }
    // The number of an order is its place, from 1.
    const from = Math.max(1, Number(searchParams.get("from")));
    const page = listed.slice(from - 1, from - 1 + PAGE);
    response.setHeader("x-last-id", Math.min(from - 1 + page.length, listed.length));
    response.end(`{"orders":[${page.join(",")}]}`);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return { server, url: `http://127.0.0.1:${port}` };
}

async function readBare(url: string): Promise<void> {
  for (let from = 1; from <= LIVE; from += PAGE) {
    const response = await fetch(`${url}/engines/main/orders?from=${from}&limit=${PAGE}`);
    JSON.parse(await response.text());
  }
}

function writeAll(orders: readonly Order[], write: (order: Order) => Promise<unknown>): Promise<void> {
  return forEachSome(orders, CONCURRENCY, write, ({ id }, error) => {
    throw new Error(`${id} is not written`, { cause: error });
  });
}

async function timed(work: () => Promise<void>): Promise<number> {
  const start = performance.now();
  await work();
  return performance.now() - start;
}
