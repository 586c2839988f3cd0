import { selectSize } from "@muster/testkit";
import { startBenchWorld } from "./bench-world.ts";
import { median, processorMs, type Figures } from "./figures.ts";

const SESSIONS = 20;
const IN_FLIGHT = 32;
const COUNTS = { list: selectSize(4000, 200), get: selectSize(10_000, 400) };
const ROUNDS = selectSize(5, 1);
/** `bare` is an HTTP server that only sends the same text. It shows the cost of HTTP alone. */
const WAYS = ["nats", "http", "bare"] as const;

/** Compares list and get over HTTP with the same call over NATS, in turns. Client, gateway, NATS and service are separate processes. */
export async function compareRequests(): Promise<void> {
  await using world = await startBenchWorld({ sessions: SESSIONS });
  console.log(`${IN_FLIGHT} in flight, a list has ${SESSIONS} sessions; medians of ${ROUNDS} rounds`);
  for (const what of ["list", "get"] as const) {
    const count = COUNTS[what];
    const found = { http: [] as Figures[], nats: [] as Figures[], bare: [] as Figures[] };
    const costs: number[] = [];
    for (let round = 0; round < ROUNDS; round += 1)
      for (const way of WAYS) {
        const before = await processorMs(world.gateway.pid);
        found[way].push(
          (await world.client("client.process.ts", way, what, String(count), String(IN_FLIGHT))) as Figures,
        );
        if (way === "http") costs.push(((await processorMs(world.gateway.pid)) - before) / (count + IN_FLIGHT * 20));
      }
    for (const way of WAYS) {
      const rate = median(found[way].map(({ perSecond }) => perSecond));
      const p99 = median(found[way].map(({ p99Ms }) => p99Ms));
      const client = median(found[way].map(({ clientUs }) => clientUs));
      console.log(
        `${what} over ${way}: ${Math.round(rate)}/s, p99 ${p99.toFixed(1)} ms; the client uses ${client.toFixed(0)} us of a processor for each`,
      );
    }
    const ratioOf = (way: "http" | "bare"): string =>
      median(found[way].map(({ perSecond }, round) => perSecond / (found.nats[round]?.perSecond ?? NaN))).toFixed(2);
    console.log(
      `${what}: ratio ${ratioOf("http")}, of the bare server ${ratioOf("bare")}; the gateway uses ${(median(costs) * 1000).toFixed(0)} us of a processor for each`,
    );
  }
}
