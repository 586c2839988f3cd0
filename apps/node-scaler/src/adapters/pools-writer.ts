import type { NatsBus } from "@muster/bus";
import { buckets, muster } from "@muster/proto";
import { openBucket, makeProtoCodec } from "@muster/store";
import { buildFirstFacts, type PoolFacts } from "../domain/build-pool-facts.ts";
import type { PoolPolicy } from "../domain/pool.ts";
import { toWirePool } from "./messages.ts";

/** Unchanged facts are rewritten at this interval, so that readers observe a live scaler; with the usual rounds, within 30 s. */
const REWRITE_MS = 20_000;

/** Writes how each pool is scaled. Each call rejects with FaultError (conflict with another writer, unavailable); a retry writes the rest. */
export type PoolsWriter = {
  /** Announces these pools before the first plan, so that early work finds its pool. Keeps the facts of an earlier leader, and removes other pools. */
  readonly announce: (policies: Iterable<PoolPolicy>) => Promise<void>;
  /** Writes the facts of the latest plan, and removes other pools. */
  readonly publish: (pools: readonly PoolFacts[]) => Promise<void>;
};

export async function openPoolsWriter(connection: NatsBus["connection"], now: () => number): Promise<PoolsWriter> {
  const bucket = await openBucket(connection, {
    name: buckets.pools,
    codec: makeProtoCodec(muster.node.v1.PoolScaling),
  });
  const write = async (pools: readonly PoolFacts[], valueOf: ValueOf): Promise<void> => {
    const nowMs = now();
    const written = new Map((await bucket.list()).map((entry) => [entry.key, entry]));
    for (const facts of pools) {
      const before = written.get(facts.pool);
      written.delete(facts.pool);
      const value = valueOf(toWirePool(facts, nowMs), before?.value);
      if (before === undefined) await bucket.create(facts.pool, value);
      else if (isWriteDue(before.value, value, nowMs)) await bucket.update(facts.pool, value, before.revision);
    }
    for (const { key, revision } of written.values()) await bucket.delete(key, revision);
  };
  return {
    announce: (policies) =>
      write([...policies].map(buildFirstFacts), (first, before) =>
        before === undefined
          ? first
          : {
              ...first,
              booting: before.booting,
              blockedCode: before.blockedCode,
              blockedMessage: before.blockedMessage,
            },
      ),
    publish: (pools) => write(pools, (value) => value),
  };
}

type WirePool = ReturnType<typeof toWirePool>;
type ValueOf = (value: WirePool, before: muster.node.v1.PoolScaling | undefined) => WirePool;

function isWriteDue(before: muster.node.v1.PoolScaling, value: WirePool, nowMs: number): boolean {
  const { PoolScaling } = muster.node.v1;
  if (Math.abs(nowMs - before.atMs) >= REWRITE_MS) return true;
  const bytes = PoolScaling.encode({ ...value, atMs: before.atMs }).finish();
  return !Buffer.from(bytes).equals(PoolScaling.encode(before).finish());
}
