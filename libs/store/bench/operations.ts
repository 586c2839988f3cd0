/** The cost of the log and the buckets beside bare NATS, in turns in one run on one server. */
import { jetstream, jetstreamManager } from "@nats-io/jetstream";
import { startTestNats, selectSize } from "@muster/testkit";
import { connectTo } from "../test/connected.ts";
import { openBucket, openLog, type Codec } from "../src/index.ts";

const IN_FLIGHT = 256;
const EVENT_BYTES = 200;
const MEASURE_MS = selectSize(2000, 100);
const ROUNDS = selectSize(5, 1);
const KEYS = 1024;

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
const raw: Codec<Uint8Array> = { encode: (bytes) => bytes, decode: (bytes) => bytes };

await using server = await startTestNats();
await using connection = await connectTo(server);
const payload = new Uint8Array(EVENT_BYTES).fill(7);

connection.subscribe("bench.echo", { callback: (_error, message) => void message.respond(payload) });
const manager = await jetstreamManager(connection);
await manager.streams.add({ name: "BENCH", subjects: ["bench.publish.>"], max_msgs_per_subject: 1 });
const client = jetstream(connection);
await using log = await openLog<number, Uint8Array>(connection, {
  stream: { name: "BENCH_LOG", subject: "bench.log" },
  events: bytesOnly,
  snapshots: { bucket: "bench-snapshots", key: "log", codec: count },
  initial: 0,
  evolve: (total) => total + 1,
  token: 1,
});
const bucket = await openBucket(connection, { name: "bench", codec: raw });
/** Each lane has separate keys, as the writers of different sessions do. */
const revisions = await Promise.all(Array.from({ length: KEYS }, (_, key) => bucket.create(String(key), payload)));
let turn = 0;

const operations = {
  request: () => connection.request("bench.echo", payload, { timeout: 10_000 }),
  publish: () => client.publish(`bench.publish.${(turn += 1) % KEYS}`, payload),
  put: async () => {
    const key = (turn += 1) % KEYS;
    revisions[key] = await bucket.update(String(key), payload, revisions[key] ?? 0);
  },
  transact: () => log.transact((total) => ({ events: [payload], result: total })),
};
type Name = keyof typeof operations;
type Round = Record<Name, number>;
const names: readonly Name[] = ["request", "publish", "put", "transact"];

for (const inFlight of [IN_FLIGHT, 1]) {
  const rounds: Round[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const rates: Round = { request: 0, publish: 0, put: 0, transact: 0 };
    for (const name of names) rates[name] = await rate(operations[name], inFlight);
    rounds.push(rates);
  }
  const ratio = (of: Name, to: Name): string => middle(rounds.map((one) => one[of] / one[to])).toFixed(2);
  console.log(`${EVENT_BYTES} bytes, ${inFlight} in flight, middle of ${ROUNDS} rounds of ${MEASURE_MS} ms`);
  for (const name of names) console.log(`  ${name.padEnd(9)} ${Math.round(middle(rounds.map((one) => one[name])))}/s`);
  console.log(
    `  log transact / bare request ${ratio("transact", "request")}, / bare publish ${ratio("transact", "publish")}`,
  );
  console.log(`  bucket put / bare publish ${ratio("put", "publish")}`);
}

async function rate(once: () => Promise<unknown>, inFlight: number): Promise<number> {
  const start = performance.now();
  const end = start + MEASURE_MS;
  let done = 0;
  const lane = async (): Promise<void> => {
    while (performance.now() < end) {
      await once();
      done += 1;
    }
  };
  await Promise.all(Array.from({ length: inFlight }, lane));
  return (done * 1000) / (performance.now() - start);
}

function middle(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
}
