/** Measures how long the locks of a deleted silent session take to reach another session, beside as many bare writes. */
import { startTestNats, selectSize, until } from "@muster/testkit";
import { connectTo } from "../test/connected.ts";
import { openBucket, withSessions, type Codec, type Session } from "../src/index.ts";

const LOCKS = selectSize(1000, 50);
const ROUNDS = selectSize(5, 1);
const IN_FLIGHT = 64;
/** Long enough that a slow machine loses no session. */
const TTL_MS = 60_000;

const raw: Codec<Uint8Array> = { encode: (bytes) => bytes, decode: (bytes) => bytes };
const keys = Array.from({ length: LOCKS }, (_, at) => `set-${at}`);

await using server = await startTestNats();
await using connection = await connectTo(server);

const rounds: { readonly takeoverMs: number; readonly putsMs: number }[] = [];
for (let round = 0; round < ROUNDS; round += 1) {
  const name = `bench-${round}`;
  const stop = new AbortController();
  const running: Promise<void>[] = [];
  const begin = (holder: string): Promise<Session> => {
    const options = { bucket: name, holder, ttlMs: TTL_MS, about: {}, signal: stop.signal };
    const live = Promise.withResolvers<Session>();
    running.push(
      withSessions(connection, options, async (session) => {
        live.resolve(session);
        await new Promise((resolve) => {
          session.signal.addEventListener("abort", resolve);
        });
      }),
    );
    return live.promise;
  };
  const dying = await begin("dying");
  const next = await begin("next");
  await Promise.all(keys.map((key) => dying.lock(key)));
  await until("the next one sees them", () => next.view().locks.size === LOCKS);
  const bucket = await openBucket(connection, { name, codec: raw });
  const startMs = performance.now();
  const lost = new Promise<void>((resolve) => {
    next.onChange(resolve);
  });
  const entry = await bucket.get(`session.${dying.id}`);
  await bucket.delete(`session.${dying.id}`, entry?.revision ?? 0);
  await lost;
  await Promise.all(keys.map((key) => next.lock(key)));
  const takeoverMs = performance.now() - startMs;
  rounds.push({ takeoverMs, putsMs: await puts(`bench-puts-${round}`) });
  stop.abort();
  await Promise.all(running);
}
const takeoverMs = middle(rounds.map((one) => one.takeoverMs));
const ratio = middle(rounds.map((one) => one.takeoverMs / one.putsMs));
console.log(`takeover of ${LOCKS} locks ${Math.round(takeoverMs)} ms, / as many bucket puts ${ratio.toFixed(2)}`);

/** Writes as many values, with the same number in flight. */
async function puts(name: string): Promise<number> {
  const bucket = await openBucket(connection, { name, codec: raw });
  const left = keys.values();
  const startMs = performance.now();
  const lane = async (): Promise<void> => {
    for (const key of left) await bucket.create(key, new Uint8Array(100));
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, lane));
  return performance.now() - startMs;
}

function middle(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
}
