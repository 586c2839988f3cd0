import { performance } from "node:perf_hooks";
import { startTestNats, selectSize, until } from "@muster/testkit";
import { makeLargeLedger, writeLedger } from "../test/large-ledger.ts";
import { readCpuMs } from "./load.ts";
import { connectUser, makeReservations, startManager } from "../test/managers.ts";

const SIZES = selectSize([0, 100_000, 300_000, 1_000_000], [0, 1000]);

/** Measures the time from the start of a replica to its first answer, and counts the leaderships that it lost meanwhile. */
export async function benchRecovery(): Promise<void> {
  const rows: object[] = [];
  for (const waiting of SIZES) rows.push({ waiting, ...(await measure(waiting)) });
  console.log("From the start of the process to its first answer, with so many requests in the snapshot");
  console.table(rows);
}

async function measure(waiting: number): Promise<object> {
  // Build the ledger before connecting: it blocks for seconds, and a blocked process keeps no connection alive.
  const ledger = makeLargeLedger(waiting);
  await using server = await startTestNats();
  await using bus = await connectUser(server);
  const writeMs = await timed(() => writeLedger(bus, ledger));
  await using manager = startManager(server, { RESERVATION_LOCK_TTL_MS: "5000" });
  const recoverMs = await timed(async () => {
    await until("the manager leads", () => manager.leads > 0, { timeoutMs: 120_000 });
    await makeReservations(bus)
      .listReservations({ limit: 1 }, { timeoutMs: 60_000 })
      .catch((error: unknown) => {
        throw new Error(`with ${waiting} requests: ${manager.errors.join("; ")}`, { cause: error });
      });
  });
  return {
    "written in s": inSeconds(writeMs),
    "answers after s": inSeconds(recoverMs),
    "of that processor s": inSeconds(readCpuMs(manager.pid)),
    "leads lost": manager.losses,
  };
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const begin = performance.now();
  await work();
  return performance.now() - begin;
}

function inSeconds(ms: number): number {
  return Math.round(ms / 100) / 10;
}
