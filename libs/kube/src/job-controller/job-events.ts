import type { EventRecorder } from "../event-recorder.ts";
import type { GroupVersionKind, JobObject } from "./controller-interface.ts";
import type { RecordEvent } from "./member-control.ts";
import { apiVersionOf } from "./owner-reference.ts";

/** Tells about jobs of one kind through a recorder, so that `kubectl describe` of the job shows it. */
export function jobEvents(recorder: Pick<EventRecorder, "record">, gvk: GroupVersionKind): RecordEvent<JobObject> {
  return ({ metadata: { name, namespace, uid } }, type, reason, message) => {
    recorder.record({ apiVersion: apiVersionOf(gvk), kind: gvk.kind, name, namespace, uid }, { type, reason, message });
  };
}
