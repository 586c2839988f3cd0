import { metrics, ROOT_CONTEXT, trace } from "@opentelemetry/api";
import { startOtlpCollector, scrapeMetrics, type OtlpCollector } from "@muster/testkit";
import { afterEach, expect, it, vi } from "vitest";
import { buildContextOfIds, parseTraceparent, extractTrace, injectTrace, getTraceparent } from "./propagation.ts";
import { inSpan, recordSpan } from "./span.ts";
import { startTelemetry, type Telemetry } from "./telemetry.ts";

afterEach(() => {
  vi.unstubAllEnvs();
});

/** Starts telemetry with these variables, which the SDK reads from its process. */
function started(variables: Readonly<Record<string, string>>): Promise<Telemetry> {
  for (const [name, value] of Object.entries(variables)) vi.stubEnv(name, value);
  return startTelemetry({ service: "tested", version: "1", env: process.env });
}

const named = (collector: OtlpCollector, name: string) => collector.spans.find((span) => span.name === name);

it("exports the spans of a process as one tree and marks the failed one", async () => {
  await using received = await startOtlpCollector();
  const telemetry = await started(received.variables);
  const failing = inSpan("test", "outer", {}, async () => {
    await inSpan("test", "inner", {}, () => Promise.reject(new Error("on purpose")));
  });
  await expect(failing).rejects.toThrow("on purpose");
  await telemetry[Symbol.asyncDispose]();

  const [inner, outer] = [named(received, "inner"), named(received, "outer")];
  expect(inner?.parentSpanId).toBe(outer?.spanId);
  expect(inner?.traceId).toBe(outer?.traceId);
  expect(inner).toMatchObject({ failed: true, service: "tested" });
});

it("records a span that was over before the process began, with its times, in the trace of the ids", async () => {
  await using received = await startOtlpCollector();
  const telemetry = await started(received.variables);
  const parent = buildContextOfIds({ traceId: "0a".repeat(16), spanId: "0b".repeat(8) });
  recordSpan("test", "boot", { startMs: 1000, endMs: 61_000, parent, attributes: { "muster.node": "n" } });
  await telemetry[Symbol.asyncDispose]();
  expect(named(received, "boot")).toMatchObject({
    traceId: "0a".repeat(16),
    parentSpanId: "0b".repeat(8),
    startMs: 1000,
    endMs: 61_000,
    attributes: { "muster.node": "n" },
  });
});

it.each([
  [{ OTEL_SERVICE_NAME: "renamed" }, "renamed"],
  [{ OTEL_RESOURCE_ATTRIBUTES: "service.name=from-attributes" }, "from-attributes"],
  [{ OTEL_NODE_RESOURCE_DETECTORS: "host", OTEL_SERVICE_NAME: "not-detected" }, "tested"],
])("names the service as %o has it", async (variables, service) => {
  await using received = await startOtlpCollector();
  const telemetry = await started({ ...received.variables, ...variables });
  await inSpan("test", "span", {}, () => Promise.resolve());
  await telemetry[Symbol.asyncDispose]();
  expect(named(received, "span")?.service).toBe(service);
});

it("sends metrics over OTLP beside those that are scraped", async () => {
  await using received = await startOtlpCollector();
  const telemetry = await started({ ...received.variables, OTEL_METRICS_EXPORTER: "otlp" });
  metrics.getMeter("test").createCounter("decisions", { unit: "1" }).add(3);
  expect(await scrapeMetrics(telemetry)).toMatch(/^decisions_total(\{[^}]*\})? 3/m);
  await telemetry[Symbol.asyncDispose]();
  expect(received.metrics).toContain("decisions");
});

it("sends contexts in messages as OTEL_PROPAGATORS has it, and stores them as W3C has it", async () => {
  await using _telemetry = await started({ OTEL_PROPAGATORS: "b3" });
  await inSpan("test", "outer", {}, (span) => {
    const headers = new Map<string, string>();
    injectTrace(headers);
    expect([...headers.keys()]).toEqual(["b3"]);
    const { traceId, spanId } = span.spanContext();
    expect(trace.getSpanContext(extractTrace(headers))).toMatchObject({ traceId, spanId });
    expect(trace.getSpanContext(parseTraceparent(getTraceparent()))).toMatchObject({ traceId, spanId });
    return Promise.resolve();
  });
});

it("exports and counts nothing if the SDK is disabled, but propagates contexts", async () => {
  await using received = await startOtlpCollector();
  const telemetry = await started({ ...received.variables, OTEL_METRICS_EXPORTER: "otlp", OTEL_SDK_DISABLED: "true" });
  metrics.getMeter("test").createCounter("decisions").add(1);
  await inSpan("test", "outer", {}, (span) => {
    expect(getTraceparent()).toContain(span.spanContext().traceId);
    return Promise.resolve();
  });
  expect(await scrapeMetrics(telemetry)).not.toContain("decisions");
  await telemetry[Symbol.asyncDispose]();
  expect([received.spans, received.metrics]).toEqual([[], []]);
});

it("propagates a context through headers, also without an export", async () => {
  await using _telemetry = await startTelemetry({ service: "tested", version: "1", env: {} });
  await inSpan("test", "outer", {}, (span) => {
    const headers = new Map<string, string>();
    injectTrace(headers);
    expect(trace.getSpanContext(extractTrace(headers))?.spanId).toBe(span.spanContext().spanId);
    expect(getTraceparent()).toContain(span.spanContext().traceId);
    expect(trace.getSpanContext(parseTraceparent(getTraceparent()))?.spanId).toBe(span.spanContext().spanId);
    expect(parseTraceparent("")).toBe(ROOT_CONTEXT);
    return Promise.resolve();
  });
  expect(getTraceparent()).toBe("");
});

it("answers a scrape with the metrics of the process", async () => {
  await using telemetry = await startTelemetry({ service: "tested", version: "1", env: {} });
  metrics.getMeter("test").createCounter("decisions", { unit: "1" }).add(3, { outcome: "granted" });
  expect(await scrapeMetrics(telemetry)).toMatch(/decisions_total\{[^}]*outcome="granted"[^}]*\} 3/);
});
