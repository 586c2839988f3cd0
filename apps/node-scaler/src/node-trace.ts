import { createHash } from "node:crypto";
import { context, ROOT_CONTEXT, trace, type Attributes, type Context, type Span } from "@opentelemetry/api";
import { runInPass, type PlannedStep } from "@muster/controller";
import { buildContextOfIds, inSpan, recordSpan } from "@muster/tracing";
import type { ScaledNode } from "./domain/node.ts";

const TRACER = "@muster/node-scaler";

/** Derives the context of a node's trace from its name, so that every process adds to the same trace. */
function contextOfNode(name: string): Context {
  const digest = createHash("sha256").update(name).digest("hex");
  return buildContextOfIds({ traceId: digest.slice(0, 32), spanId: digest.slice(32, 48) });
}

/** Runs an action on a node under a span of the node's trace, linked to the round that decided it. */
export function runInNodeSpan<Result>(
  doing: string,
  node: string,
  attributes: Attributes,
  work: (span: Span) => Promise<Result>,
): Promise<Result> {
  const links = buildLinks(context.active());
  return inSpan(
    TRACER,
    doing,
    { parent: contextOfNode(node), links, attributes: { "muster.node": node, ...attributes } },
    work,
  );
}

/** Steps that have no effect on nodes. */
const QUIET = new Set(["wait", "look-for-pods"]);

/** Takes the steps of a round under a span that lists them; a round without changes has no span. */
export function runInRoundSpan<Result>(
  loop: string,
  steps: readonly PlannedStep[],
  work: () => Promise<Result>,
  attributes: Attributes = {},
): Promise<Result> {
  const taken = steps.filter(({ kind }) => !QUIET.has(kind));
  if (taken.length === 0) return work();
  return runInPass(TRACER, { name: `${loop} round`, parent: ROOT_CONTEXT, attributes }, taken, work);
}

/** Takes one step of a round, linked to the trace of its node. */
export function runInStepSpan(doing: string, node: string, because: string, work: () => Promise<void>): Promise<void> {
  const attributes = { "muster.node": node, "muster.because": because };
  return inSpan(TRACER, doing, { links: buildLinks(contextOfNode(node)), attributes }, work);
}

/** Records a span from a node's order to its readiness. */
export function traceBoot({ name, spec, status }: ScaledNode, readyAtMs: number): void {
  const attributes = {
    "muster.node": name,
    "muster.pool": spec.pool,
    "muster.instance_type": spec.instanceType,
    "muster.demand": status.boundTo ?? "",
  };
  const times = { startMs: status.createdAtMs, endMs: readyAtMs };
  recordSpan(TRACER, "from order to ready", { ...times, parent: contextOfNode(name), attributes });
}

function buildLinks(other: Context): { readonly context: ReturnType<Span["spanContext"]> }[] {
  const span = trace.getSpanContext(other);
  return span === undefined ? [] : [{ context: span }];
}
