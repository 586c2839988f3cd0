import { throwFault } from "@muster/faults";
import { traceparentOf } from "@muster/tracing";
import { buildPod, type PodPolicy } from "../domain/build-pod.ts";
import type { ActStep } from "../domain/plan-session.ts";
import type { SessionRecord } from "../domain/session.ts";
import type { Acted, Stored } from "../session-deps.ts";
import type { Pods } from "./pods.ts";

export type CreatePodDeps = {
  readonly pods: Pick<Pods, "create" | "confirm">;
  readonly podPolicy: PodPolicy;
  /** The session as it is stored at this moment. */
  readonly load: (name: string) => Promise<Stored | undefined>;
};

/**
 * Makes the pod of one component, and lets it be placed when the session is still run by whoever wrote this record: a process that was stopped while its request
 * was under way may have made it when the session was long over. The same for a pod that is there already, so that it does not matter who made it.
 */
export async function createPod(
  deps: CreatePodDeps,
  record: SessionRecord,
  step: Extract<ActStep, { kind: "create-pod" }>,
): Promise<Acted> {
  const { component, workers } = step;
  const session = { ...record.spec, name: record.name, uid: record.uid };
  const manifest = buildPod(
    { session, component, node: step.node, workers, traceparent: traceparentOf() },
    deps.podPolicy,
  );
  const created = await deps.pods.create(record, component.name, manifest);
  if (created.kind !== "created") return { got: "obstacle", obstacle: created };
  const { uid, node, confirmed } = created;
  if (!confirmed && (await isCurrent(deps, record))) await deps.pods.confirm(manifest.metadata.name, uid);
  return { got: "outcome", outcome: { kind: "pod-created", component: component.name, uid, node } };
}

/**
 * Asked only once the pod is there, so that whoever takes the session over after the answer finds it. When the answer is no, the store refuses the outcome, and
 * what was made is taken back.
 */
async function isCurrent({ load }: CreatePodDeps, { name, uid, epoch }: SessionRecord): Promise<boolean> {
  const stored = await load(name);
  if (stored?.record.uid !== uid) return false;
  if (stored.record.epoch < epoch) {
    // Older than what was written before, as a store may answer that has just lost its leader: it proves nothing.
    throwFault({ code: "unavailable", dependency: `record of session ${name}`, retryAfterMs: 100 });
  }
  return stored.record.epoch === epoch;
}
