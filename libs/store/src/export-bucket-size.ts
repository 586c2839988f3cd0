import { metrics, type BatchObservableCallback } from "@opentelemetry/api";
import type { NatsConnection } from "@nats-io/nats-core";

/** Size of a bucket; `maxBytes` is undefined if it has no limit. */
export type BucketSize = { readonly bytes: number; readonly maxBytes: number | undefined };

/** Exported buckets: a process opens some buckets twice, but each is exported once. */
const shown = new WeakMap<NatsConnection, Set<string>>();

/**
 * Exports the size of the bucket until the connection is closed: each scrape calls `look`. If it rejects, the last value remains; another metric reports why a
 * server does not answer.
 */
export function exportBucketSize(connection: NatsConnection, name: string, look: () => Promise<BucketSize>): void {
  const known = shown.get(connection) ?? new Set();
  if (known.has(name)) return;
  shown.set(connection, known.add(name));
  const meter = metrics.getMeter("@muster/store");
  const bytes = meter.createObservableGauge("muster.bucket.size", {
    unit: "By",
    description: "What the server keeps of a bucket, marks of what was deleted included",
  });
  const maxBytes = meter.createObservableGauge("muster.bucket.limit", {
    unit: "By",
    description: "What a bucket may have: beyond it, writes are refused",
  });
  const attributes = { "db.system.name": "nats", "db.collection.name": name };
  const observe: BatchObservableCallback = async (result) => {
    const fill = await look().catch(() => undefined);
    if (fill?.maxBytes === undefined) return;
    result.observe(bytes, fill.bytes, attributes);
    result.observe(maxBytes, fill.maxBytes, attributes);
  };
  const gauges = [bytes, maxBytes];
  meter.addBatchObservableCallback(observe, gauges);
  const stop = (): void => meter.removeBatchObservableCallback(observe, gauges);
  connection.closed().then(stop, stop);
}
