import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

export type ReceivedSpan = {
  readonly service: string;
  readonly name: string;
  readonly traceId: string;
  readonly spanId: string;
  /** Empty for the root of a trace. */
  readonly parentSpanId: string;
  readonly failed: boolean;
  /** Milliseconds since 1970. */
  readonly startMs: number;
  readonly endMs: number;
  /** Ids of the traces that it is linked to. */
  readonly links: readonly string[];
  readonly attributes: Readonly<Record<string, unknown>>;
};

/** Receives OTLP over HTTP in its JSON form, as a collector would. */
export type OtlpCollector = AsyncDisposable & {
  /** Variables for a process that exports its spans here, soon after each has ended. */
  readonly variables: Readonly<Record<string, string>>;
  readonly spans: readonly ReceivedSpan[];
  /** Names of the metrics that have arrived, in their order. */
  readonly metrics: readonly string[];
};

type Attribute = { key: string; value: Record<string, unknown> };
type Traces = {
  resourceSpans?: {
    resource?: { attributes?: Attribute[] };
    scopeSpans?: {
      spans?: {
        name: string;
        traceId: string;
        spanId: string;
        parentSpanId?: string;
        startTimeUnixNano: string;
        endTimeUnixNano: string;
        status?: { code?: number };
        links?: { traceId: string }[];
        attributes?: Attribute[];
      }[];
    }[];
  }[];
};

type Metrics = { resourceMetrics?: { scopeMetrics?: { metrics?: { name: string }[] }[] }[] };

const STATUS_ERROR = 2;

export async function startOtlpCollector(): Promise<OtlpCollector> {
  const spans: ReceivedSpan[] = [];
  const metrics: string[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const received = JSON.parse(Buffer.concat(chunks).toString("utf8")) as Traces & Metrics;
      spans.push(...spansOf(received));
      metrics.push(...metricsOf(received));
      response.setHeader("content-type", "application/json").end("{}");
    });
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    variables: {
      OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
      OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
      OTEL_BSP_SCHEDULE_DELAY: "200",
    },
    spans,
    metrics,
    [Symbol.asyncDispose]: async () => {
      server.close();
      server.closeAllConnections();
      await once(server, "close");
    },
  };
}

function spansOf({ resourceSpans = [] }: Traces): ReceivedSpan[] {
  return resourceSpans.flatMap(({ resource, scopeSpans = [] }) => {
    const service = String(valuesOf(resource?.attributes)["service.name"]);
    return scopeSpans.flatMap(({ spans = [] }) =>
      spans.map((span) => ({
        service,
        name: span.name,
        traceId: span.traceId,
        spanId: span.spanId,
        parentSpanId: span.parentSpanId ?? "",
        failed: span.status?.code === STATUS_ERROR,
        startMs: Number(span.startTimeUnixNano) / 1e6,
        endMs: Number(span.endTimeUnixNano) / 1e6,
        links: (span.links ?? []).map(({ traceId }) => traceId),
        attributes: valuesOf(span.attributes),
      })),
    );
  });
}

function metricsOf({ resourceMetrics = [] }: Metrics): string[] {
  const scopes = resourceMetrics.flatMap(({ scopeMetrics = [] }) => scopeMetrics);
  return scopes.flatMap(({ metrics = [] }) => metrics.map(({ name }) => name));
}

function valuesOf(attributes: readonly Attribute[] = []): Record<string, unknown> {
  return Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]));
}
