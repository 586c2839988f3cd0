import { jetstream, jetstreamManager } from "@nats-io/jetstream";
import { natsServer } from "@muster/testkit";
import { connected } from "../test/connected.ts";
import { openLog, type Codec } from "../src/index.ts";

/**
 * How many decisions a second the log takes at 256 in flight, beside bare NATS requests and bare JetStream publishes of the same size in the same run.
 * Only the ratios mean something on a machine that does other things too.
 */
const IN_FLIGHT = 256;
const EVENT_BYTES = 200;
const MEASURE_MS = 3000;
const ROUNDS = 3;

const bytesOnly: Codec<readonly Uint8Array[]> = {
  encode: (events) => Buffer.concat(events),
  decode: (bytes) =>
    Array.from({ length: bytes.length / EVENT_BYTES }, (_, at) =>
      bytes.subarray(at * EVENT_BYTES, (at + 1) * EVENT_BYTES),
    ),
};
const count: Codec<number> = {
  encode: (value) => Buffer.from(String(value)),
  decode: (bytes) => Number(Buffer.from(bytes).toString()),
};

await using server = await natsServer();
await using connection = await connected(server);
const payload = new Uint8Array(EVENT_BYTES).fill(7);

connection.subscribe("bench.echo", { callback: (_error, message) => void message.respond(payload) });
const manager = await jetstreamManager(connection);
await manager.streams.add({ name: "BENCH", subjects: ["bench.publish"] });
const client = jetstream(connection);
await using log = await openLog<number, Uint8Array>(connection, {
  stream: { name: "BENCH_LOG", subject: "bench.log" },
  events: bytesOnly,
  snapshots: { bucket: "bench-snapshots", key: "log", codec: count },
  initial: 0,
  evolve: (total) => total + 1,
  token: 1,
});

const subjects = {
  request: () => connection.request("bench.echo", payload, { timeout: 10_000 }),
  publish: () => client.publish("bench.publish", payload),
  transact: () => log.transact((total) => ({ events: [payload], result: total })),
};

const best = { request: 0, publish: 0, transact: 0 };
for (let round = 0; round < ROUNDS; round += 1)
  for (const name of ["request", "publish", "transact"] as const)
    best[name] = Math.max(best[name], await rate(subjects[name]));

console.log(`${EVENT_BYTES} bytes, ${IN_FLIGHT} in flight, best of ${ROUNDS} rounds of ${MEASURE_MS} ms`);
for (const [name, perSecond] of Object.entries(best)) console.log(`${name.padEnd(9)} ${Math.round(perSecond)}/s`);
console.log(`transact / request ${(best.transact / best.request).toFixed(2)}`);
console.log(`transact / publish ${(best.transact / best.publish).toFixed(2)}`);

async function rate(once: () => Promise<unknown>): Promise<number> {
  const start = performance.now();
  const end = start + MEASURE_MS;
  let done = 0;
  const lane = async (): Promise<void> => {
    while (performance.now() < end) {
      await once();
      done += 1;
    }
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, lane));
  return (done * 1000) / (performance.now() - start);
}
