import { expect, it } from "vitest";
import { decideTelemetry } from "./decide-telemetry.ts";

const NOTHING = { by: "hand", spans: false, metrics: false, measures: true };
const SPANS = { ...NOTHING, by: "sdk", spans: true };
const ENDPOINT = { OTEL_EXPORTER_OTLP_ENDPOINT: "http://collector:4318" };

it.each([
  ["no variable", {}, NOTHING],
  [
    "names alone",
    { OTEL_SERVICE_NAME: "a", OTEL_RESOURCE_ATTRIBUTES: "b=c", OTEL_TRACES_SAMPLER: "always_on" },
    NOTHING,
  ],
  ["an endpoint", ENDPOINT, SPANS],
  ["an endpoint for traces", { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "http://collector:4318/v1/traces" }, SPANS],
  ["an empty endpoint", { OTEL_EXPORTER_OTLP_ENDPOINT: "" }, NOTHING],
  ["an exporter of traces", { OTEL_TRACES_EXPORTER: "otlp" }, SPANS],
  ["no exporter of traces", { ...ENDPOINT, OTEL_TRACES_EXPORTER: " none " }, NOTHING],
  ["metrics over OTLP", { ...ENDPOINT, OTEL_METRICS_EXPORTER: "prometheus, otlp" }, { ...SPANS, metrics: true }],
  [
    "metrics alone",
    { ...ENDPOINT, OTEL_TRACES_EXPORTER: "none", OTEL_METRICS_EXPORTER: "otlp" },
    { ...NOTHING, by: "sdk", metrics: true },
  ],
  ["metrics that are scraped", { OTEL_METRICS_EXPORTER: "prometheus" }, NOTHING],
  ["propagators", { OTEL_PROPAGATORS: "b3" }, { ...NOTHING, by: "sdk" }],
  [
    "a disabled SDK",
    { ...ENDPOINT, OTEL_METRICS_EXPORTER: "otlp", OTEL_SDK_DISABLED: "True" },
    { ...NOTHING, measures: false },
  ],
])("%s", (_what, env, plan) => {
  expect(decideTelemetry(env)).toEqual(plan);
});
