import type { JsonApi } from "./json-api.ts";

export type RecordedEvent = {
  readonly type: "Normal" | "Warning";
  readonly reason: string;
  readonly message: string;
  readonly atMs: number;
  readonly action?: string;
};

/** Who says it: `default-scheduler`, or `kubelet` with the name of its node. */
export type EventSource = { readonly component: string; readonly host?: string };

export type Involved = {
  readonly kind: "Pod" | "Node";
  readonly name: string;
  /** Absent for nodes; their events are kept in `default`. */
  readonly namespace?: string;
  readonly uid: string;
  /** `spec.containers{main}` */
  readonly fieldPath?: string;
};

/** Writes one Kubernetes event. */
export async function recordEvent(
  api: JsonApi,
  source: EventSource,
  involved: Involved,
  event: RecordedEvent,
): Promise<void> {
  const namespace = involved.namespace ?? "default";
  const time = new Date(event.atMs).toISOString();
  await api.send("POST", `/api/v1/namespaces/${namespace}/events`, {
    metadata: { namespace, generateName: `${involved.name}.` },
    involvedObject: { apiVersion: "v1", ...involved },
    type: event.type,
    reason: event.reason,
    message: event.message,
    source,
    reportingComponent: source.component,
    reportingInstance: source.host ?? source.component,
    firstTimestamp: time,
    lastTimestamp: time,
    count: 1,
    ...(event.action === undefined ? {} : { action: event.action }),
  });
}
