import { API_GROUP } from "./api-group.ts";

/** Every label of Muster on Kubernetes objects, without the group. */
const LABELS = [
  ...["attempt", "component", "component-kind", "controller", "default-queue", "exclusive", "group-name"],
  ...["installation", "job-name", "job-role", "lease", "lease-run", "lease-user", "node", "owner", "owner-kind"],
  ...["owner-uid", "pool", "queue", "replica-index", "replica-type", "scaler"],
];

/** Every annotation of Muster on Kubernetes objects, without the group. */
const ANNOTATIONS = [
  ...["cancelled", "cordoned", "kept", "main-container", "pool", "preemptible", "preempted-at", "progress"],
  ...["request-id", "sharing", "topology", "traceparent"],
];

/** The keys below `muster.dev/` that exist, by the field of `metadata` in which they have a meaning. */
export const MUSTER_KEYS = { labels: LABELS.map(inGroup), annotations: ANNOTATIONS.map(inGroup) } as const;

/** The annotations that users write in a job. Muster writes the others itself. */
export const JOB_KEYS = ["main-container", "pool", "preemptible", "sharing", "topology"].map(inGroup);

/** The labels that users write on a job. Muster writes the others itself. */
export const JOB_LABEL_KEYS = ["queue"].map(inGroup);

/** Keys that have a meaning on a job, but none on its pod templates. */
export const JOB_ONLY_KEYS = ["preemptible", "queue", "topology"].map(inGroup);

/** Whether the key belongs to Muster. */
export function isMusterKey(key: string): boolean {
  return key.startsWith(inGroup(""));
}

function inGroup(name: string): string {
  return `${API_GROUP}/${name}`;
}
