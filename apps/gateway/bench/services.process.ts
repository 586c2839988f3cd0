/** Serves the requested number of sessions with the requested number of changes per second, and runs a bare HTTP server. Ends with its parent. */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { connectNats, serveMethods, type Handlers } from "@muster/bus";
import { SessionService, muster } from "@muster/proto";

const {
  BENCH_NATS_URL: url = "",
  BENCH_NATS_TOKEN: token = "",
  BENCH_SESSIONS: count = "20",
  BENCH_CHANGES: changes = "0",
} = process.env;
const { SESSION_EVENT_KIND_RUN: kind } = muster.session.v1.SessionEventKind;
const PAGE = 500;
const TURN_MS = 10;

const sessions = Array.from({ length: Number(count) }, (_, at) => ({
  name: `session-${String(at).padStart(4, "0")}`,
  uid: `0b0c2f6e-0000-4000-8000-${String(at).padStart(12, "0")}`,
  revision: 1,
  createdAtMs: Date.now(),
  spec: {
    components: [
      { name: "driver", replicas: 1 },
      { name: "worker", replicas: 2 },
    ],
  },
  events: Array.from({ length: 4 }, (_each, index) => ({
    kind,
    atMs: 1_767_225_600_000 + index,
    description: "started",
  })),
  waitingBecause: "2 machines of pool workers are needed, 1 is free",
}));
const byName = new Map(sessions.map((session) => [session.name, session]));
const list = ({ continue: from = "" }: { readonly continue?: string }) => {
  const start = from === "" ? 0 : Number(from);
  const end = start + PAGE;
  return { sessions: sessions.slice(start, end), continue: end < sessions.length ? String(end) : "" };
};
const none = (): never => {
  throw new Error("the benchmark has no such call");
};
const others = Object.fromEntries(Object.keys(SessionService.methods).map((name) => [name, none]));
const handlers = {
  ...others,
  listSessions: (asked: { readonly continue?: string }) => Promise.resolve(list(asked)),
  getSession: ({ name }: { readonly name: string }) => Promise.resolve({ session: byName.get(name) }),
} as unknown as Handlers<typeof SessionService>;

const bus = await connectNats({ url, token, name: "bench-services" });
await serveMethods(bus, SessionService, handlers, { version: "1.0.0", description: "benchmark", concurrency: 256 });
let next = 0;
let due = 0;
setInterval(() => {
  for (due += (Number(changes) * TURN_MS) / 1000; due >= 1; due -= 1) {
    const session = sessions[next++ % sessions.length];
    if (session !== undefined) Object.assign(session, { revision: session.revision + 1, createdAtMs: Date.now() });
  }
}, TURN_MS);
const [items, item] = [JSON.stringify({ items: sessions }), JSON.stringify(sessions[0])];
const bare = createServer((request, reply) => {
  reply.setHeader("content-type", "application/json");
  reply.end(request.url === "/v1/sessions" ? items : item);
}).listen(0, "127.0.0.1");
await once(bare, "listening");
process.send?.((bare.address() as AddressInfo).port);
process.once("disconnect", () => process.kill(process.pid, "SIGTERM"));
