import { SpanStatusCode } from "@opentelemetry/api";
import type { Order } from "@muster/leases";
import { contextOfTraceparent, inSpan } from "@muster/tracing";
import type { LeaseRecord } from "./domain/lease.ts";

const TRACER = "@muster/provision-engine";

/** Takes what a controller lists, which names no trace: under that of its lease, or, where there is none yet, under one that begins here. */
export function inPolledTrace<Result>(
  { id, type }: Pick<Order, "id" | "type">,
  seen: LeaseRecord | undefined,
  work: () => Promise<Result>,
): Promise<Result> {
  const attributes = { "muster.lease": id, "muster.lease_type": type };
  return inSpan(TRACER, "polled order", { parent: contextOfTraceparent(seen?.traceparent ?? ""), attributes }, work);
}

/** Runs one step under a span of the lease's trace, which is that of its order, whichever replica does it. What it came to by itself, and was no error, may still be a failure. */
export function inLeaseTrace<Result>(
  { order, run, traceparent }: LeaseRecord,
  doing: string,
  work: () => Promise<Result>,
  failureOf: (result: Result) => string | undefined = () => undefined,
): Promise<Result> {
  const attributes = { "muster.lease": order.id, "muster.lease_type": order.type, "muster.run": run };
  return inSpan(TRACER, doing, { parent: contextOfTraceparent(traceparent), attributes }, async (span) => {
    const result = await work();
    const failure = failureOf(result);
    if (failure !== undefined) span.setStatus({ code: SpanStatusCode.ERROR, message: failure });
    return result;
  });
}
