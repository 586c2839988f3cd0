import { until } from "@muster/testkit";
import { GenericContainer, getContainerRuntimeClient, Wait } from "testcontainers";
import { expect, it } from "vitest";
import { inSpan, startTelemetry } from "../src/index.ts";

/** An image may have to be fetched first. */
const SLOW = { timeout: 300_000 };

// The test ends its container itself; "false" has testcontainers' own container see to that when the test is killed, too.
process.env["TESTCONTAINERS_RYUK_DISABLED"] ??= "true";
const noDocker = await getContainerRuntimeClient().then(() => "", String);

it("sends spans that Jaeger finds again by their trace", SLOW, async ({ skip, onTestFinished }) => {
  skip(noDocker !== "", `no Docker engine: ${noDocker}`);
  await using container = await new GenericContainer("jaegertracing/all-in-one:1.62.0")
    .withExposedPorts(4318, 14269, 16686)
    .withWaitStrategy(Wait.forHttp("/", 14269))
    .start();
  const url = (port: number) => `http://${container.getHost()}:${container.getMappedPort(port)}`;
  process.env["OTEL_EXPORTER_OTLP_ENDPOINT"] = url(4318);
  onTestFinished(() => {
    delete process.env["OTEL_EXPORTER_OTLP_ENDPOINT"];
  });
  await using _telemetry = startTelemetry({ service: "tested", version: "1", env: process.env });
  const traceId = await inSpan("test", "told", {}, (span) => Promise.resolve(span.spanContext().traceId));

  const found = await until(
    "Jaeger has the trace",
    async () => {
      const answer = await fetch(`${url(16686)}/api/traces/${traceId}`);
      return answer.ok && (await answer.json());
    },
    { timeoutMs: 60_000, everyMs: 200 },
  );
  expect(found).toMatchObject({
    data: [{ traceID: traceId, spans: [{ operationName: "told" }], processes: { p1: { serviceName: "tested" } } }],
  });
});
