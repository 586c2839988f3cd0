import { OTLPMetricExporter as GrpcExporter } from "@opentelemetry/exporter-metrics-otlp-grpc";
import { OTLPMetricExporter as JsonExporter } from "@opentelemetry/exporter-metrics-otlp-http";
import { OTLPMetricExporter as ProtobufExporter } from "@opentelemetry/exporter-metrics-otlp-proto";
import {
  hostDetector,
  osDetector,
  resourceAttributesEnvDetector,
  serviceInstanceIdDetector,
  serviceNameEnvDetector,
  type Resource,
} from "@opentelemetry/resources";
import { PeriodicExportingMetricReader, type IMetricReader } from "@opentelemetry/sdk-metrics";
import { NodeSDK } from "@opentelemetry/sdk-node";

type Env = Readonly<Record<string, string | undefined>>;

/** The SDK's own detectors except `process`: a command line may hold a password, and belongs in no trace. */
const DETECTORS = [
  serviceInstanceIdDetector,
  hostDetector,
  osDetector,
  resourceAttributesEnvDetector,
  serviceNameEnvDetector,
];

/**
 * Starts the SDK for Node, which reads the OTEL_* variables of the process itself. `reader` receives the metrics beside the exporters. Shutdown sends the
 * remaining data.
 */
export function startSdk({
  spans,
  metrics,
  resource,
  reader,
  env,
}: {
  readonly spans: boolean;
  readonly metrics: boolean;
  readonly resource: Resource;
  readonly reader: IMetricReader;
  readonly env: Env;
}): NodeSDK {
  const sdk = new NodeSDK({
    resource,
    metricReaders: metrics ? [reader, otlpReader(env)] : [reader],
    // Logs go to the standard error of the process, and nowhere else.
    logRecordProcessors: [],
    ...(!spans && { spanProcessors: [] }),
    ...(env["OTEL_NODE_RESOURCE_DETECTORS"] === undefined && { resourceDetectors: DETECTORS }),
  });
  sdk.start();
  return sdk;
}

/** The SDK uses either explicit readers or those of the variables, not both. */
function otlpReader(env: Env): IMetricReader {
  const protocol = env["OTEL_EXPORTER_OTLP_METRICS_PROTOCOL"] ?? env["OTEL_EXPORTER_OTLP_PROTOCOL"];
  const intervalMs = parseMilliseconds(env["OTEL_METRIC_EXPORT_INTERVAL"], 60_000);
  const timeoutMs = parseMilliseconds(env["OTEL_METRIC_EXPORT_TIMEOUT"], 30_000);
  return new PeriodicExportingMetricReader({
    exporter:
      protocol === "grpc" ? new GrpcExporter() : protocol === "http/json" ? new JsonExporter() : new ProtobufExporter(),
    exportIntervalMillis: intervalMs,
    exportTimeoutMillis: Math.min(timeoutMs, intervalMs),
  });
}

/** Parses milliseconds. Returns the fallback for a value that is no time, as the SDK does for its own variables. */
function parseMilliseconds(text: string | undefined, fallback: number): number {
  const value = Number(text);
  return value > 0 && Number.isFinite(value) ? value : fallback;
}
