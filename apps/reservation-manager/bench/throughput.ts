import { availableParallelism } from "node:os";
import type { NatsBus } from "@muster/bus";
import { muster } from "@muster/proto";
import { startTestNats, selectSize, type TestNats } from "@muster/testkit";
import { runManager } from "../src/adapters/deps.ts";
import { readConfig } from "../src/config.ts";
import { connectUser, buildNeeds, openNodeWriter, makeReservations, startManager } from "../test/managers.ts";
import { startBare } from "./bare.ts";
import { readCpuMs, IN_FLIGHT, measureRate } from "./load.ts";

const ROUNDS = selectSize(3, 1);

/**
 * Durable reservations a second through NATS beside the client library's own request and reply of the same sizes, in turns on one server. Each reservation
 * is reserved and released, which are two requests: the ratio compares requests with requests.
 */
export async function benchThroughput(): Promise<void> {
  console.log(
    `Client, service and NATS server each a process of its own; ${IN_FLIGHT} in flight, ${availableParallelism()} processors`,
  );
  {
    await using server = await startTestNats();
    await using bus = await connectedWithNodes(server);
    // A short lock expires on a busy machine, and another leader takes over.
    await using manager = startManager(server, { RESERVATION_LOCK_TTL_MS: "10000" });
    await compare(server, bus, () => readCpuMs(manager.pid));
  }
  console.log("The same with the service in the client's process");
  await using server = await startTestNats();
  await using bus = await connectedWithNodes(server);
  const stop = new AbortController();
  const manager = runManager(makeContext(server, stop.signal));
  await compare(server, bus, () => Number.NaN);
  stop.abort();
  await manager;
}

async function connectedWithNodes(server: TestNats): Promise<NatsBus> {
  const bus = await connectUser(server);
  const nodes = await openNodeWriter(bus);
  await Promise.all(Array.from({ length: 2 * IN_FLIGHT }, (_, index) => nodes.put(`node-${index}`, "pool")));
  return bus;
}

async function compare(server: TestNats, bus: NatsBus, serviceCpuMs: () => number): Promise<void> {
  const reservations = makeReservations(bus);
  await reservations.listPools({}, { timeoutMs: 30_000 });
  let round = 0;
  const owner = (worker: number, turn: number) => ({ kind: "session", id: `w${worker}-${turn}-${round}` });
  const pair = async (worker: number, turn: number): Promise<void> => {
    const { reservation } = await reservations.reserve({ owner: owner(worker, turn), needs: buildNeeds("pool") });
    const release = { owner: owner(worker, turn), reservationId: reservation?.id ?? "" };
    const { released } = await reservations.unreserve(release);
    if (reservation?.machines.length !== 1 || !released) throw new Error("a reservation was not granted and released");
  };

  const sample = await reservations.reserve({ owner: owner(0, 0), needs: buildNeeds("pool") });
  await reservations.unreserve({ owner: owner(0, 0), reservationId: sample.reservation?.id ?? "" });
  const { ReserveRequest, ReserveReply } = muster.reservation.v1;
  const request = ReserveRequest.encode({ owner: owner(0, 0), needs: buildNeeds("pool") }).finish();
  await using bare = await startBare(server, ReserveReply.encode(sample).finish().length);
  const rows: object[] = [];
  for (round = 1; round <= ROUNDS; round += 1) {
    const requests = await measureRate(() => bare.ask(request));
    const usedMs = serviceCpuMs();
    let answered = 0;
    const pairs = await measureRate(async (worker, turn) => {
      await pair(worker, turn);
      answered += 2;
    });
    const cpu = ((serviceCpuMs() - usedMs) * 1000) / answered;
    rows.push({
      "bare requests/s": Math.round(requests),
      "durable requests/s": Math.round(2 * pairs),
      "reservations/s, each released": Math.round(pairs),
      ratio: Math.round((200 * pairs) / requests) / 100,
      ...(!Number.isNaN(cpu) && { "service µs of processor a request": Math.round(cpu) }),
    });
  }
  console.table(rows);
}

function makeContext(server: TestNats, signal: AbortSignal): Parameters<typeof runManager>[0] {
  const silent = { debug: () => undefined, info: () => undefined, warn: console.warn, error: console.error };
  return {
    config: readConfig({ MUSTER_NATS_URL: server.url, MUSTER_NATS_TOKEN: server.token }),
    logger: { ...silent, child: () => makeContext(server, signal).logger },
    signal,
    service: "reservation-manager",
    instance: "bench",
    version: "1.0.0",
    readyWhen: () => undefined,
    alsoCheck: () => undefined,
    natsReplicas: 1,
    requestRate: { perSecond: 1_000_000, burst: 1_000_000 },
  };
}
