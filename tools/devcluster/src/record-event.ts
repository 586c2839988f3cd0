import type { KubeCalls } from "@muster/kube";

export type RecordedEvent = {
  readonly type: "Normal" | "Warning";
  readonly reason: string;
  readonly message: string;
  readonly atMs: number;
  readonly action?: string;
};

/** The reporting component: `default-scheduler`, or `kubelet` with the name of its node. */
export type EventSource = { readonly component: string; readonly host?: string };

export type InvolvedObject = {
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
  calls: KubeCalls,
  source: EventSource,
  involved: InvolvedObject,
  event: RecordedEvent,
): Promise<void> {
  const namespace = involved.namespace ?? "default";
  const time = new Date(event.atMs).toISOString();
  const record = {
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
  };
  await calls.create({ apiVersion: "v1", plural: "events", namespace }, record, { isAnswerUnread: true });
}
