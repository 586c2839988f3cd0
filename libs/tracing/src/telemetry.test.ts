import { context, metrics, ROOT_CONTEXT, trace } from "@opentelemetry/api";
import { otlpCollector, scrape, type ReceivedSpan } from "@muster/testkit";
import { expect, it } from "vitest";
import { contextOfTraceparent, envFromContext, extractTrace, injectTrace, traceparentOf } from "./propagation.ts";
import { inSpan } from "./span.ts";
import { startTelemetry } from "./telemetry.ts";

it("exports the spans of a process as one tree and marks the failed one", async () => {
  await using received = await otlpCollector();
  process.env["OTEL_EXPORTER_OTLP_ENDPOINT"] = received.endpoint;
  const telemetry = startTelemetry({ service: "tested", version: "1", env: process.env });
  const failing = inSpan("test", "outer", {}, async () => {
    await inSpan("test", "inner", {}, () => Promise.reject(new Error("on purpose")));
  });
  await expect(failing).rejects.toThrow("on purpose");
  await telemetry[Symbol.asyncDispose]();
  delete process.env["OTEL_EXPORTER_OTLP_ENDPOINT"];

  const named = (name: string): ReceivedSpan | undefined => received.spans.find((span) => span.name === name);
  expect(named("inner")?.parentSpanId).toBe(named("outer")?.spanId);
  expect(named("inner")?.traceId).toBe(named("outer")?.traceId);
  expect(named("inner")).toMatchObject({ failed: true, service: "tested" });
});

it("carries a context through headers and through the environment of a process, also when nothing is exported", async () => {
  await using _telemetry = startTelemetry({ service: "tested", version: "1", env: {} });
  await inSpan("test", "outer", {}, (span) => {
    const headers = new Map<string, string>();
    injectTrace(headers);
    expect(trace.getSpanContext(extractTrace(headers))?.spanId).toBe(span.spanContext().spanId);
    expect(envFromContext()["TRACEPARENT"]).toBe(traceparentOf(context.active()));
    expect(traceparentOf()).toContain(span.spanContext().traceId);
    expect(trace.getSpanContext(contextOfTraceparent(traceparentOf()))?.spanId).toBe(span.spanContext().spanId);
    expect(contextOfTraceparent("")).toBe(ROOT_CONTEXT);
    return Promise.resolve();
  });
  expect(traceparentOf()).toBe("");
});

it("answers a scrape with the metrics of the process", async () => {
  await using telemetry = startTelemetry({ service: "tested", version: "1", env: {} });
  metrics.getMeter("test").createCounter("decisions", { unit: "1" }).add(3, { outcome: "granted" });
  expect(await scrape(telemetry)).toMatch(/decisions_total\{[^}]*outcome="granted"[^}]*\} 3/);
});
