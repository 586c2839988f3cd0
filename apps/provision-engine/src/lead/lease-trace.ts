import { context, SpanStatusCode, trace, type Attributes, type Context } from "@opentelemetry/api";
import type { PassSpan } from "@muster/controller";
import type { Order } from "@muster/leases";
import { parseTraceparent, inSpan } from "@muster/tracing";
import type { LeaseRecord } from "../domain/lease.ts";
import type { LeaseReason } from "../domain/lease-reason.ts";
import type { LeasePlan } from "../domain/plan-lease.ts";

export const TRACER = "@muster/provision-engine";

/** Runs work for a polled order, which has no trace context: in the trace of its lease, or in a new one. */
export function runInPolledTrace<Result>(
  { id, type }: Pick<Order, "id" | "type">,
  seen: LeaseRecord | undefined,
  work: () => Promise<Result>,
): Promise<Result> {
  const attributes = { "muster.lease": id, "muster.lease_type": type };
  return inSpan(TRACER, "polled order", { parent: parseTraceparent(seen?.traceparent ?? ""), attributes }, work);
}

/** The span of one round of a pass. */
export function buildPassSpan(record: LeaseRecord): PassSpan {
  return { name: "lease pass", parent: buildContext(record), attributes: buildAttributes(record) };
}

/** Runs one step of a pass in its own span, which records the reason. */
export function runInLeaseStep<Result>(
  record: LeaseRecord,
  plan: LeasePlan,
  work: () => Promise<Result>,
): Promise<Result> {
  const attributes = { ...buildAttributes(record), "muster.because": plan.because.code };
  return inSpan(TRACER, `lease ${getStepName(plan)}`, { attributes }, work);
}

export function getStepName(plan: LeasePlan): string {
  return plan.kind === "change" ? plan.change.kind : plan.kind;
}

/** Runs one call in a span of the lease's trace, on any replica. `failureOf` finds failures in results. */
export function runInLeaseTrace<Result>(
  record: LeaseRecord,
  { name, because }: { readonly name: string; readonly because?: string },
  work: () => Promise<Result>,
  failureOf: (result: Result) => string | undefined = () => undefined,
): Promise<Result> {
  const attributes = { ...buildAttributes(record), ...(because !== undefined && { "muster.because": because }) };
  return inSpan(TRACER, name, { parent: buildContext(record), attributes }, async (span) => {
    const result = await work();
    const failure = failureOf(result);
    if (failure !== undefined) span.setStatus({ code: SpanStatusCode.ERROR, message: failure });
    return result;
  });
}

/** Records the decision as an event of the active span, and returns it. */
export function recordDecision<Decision extends { readonly kind: string; readonly because: string | LeaseReason }>(
  decision: Decision,
): Decision {
  const { kind, because } = decision;
  trace.getActiveSpan()?.addEvent(kind, { "muster.because": typeof because === "string" ? because : because.code });
  return decision;
}

/** The active context if it belongs to the lease's trace, else the context of its order. */
function buildContext({ traceparent }: LeaseRecord): Context {
  const ordered = parseTraceparent(traceparent);
  const traceOf = (of: Context): string | undefined => trace.getSpanContext(of)?.traceId;
  const isWithin = traceOf(ordered) === undefined || traceOf(ordered) === traceOf(context.active());
  return isWithin ? context.active() : ordered;
}

function buildAttributes({ order, run }: LeaseRecord): Attributes {
  return { "muster.lease": order.id, "muster.lease_type": order.type, "muster.run": run };
}
