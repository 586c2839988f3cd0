import { connect, type Socket } from "node:net";
import { selectSize, until } from "@muster/testkit";
import { startBenchWorld } from "./bench-world.ts";
import { percentile, residentBytes } from "./figures.ts";

const WATCHES = selectSize(1000, 50);
const SESSIONS = 20;

/** The memory that the gateway holds for each open watch. */
export async function measureMemory(): Promise<void> {
  await using world = await startBenchWorld({ sessions: SESSIONS });
  const { port } = new URL(world.gateway.url);
  const open = async (count: number): Promise<Socket[]> => {
    let synced = 0;
    const sockets = Array.from({ length: count }, () => {
      const socket = connect(Number(port), "127.0.0.1");
      const head = ["GET /v1/sessions?watch=true HTTP/1.1", "host: bench", `authorization: Bearer ${world.token}`];
      socket.write([...head, "", ""].join("\r\n"));
      let tail = "";
      const onData = (part: string): void => {
        tail = (tail + part).slice(-200);
        if (!tail.includes("event: synced")) return;
        synced += 1;
        socket.off("data", onData).resume();
      };
      return socket.setEncoding("utf8").on("data", onData);
    });
    await until("every list is received", () => synced === count);
    return sockets;
  };
  // The code and caches of the first requests do not belong to a watch.
  const sockets = await open(selectSize(500, 5));
  const before = await residentBytes(world.gateway.pid);
  sockets.push(...(await open(WATCHES)));
  const each = ((await residentBytes(world.gateway.pid)) - before) / WATCHES;
  console.log(`${WATCHES} watches of ${SESSIONS} sessions: ${(each / 1024).toFixed(1)} KiB of resident memory each`);
  for (const socket of sockets) socket.destroy();
}

const CHANGES_PER_SECOND = 500;
const FOLLOWED_SESSIONS = 500;
const EVENTS = selectSize(3000, 200);

/** Measures the time from a change in a service to the client that watches. */
export async function measureEvents(): Promise<void> {
  await using world = await startBenchWorld({ sessions: FOLLOWED_SESSIONS, changesPerSecond: CHANGES_PER_SECOND });
  const latencies = (await world.client("watcher.process.ts", String(EVENTS))) as number[];
  const [p50, p99] = [percentile(latencies, 0.5), percentile(latencies, 0.99)];
  console.log(
    `${CHANGES_PER_SECOND} changes a second of ${FOLLOWED_SESSIONS} sessions: p50 ${p50.toFixed(0)} ms, p99 ${p99.toFixed(0)} ms`,
  );
}
