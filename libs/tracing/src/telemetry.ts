import type { IncomingMessage, ServerResponse } from "node:http";
import { context, metrics, propagation, trace } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { W3CTraceContextPropagator } from "@opentelemetry/core";
import { PrometheusExporter } from "@opentelemetry/exporter-prometheus";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import {
  defaultResource,
  detectResources,
  resourceAttributesEnvDetector,
  resourceFromAttributes,
  serviceNameEnvDetector,
  type Resource,
} from "@opentelemetry/resources";
import { MeterProvider } from "@opentelemetry/sdk-metrics";
import { BatchSpanProcessor, TracerProvider } from "@opentelemetry/sdk-trace";
import { ATTR_SERVICE_NAME, ATTR_SERVICE_VERSION } from "@opentelemetry/semantic-conventions";
import { unrecordedSpans } from "./unrecorded-spans.ts";

export type Telemetry = AsyncDisposable & {
  /** Answers a scrape with every metric of this process, in Prometheus' text form. */
  answerScrape(request: IncomingMessage, response: ServerResponse): void;
};

/** A collector that does not answer must not hold up the end of a process. */
const FLUSH_TIMEOUT_MS = 3000;
/** Spans leave soon, so that a process killed later loses little. */
const EXPORT_EVERY_MS = 500;

/**
 * Turns OpenTelemetry on for this process; everything else uses @opentelemetry/api alone. Trace ids exist always, so that logs carry them; spans are exported
 * over OTLP/HTTP when OTEL_EXPORTER_OTLP_ENDPOINT (or its _TRACES_ form) is set. Call once, first. Disposing sends what is left, for at most 3 s.
 */
export function startTelemetry(identity: {
  readonly service: string;
  readonly version: string;
  readonly env: Readonly<Record<string, string | undefined>>;
}): Telemetry {
  const { env } = identity;
  const resource = defaultResource()
    .merge(resourceFromAttributes({ [ATTR_SERVICE_NAME]: identity.service, [ATTR_SERVICE_VERSION]: identity.version }))
    .merge(detectResources({ detectors: [resourceAttributesEnvDetector, serviceNameEnvDetector] }));

  const exporting = [env["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"], env["OTEL_EXPORTER_OTLP_ENDPOINT"]].some(Boolean);
  const spans = exporting ? exportedSpans(resource) : undefined;
  const prometheus = new PrometheusExporter({ preventServerStart: true });
  const meters = new MeterProvider({ resource, readers: [prometheus] });

  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  propagation.setGlobalPropagator(new W3CTraceContextPropagator());
  trace.setGlobalTracerProvider(spans ?? unrecordedSpans());
  metrics.setGlobalMeterProvider(meters);

  return {
    answerScrape: (request, response) => {
      prometheus.getMetricsRequestHandler(request, response);
    },
    [Symbol.asyncDispose]: async () => {
      const timeout = AbortSignal.timeout(FLUSH_TIMEOUT_MS);
      const late = new Promise<void>((resolve) => {
        timeout.addEventListener("abort", () => {
          resolve();
        });
      });
      // A collector that is away is not this process's failure: the spans are lost, the work is not.
      if (spans !== undefined) await Promise.race([spans.shutdown().catch(() => undefined), late]);
      await meters.shutdown().catch(() => undefined);
      for (const api of [context, propagation, trace, metrics]) api.disable();
    },
  };
}

function exportedSpans(resource: Resource): TracerProvider {
  const exporter = new OTLPTraceExporter();
  const processor = new BatchSpanProcessor({ exporter, scheduledDelayMillis: EXPORT_EVERY_MS });
  return new TracerProvider({ resource, spanProcessors: [processor] });
}
