import { context, SpanStatusCode, trace, type Attributes, type Context } from "@opentelemetry/api";
import type { Order } from "@muster/leases";
import { contextOfTraceparent, inSpan } from "@muster/tracing";
import type { LeaseRecord } from "./domain/lease.ts";
import type { LeasePlan } from "./domain/plan-lease.ts";

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

/** Runs a pass that has something to do under a span of the lease's trace, which says in the end why nothing more is to be done now. */
export function inLeasePass<End extends { readonly because: string }>(
  record: LeaseRecord,
  work: () => Promise<End>,
): Promise<End> {
  const options = { parent: contextOf(record), attributes: attributesOf(record) };
  return inSpan(TRACER, "lease pass", options, async (span) => {
    const end = await work();
    span.setAttribute("muster.because", end.because);
    return end;
  });
}

/** Runs one step of a pass under a span of its own, which says why it is done. */
export function inLeaseStep<Result>(
  record: LeaseRecord,
  plan: Exclude<LeasePlan, { kind: "wait" }>,
  work: () => Promise<Result>,
): Promise<Result> {
  const name = plan.kind === "change" ? plan.change.kind : plan.kind;
  const attributes = { ...attributesOf(record), "muster.because": plan.because };
  return inSpan(TRACER, `lease ${name}`, { attributes }, work);
}

/** Runs one call under a span of the lease's trace, which is that of its order, whichever replica does it. What it came to by itself, and was no error, may still be a failure. */
export function inLeaseTrace<Result>(
  record: LeaseRecord,
  { name, because }: { readonly name: string; readonly because?: string },
  work: () => Promise<Result>,
  failureOf: (result: Result) => string | undefined = () => undefined,
): Promise<Result> {
  const attributes = { ...attributesOf(record), ...(because !== undefined && { "muster.because": because }) };
  return inSpan(TRACER, name, { parent: contextOf(record), attributes }, async (span) => {
    const result = await work();
    const failure = failureOf(result);
    if (failure !== undefined) span.setStatus({ code: SpanStatusCode.ERROR, message: failure });
    return result;
  });
}

/** The decision, which the span that it was made under tells of. */
export function recordDecision<Decision extends { readonly kind: string; readonly because: string }>(
  decision: Decision,
): Decision {
  trace.getActiveSpan()?.addEvent(decision.kind, { "muster.because": decision.because });
  return decision;
}

/** Below what is under way in the trace of the lease; else right below its order. */
function contextOf({ traceparent }: LeaseRecord): Context {
  const ordered = contextOfTraceparent(traceparent);
  const traceOf = (of: Context): string | undefined => trace.getSpanContext(of)?.traceId;
  const isWithin = traceOf(ordered) === undefined || traceOf(ordered) === traceOf(context.active());
  return isWithin ? context.active() : ordered;
}

function attributesOf({ order, run }: LeaseRecord): Attributes {
  return { "muster.lease": order.id, "muster.lease_type": order.type, "muster.run": run };
}
