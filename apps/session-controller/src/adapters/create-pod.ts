import { throwFault } from "@muster/faults";
import { getTraceparent } from "@muster/tracing";
import { buildPod, type PodPolicy } from "../domain/build-pod.ts";
import type { ActStep } from "../domain/session-steps.ts";
import type { SessionRecord } from "../domain/session.ts";
import type { StepResult, StoredSession } from "../session-deps.ts";
import type { SessionPods } from "./pods.ts";

export type CreatePodDeps = {
  readonly pods: Pick<SessionPods, "create" | "confirm">;
  readonly podPolicy: PodPolicy;
  /** Reads the session from the store. */
  readonly load: (name: string) => Promise<StoredSession | undefined>;
};

/**
 * Creates the pod of one component, and confirms it only if the session still belongs to the writer of this record: a stopped process may create the pod after
 * the session is over. An existing pod is treated in the same way.
 */
export async function createPod(
  deps: CreatePodDeps,
  record: SessionRecord,
  step: Extract<ActStep, { kind: "create-pod" }>,
  isHeld: () => boolean,
): Promise<StepResult> {
  const { component, pool, node: granted, workers } = step;
  const session = { ...record.spec, name: record.name, elsewhere: record.elsewhere, uid: record.uid };
  const manifest = buildPod(
    { session, component, pool, node: granted, workers, traceparent: getTraceparent() },
    deps.podPolicy,
  );
  const created = await deps.pods.create(record, component.name, manifest);
  if (created.kind !== "created") return { kind: "obstacle", obstacle: created };
  const { uid, node, confirmed } = created;
  if (!confirmed && (isHeld() || (await isCurrent(deps, record))))
    await deps.pods.confirm(manifest.metadata.name, uid, record.elsewhere?.namespace);
  return { kind: "outcome", outcome: { kind: "pod-created", component: component.name, uid, node } };
}

/**
 * Returns whether the session still belongs to the writer of this record, even if another process may lead. The read follows the pod's creation, so that a
 * later executor finds the pod. If the session is lost, the store refuses the outcome, and the pod is deleted.
 */
async function isCurrent({ load }: CreatePodDeps, { name, uid, epoch }: SessionRecord): Promise<boolean> {
  const stored = await load(name);
  if (stored?.record.uid !== uid) return false;
  if (stored.record.epoch < epoch) {
    // The record is older than the last write, for example from a NATS server that just lost its leader, so it proves no loss.
    throwFault({ code: "unavailable", dependency: `record of session ${name}`, retryAfterMs: 100 });
  }
  return stored.record.epoch === epoch;
}
