/** The cost of a sync to disk before every acknowledgement (`sync_interval: always`), in turns in one run. */
import type { NatsConnection } from "@nats-io/transport-node";
import { startTestNats, selectSize } from "@muster/testkit";
import { connectTo } from "../test/connected.ts";

const ROUNDS = selectSize(5, 1);
const COUNT = selectSize(2000, 50);
const PAYLOAD = new Uint8Array(200);

await using stack = new AsyncDisposableStack();

async function started(syncAlways: boolean): Promise<NatsConnection> {
  const connection = stack.use(await connectTo(stack.use(await startTestNats({ syncAlways }))));
  const stream = { name: "BENCH", subjects: ["bench.>"], storage: "file", num_replicas: 1 };
  await connection.request("$JS.API.STREAM.CREATE.BENCH", JSON.stringify(stream));
  return connection;
}

/** Milliseconds per acknowledged write, with this number in flight. */
async function measure(connection: NatsConnection, inFlight: number): Promise<number> {
  let left = COUNT;
  const lane = async (): Promise<void> => {
    while (left > 0) {
      left -= 1;
      await connection.request("bench.a", PAYLOAD, { timeout: 60_000 });
    }
  };
  const startMs = performance.now();
  await Promise.all(Array.from({ length: inFlight }, lane));
  return (performance.now() - startMs) / COUNT;
}

function middle(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
}

const later = await started(false);
const always = await started(true);
for (const inFlight of [1, 64, 256]) {
  const rounds: { readonly later: number; readonly always: number }[] = [];
  for (let round = 0; round < ROUNDS; round += 1)
    rounds.push({ later: await measure(later, inFlight), always: await measure(always, inFlight) });
  const ofWrite = (of: "later" | "always"): string =>
    `${(middle(rounds.map((round) => round[of])) * 1000).toFixed(0)} us`;
  const ratio = middle(rounds.map((round) => round.always / round.later)).toFixed(1);
  console.log(`${inFlight} in flight: ${ofWrite("later")} a write, always ${ofWrite("always")}: ${ratio} times`);
}
