import { ROOT_CONTEXT, trace, TraceFlags } from "@opentelemetry/api";
import { expect, it } from "vitest";
import { makeUnrecordedSpans } from "./unrecorded-spans.ts";

const tracer = makeUnrecordedSpans().getTracer("test");

it("begins a trace that is marked as sampled, and continues an existing one", () => {
  const outer = tracer.startSpan("outer", {}, ROOT_CONTEXT).spanContext();
  expect(outer.traceFlags).toBe(TraceFlags.SAMPLED);
  const parent = trace.setSpanContext(ROOT_CONTEXT, { ...outer, traceFlags: TraceFlags.NONE });
  const inner = tracer.startSpan("inner", {}, parent).spanContext();
  expect(inner).toMatchObject({ traceId: outer.traceId, traceFlags: TraceFlags.NONE });
  expect(inner.spanId).not.toBe(outer.spanId);
  expect(tracer.startSpan("other", { root: true }, parent).spanContext().traceId).not.toBe(outer.traceId);
});

it("gives every span a unique id", () => {
  const ids = Array.from({ length: 5000 }, () => tracer.startSpan("span", {}, ROOT_CONTEXT).spanContext());
  expect(new Set(ids.map(({ traceId }) => traceId)).size).toBe(ids.length);
  expect(new Set(ids.map(({ spanId }) => spanId)).size).toBe(ids.length);
  for (const { traceId, spanId } of ids) expect([traceId.length, spanId.length]).toEqual([32, 16]);
});
