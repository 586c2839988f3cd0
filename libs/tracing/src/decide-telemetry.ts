type TelemetryPlan = {
  /** The SDK for Node, or without it spans that are not recorded and metrics that are only scraped. */
  readonly by: "sdk" | "hand";
  /** True if spans are recorded and exported. */
  readonly spans: boolean;
  /** True if metrics are also sent over OTLP. */
  readonly metrics: boolean;
  /** True if metrics are recorded. */
  readonly measures: boolean;
};

/**
 * Decides which exports the standard variables enable. Unlike in the specification, nothing is exported before a variable names an exporter or an endpoint.
 * Metrics are sent only if OTEL_METRICS_EXPORTER has `otlp`: they are meant to be scraped, and a collector of traces may refuse them.
 */
export function decideTelemetry(env: Readonly<Record<string, string | undefined>>): TelemetryPlan {
  if (env["OTEL_SDK_DISABLED"]?.trim().toLowerCase() === "true")
    return { by: "hand", spans: false, metrics: false, measures: false };
  const exporters = parseList(env["OTEL_TRACES_EXPORTER"]);
  const endpoints = [env["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"], env["OTEL_EXPORTER_OTLP_ENDPOINT"]];
  const spans = exporters.length > 0 ? !exporters.includes("none") : endpoints.some(Boolean);
  const metrics = parseList(env["OTEL_METRICS_EXPORTER"]).includes("otlp");
  const propagators = parseList(env["OTEL_PROPAGATORS"]).length > 0;
  return { by: spans || metrics || propagators ? "sdk" : "hand", spans, metrics, measures: true };
}

function parseList(value = ""): string[] {
  return value
    .split(",")
    .map((word) => word.trim())
    .filter((word) => word !== "");
}
