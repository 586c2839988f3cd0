import { metrics } from "@opentelemetry/api";

/** Statuses of answers that refuse a request because of its user: no valid token, no right, or a rate above the limit. */
const REFUSALS: ReadonlySet<number> = new Set([401, 403, 429]);
/** Histogram buckets that the semantic conventions of OpenTelemetry recommend. */
const ANSWER_SECONDS = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10];

export type MeasuredAnswer = {
  readonly method: string;
  /** The path with the names of its parameters; undefined for an unknown path. */
  readonly route: string | undefined;
  readonly status: number;
  readonly ms: number;
};

/** Measures answers and counts refusals. Created once per server, after telemetry has started. */
export function answerMeter(): (answer: MeasuredAnswer) => void {
  const meter = metrics.getMeter("@muster/gateway");
  const durations = meter.createHistogram("http.server.request.duration", {
    unit: "s",
    description: "Time to answer a request over HTTP, except watches, logs and long polls, by method, route and status",
    advice: { explicitBucketBoundaries: ANSWER_SECONDS },
  });
  const refusals = meter.createCounter("muster.gateway.refusals", {
    unit: "{request}",
    description:
      "Requests over HTTP that were refused, by status: no valid token (401), no right (403), above a rate (429)",
  });
  return ({ method, route, status, ms }) => {
    durations.record(ms / 1000, {
      "http.request.method": method,
      "http.response.status_code": status,
      ...(route !== undefined && { "http.route": route }),
    });
    if (REFUSALS.has(status)) refusals.add(1, { "muster.gateway.status": String(status) });
  };
}

/** Exports the usage of the limits until disposal. */
export function observeUse(use: {
  readonly streams: () => number;
  readonly lists: () => number;
  readonly listBytes: () => number;
  readonly lateOutcomes: () => number;
}): Disposable {
  const meter = metrics.getMeter("@muster/gateway");
  const streams = meter.createObservableGauge("muster.gateway.streams", {
    unit: "{stream}",
    description: "Open watches, logs and long polls",
  });
  const lists = meter.createObservableGauge("muster.gateway.watched.lists", {
    unit: "{list}",
    description: "Lists that are followed for watches",
  });
  const size = meter.createObservableGauge("muster.gateway.watched.size", {
    unit: "By",
    description: "Bytes of the lists that are followed for watches, as JSON",
  });
  const late = meter.createObservableGauge("muster.gateway.audit.waiting", {
    unit: "{change}",
    description: "Changes whose outcome the audit has not taken yet",
  });
  const all = [streams, lists, size, late];
  const observe: Parameters<typeof meter.addBatchObservableCallback>[0] = (result) => {
    result.observe(streams, use.streams());
    result.observe(lists, use.lists());
    result.observe(size, use.listBytes());
    result.observe(late, use.lateOutcomes());
  };
  meter.addBatchObservableCallback(observe, all);
  return { [Symbol.dispose]: () => meter.removeBatchObservableCallback(observe, all) };
}
