import type { IncomingMessage, ServerResponse } from "node:http";
import { context, logs, metrics, propagation, trace } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { W3CTraceContextPropagator } from "@opentelemetry/core";
import { PrometheusExporter } from "@opentelemetry/exporter-prometheus";
import {
  defaultResource,
  detectResources,
  resourceAttributesEnvDetector,
  resourceFromAttributes,
  serviceNameEnvDetector,
  type Resource,
} from "@opentelemetry/resources";
import { MeterProvider, type IMetricReader } from "@opentelemetry/sdk-metrics";
import { ATTR_SERVICE_NAME, ATTR_SERVICE_VERSION } from "@opentelemetry/semantic-conventions";
import { decideTelemetry } from "./decide-telemetry.ts";
import { makeUnrecordedSpans } from "./unrecorded-spans.ts";

export type Telemetry = AsyncDisposable & {
  /** Answers a scrape with every metric of this process, in Prometheus' text form. */
  answerScrape(request: IncomingMessage, response: ServerResponse): void;
};

/** Maximum wait for a collector, so that a silent one does not delay the end of the process. */
const FLUSH_TIMEOUT_MS = 3000;

/**
 * Starts OpenTelemetry for this process; all other code uses only @opentelemetry/api. Trace ids always exist, so that logs contain them. The SDK for Node
 * exports spans and metrics as the OTEL_* variables state. It is loaded only for an export, which saves its memory otherwise. Call once, first. Disposal sends
 * the remaining data, for at most 3 s.
 */
export async function startTelemetry(identity: {
  readonly service: string;
  readonly version: string;
  readonly env: Readonly<Record<string, string | undefined>>;
}): Promise<Telemetry> {
  const { service, version, env } = identity;
  const named = resourceFromAttributes({ [ATTR_SERVICE_NAME]: service, [ATTR_SERVICE_VERSION]: version });
  const resource = defaultResource().merge(named);
  const prometheus = new PrometheusExporter({ preventServerStart: true });
  const plan = decideTelemetry(env);

  const parts = { resource, reader: prometheus };
  const started =
    plan.by === "sdk"
      ? (await import("./node-sdk.ts")).startSdk({ ...plan, ...parts, env })
      : startByHand({ ...plan, ...parts });
  if (!plan.spans) trace.setGlobalTracerProvider(makeUnrecordedSpans());

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
      // An unreachable collector is no failure of this process, so its spans are dropped without an error.
      await Promise.race([started.shutdown().catch(() => undefined), late]);
      for (const api of [context, propagation, trace, metrics, logs]) api.disable();
    },
  };
}

/** Sets up contexts and metrics with the defaults of the SDK. */
function startByHand({
  resource,
  reader,
  measures,
}: {
  readonly resource: Resource;
  readonly reader: IMetricReader;
  readonly measures: boolean;
}): MeterProvider {
  const detected = detectResources({ detectors: [resourceAttributesEnvDetector, serviceNameEnvDetector] });
  const meters = new MeterProvider({ resource: resource.merge(detected), readers: [reader] });
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  propagation.setGlobalPropagator(new W3CTraceContextPropagator());
  if (measures) metrics.setGlobalMeterProvider(meters);
  return meters;
}
