import { metrics, SpanKind, trace, type Counter, type Histogram, type MeterProvider } from "@opentelemetry/api";
import { findFault } from "@muster/faults";
import { inSpan } from "@muster/tracing";

type Operation = "get" | "create" | "update" | "delete" | "list" | "append";

type Instruments = { readonly duration: Histogram; readonly locks: Counter };

const SCOPE = "@muster/store";

let made: { readonly by: MeterProvider; readonly instruments: Instruments } | undefined;

/** Measures one operation on a bucket or log, and creates a span for it if a recorded span is active. Attributes are names of buckets and logs, never keys. */
export async function measureOperation<Result>(
  operation: Operation,
  collection: string,
  work: () => Promise<Result>,
): Promise<Result> {
  const startMs = performance.now();
  const attributes = {
    "db.system.name": "nats",
    "db.operation.name": operation,
    "db.collection.name": collection,
  };
  let failed: { "error.type"?: string } = {};
  try {
    if (trace.getActiveSpan()?.isRecording() !== true) return await work();
    return await inSpan(SCOPE, `${operation} ${collection}`, { kind: SpanKind.CLIENT, attributes }, work);
  } catch (error) {
    failed = { "error.type": findFault(error)?.code ?? "defect" };
    throw error;
  } finally {
    instruments().duration.record((performance.now() - startMs) / 1000, { ...attributes, ...failed });
  }
}

/** Counts the changes of a lock, or of the sessions of a bucket, in this process. */
export function countLock(lock: string, state: "waiting" | "leading" | "live" | "lost"): void {
  instruments().locks.add(1, { "muster.lock": lock, "muster.lock.state": state });
}

/** Creates the instruments on first use, because telemetry starts after this module is loaded. Recreates them for a new telemetry provider. */
function instruments(): Instruments {
  const by = metrics.getMeterProvider();
  if (made?.by !== by) {
    const meter = metrics.getMeter(SCOPE);
    const duration = meter.createHistogram("db.client.operation.duration", {
      unit: "s",
      description: "Operations on buckets and logs, answers included",
      advice: { explicitBucketBoundaries: [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10] },
    });
    const locks = meter.createCounter("muster.lock.changes", {
      unit: "{change}",
      description: "Locks waited for, led under and lost; sessions waited for, begun and lost",
    });
    made = { by, instruments: { duration, locks } };
  }
  return made.instruments;
}
