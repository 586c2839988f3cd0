import type { NatsBus } from "@muster/bus";
import { buckets, muster } from "@muster/proto";
import { openBucket, protoCodec } from "@muster/store";
import type { PoolFacts } from "../domain/build-pool-facts.ts";
import { toWirePool } from "./messages.ts";

/** Written again this often although nothing changed, so that readers see that somebody scales. */
const AGAIN_MS = 60_000;

/**
 * Writes how each pool is scaled, and takes away pools that are not any more. Rejects with FaultError: conflict when somebody else writes, unavailable; made again,
 * it writes what is missing.
 */
export async function openPoolsWriter(
  connection: NatsBus["connection"],
  now: () => number,
): Promise<(pools: readonly PoolFacts[]) => Promise<void>> {
  const bucket = await openBucket(connection, { name: buckets.pools, codec: protoCodec(muster.node.v1.PoolScaling) });
  return async (pools) => {
    const nowMs = now();
    const written = new Map((await bucket.list()).map((entry) => [entry.key, entry]));
    for (const facts of pools) {
      const before = written.get(facts.pool);
      written.delete(facts.pool);
      const value = toWirePool(facts, nowMs);
      if (before === undefined) await bucket.create(facts.pool, value);
      else if (isWorthWriting(before.value, value, nowMs)) await bucket.update(facts.pool, value, before.revision);
    }
    for (const { key, revision } of written.values()) await bucket.delete(key, revision);
  };
}

type WirePool = ReturnType<typeof toWirePool>;

function isWorthWriting(before: muster.node.v1.PoolScaling, value: WirePool, nowMs: number): boolean {
  const { PoolScaling } = muster.node.v1;
  if (Math.abs(nowMs - before.atMs) >= AGAIN_MS) return true;
  const bytes = PoolScaling.encode({ ...value, atMs: before.atMs }).finish();
  return !Buffer.from(bytes).equals(PoolScaling.encode(before).finish());
}
