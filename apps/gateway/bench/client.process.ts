/** One client of the compared calls, over HTTP or over NATS. Sends its figures to its parent. Run by requests.ts. */
import { client, connectNats } from "@muster/bus";
import { SessionService } from "@muster/proto";
import { Pool } from "undici";
import { percentile, type Figures } from "./figures.ts";

const {
  BENCH_NATS_URL: url = "",
  BENCH_NATS_TOKEN: token = "",
  BENCH_HTTP_URL: http = "",
  BENCH_HTTP_TOKEN: bearer = "",
} = process.env;
const [way = "", what = "", count = "", inFlight = ""] = process.argv.slice(2);

const ask = way === "http" ? httpCall() : await natsCall();
await run(Number(inFlight) * 20);
const figures = await run(Number(count));
process.send?.(figures, () => process.kill(process.pid, "SIGTERM"));

function httpCall(): () => Promise<unknown> {
  const pool = new Pool(http, { connections: Number(inFlight) });
  const path = what === "list" ? "/v1/sessions" : "/v1/sessions/session-0000";
  const headers = { authorization: `Bearer ${bearer}` };
  return async () => {
    const { statusCode, body } = await pool.request({ method: "GET", path, headers });
    const read = await body.json();
    if (statusCode !== 200) throw new Error(`${path} answers ${statusCode}: ${JSON.stringify(read)}`);
    return read;
  };
}

async function natsCall(): Promise<() => Promise<unknown>> {
  const bus = await connectNats({ url, token, name: "bench-client" });
  const { listSessions, getSession } = client(bus, SessionService);
  return () => (what === "list" ? listSessions({}) : getSession({ name: "session-0000" }));
}

async function run(total: number): Promise<Figures> {
  const latencies: number[] = [];
  let started = 0;
  const beganMs = performance.now();
  const one = async (): Promise<void> => {
    while (started < total) {
      started += 1;
      const atMs = performance.now();
      await ask();
      latencies.push(performance.now() - atMs);
    }
  };
  await Promise.all(Array.from({ length: Number(inFlight) }, one));
  const perSecond = (total * 1000) / (performance.now() - beganMs);
  return { perSecond, p99Ms: percentile(latencies, 0.99) };
}
