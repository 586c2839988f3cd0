/** Typed request/reply beside the client library's own, in turns on one server: what the types, headers, deadlines and spans cost. Run: node libs/bus/bench/main.ts */
import { connect } from "@nats-io/transport-node";
import { ReservationService } from "@muster/proto";
import { natsServer } from "@muster/testkit";
import { client, connectNats, serve } from "../src/index.ts";
import { answered } from "../test/answered.ts";

const IN_FLIGHT = 256;
const CALLS = 30_000;
const ROUNDS = 5;

await using server = await natsServer();
const { url, token } = server;
const options = { servers: url, token, noAsyncTraces: true };

await using bareService = await connect(options);
await using bareCaller = await connect(options);
const payload = new Uint8Array(100);
bareService.subscribe("bench.bare", {
  queue: "q",
  callback: (_error, message) => {
    message.respond(payload);
  },
});

await using service = await connectNats({ url, token, name: "service" });
await using caller = await connectNats({ url, token, name: "caller" });
const handlers = answered({ getReservation: () => Promise.resolve({ reservation }) });
const owner = { kind: "session", id: "benchmark-of-the-bus" };
const reservation = {
  id: "r-1",
  owner,
  needs: [{ component: "driver", pool: "drivers" }],
  createdAtMs: 1_700_000_000_000,
};
await using _served = await serve(service, ReservationService, handlers, {
  version: "1.0.0",
  description: "benchmark",
  concurrency: IN_FLIGHT,
});
const { getReservation } = client(caller, ReservationService);

const bare = async (): Promise<unknown> => bareCaller.request("bench.bare", payload, { timeout: 5000 });
const typed = async (): Promise<unknown> => getReservation({ owner });

await bareService.flush();
await rate(bare);
await rate(typed);
const rates: { bare: number; typed: number }[] = [];
for (let round = 0; round < ROUNDS; round += 1) rates.push({ bare: await rate(bare), typed: await rate(typed) });
for (const { bare: b, typed: t } of rates) report(b, t);
const middle = (values: number[]): number => values.sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
console.log("median");
report(middle(rates.map((round) => round.bare)), middle(rates.map((round) => round.typed)));

/** Calls a second, with IN_FLIGHT of them in the air. */
async function rate(call: () => Promise<unknown>): Promise<number> {
  let left = CALLS;
  const one = async (): Promise<void> => {
    while (left > 0) {
      left -= 1;
      await call();
    }
  };
  const startMs = performance.now();
  await Promise.all(Array.from({ length: IN_FLIGHT }, one));
  return (CALLS * 1000) / (performance.now() - startMs);
}

function report(bareRate: number, typedRate: number): void {
  const [b, t] = [bareRate, typedRate].map((value) => Math.round(value).toLocaleString("en"));
  console.log(`bare ${b}/s  typed ${t}/s  ratio ${(typedRate / bareRate).toFixed(2)}`);
}
