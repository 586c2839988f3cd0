import { context } from "@opentelemetry/api";
import { until } from "@muster/testkit";
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { parseTraceparent, inSpan, startTelemetry } from "../src/index.ts";
import { startJaeger, type Jaeger } from "./some-jaeger.ts";

let jaeger: Jaeger | string;
// The image may have to be pulled first.
beforeAll(async () => {
  jaeger = await startJaeger();
}, 300_000);
afterEach(() => {
  vi.unstubAllEnvs();
});
afterAll(async () => {
  if (typeof jaeger !== "string") await jaeger[Symbol.asyncDispose]();
});

const NEVER_SAMPLED = { OTEL_TRACES_SAMPLER: "parentbased_traceidratio", OTEL_TRACES_SAMPLER_ARG: "0" };
const CALLER = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-0";

describe.each(["grpc", "http/protobuf", "http/json"])("over %s", (protocol) => {
  const variablesFor = ({ grpc, http }: Jaeger): Readonly<Record<string, string>> => ({
    OTEL_EXPORTER_OTLP_PROTOCOL: protocol,
    OTEL_EXPORTER_OTLP_ENDPOINT: protocol === "grpc" ? grpc : http,
    OTEL_RESOURCE_ATTRIBUTES: "deployment.environment.name=test",
  });

  it("sends only sampled spans to Jaeger, with their resource", async ({ skip }) => {
    if (typeof jaeger === "string") return skip(jaeger);
    const variables = variablesFor(jaeger);
    const dropped = await traceOf({ ...variables, ...NEVER_SAMPLED }, "");
    const byCaller = await traceOf({ ...variables, ...NEVER_SAMPLED }, newCaller("1"));
    const notByCaller = await traceOf(variables, newCaller("0"));
    const kept = await traceOf({ ...variables, OTEL_TRACES_SAMPLER: "traceidratio", OTEL_TRACES_SAMPLER_ARG: "1" }, "");

    const { query } = jaeger;
    for (const traceId of [byCaller, kept]) {
      const found = await until("Jaeger has the trace", () => traceIn(query, traceId), LONG);
      expect(found).toMatchObject({ traceID: traceId, spans: [{ operationName: "outer" }] });
      expect(found.processes["p1"]).toMatchObject({
        serviceName: "tested",
        tags: expect.arrayContaining([
          { key: "deployment.environment.name", type: "string", value: "test" },
          { key: "service.version", type: "string", value: "1" },
        ]) as unknown,
      });
    }
    // Earlier spans have arrived with the last one.
    for (const traceId of [dropped, notByCaller]) expect(await traceIn(query, traceId)).toBeUndefined();
  });
});

const LONG = { timeoutMs: 60_000, everyMs: 200 };

/** A caller with a new trace, sampled (`1`) or not. */
function newCaller(flag: "0" | "1"): string {
  return CALLER.replace(/[0-9a-f]{32}/, crypto.randomUUID().replaceAll("-", "")) + flag;
}

/** Creates one span in a process with these variables; returns the id of its trace once it is sent. */
async function traceOf(variables: Readonly<Record<string, string>>, caller: string): Promise<string> {
  vi.unstubAllEnvs();
  for (const [name, value] of Object.entries(variables)) vi.stubEnv(name, value);
  await using _telemetry = await startTelemetry({ service: "tested", version: "1", env: process.env });
  const parent = caller === "" ? context.active() : parseTraceparent(caller);
  return await inSpan("test", "outer", { parent }, (span) => Promise.resolve(span.spanContext().traceId));
}

type Found = { readonly traceID: string; readonly processes: Readonly<Record<string, object>> };

async function traceIn(query: string, traceId: string): Promise<Found | undefined> {
  const answer = await fetch(`${query}/api/traces/${traceId}`);
  return answer.ok ? ((await answer.json()) as { data: Found[] }).data[0] : undefined;
}
