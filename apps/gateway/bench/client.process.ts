/** One client of the compared calls, over HTTP, over NATS, or of a bare HTTP server. Sends its measurements to its parent. requests.ts runs it. */
import { makeClient, connectNats } from "@muster/bus";
import { SessionService } from "@muster/proto";
import { Pool } from "undici";
import { percentile, type Figures } from "./figures.ts";

const {
  BENCH_NATS_URL: url = "",
  BENCH_NATS_TOKEN: token = "",
  BENCH_HTTP_URL: http = "",
  BENCH_BARE_URL: bare = "",
  BENCH_HTTP_TOKEN: bearer = "",
  BENCH_SESSIONS: sessions = "20",
} = process.env;
const [way = "", what = "", count = "", inFlight = ""] = process.argv.slice(2);

let asked = 0;
const ask = way === "nats" ? await natsCall() : httpCall(way === "bare" ? bare : http);
await run(Number(inFlight) * 20);
const figures = await run(Number(count));
process.send?.(figures, () => process.kill(process.pid, "SIGTERM"));

/** Keeps connections open and opens no stream per answer, as an efficient client does. */
function httpCall(origin: string): () => Promise<unknown> {
  const pool = new Pool(origin, { connections: Number(inFlight) });
  const headers = { authorization: `Bearer ${bearer}` };
  return () => {
    const path = what === "list" ? "/v1/sessions" : `/v1/sessions/${nextName()}`;
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    let status = 0;
    const pieces: Buffer[] = [];
    pool.dispatch(
      { method: "GET", path, headers },
      {
        onRequestStart: () => undefined,
        onResponseStart: (_controller, statusCode) => {
          status = statusCode;
        },
        onResponseData: (_controller, piece) => void pieces.push(piece),
        onResponseEnd: () => {
          const [only = Buffer.alloc(0)] = pieces;
          const text = (pieces.length === 1 ? only : Buffer.concat(pieces)).toString();
          if (status === 200) resolve(JSON.parse(text));
          else reject(new Error(`${path} answers ${status}: ${text}`));
        },
        onResponseError: (_controller, error) => reject(error),
      },
    );
    return promise;
  };
}

async function natsCall(): Promise<() => Promise<unknown>> {
  const bus = await connectNats({ url, token, name: "bench-client" });
  const { listSessions, getSession } = makeClient(bus, SessionService);
  return () => (what === "list" ? listSessions({}) : getSession({ name: nextName() }));
}

/** Returns one session name after another, so that few concurrent requests are equal. */
function nextName(): string {
  asked += 1;
  return `session-${String(asked % Number(sessions)).padStart(4, "0")}`;
}

async function run(total: number): Promise<Figures> {
  const latencies: number[] = [];
  let started = 0;
  const beganMs = performance.now();
  const began = process.cpuUsage();
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
  const { user, system } = process.cpuUsage(began);
  return { perSecond, p99Ms: percentile(latencies, 0.99), clientUs: (user + system) / total };
}
