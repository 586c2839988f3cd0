import { retryOnConflict } from "@muster/backoff";
import { findFault, throwFault } from "@muster/faults";
import { getTraceparent } from "@muster/tracing";
import type { StoredValue } from "./adapters/messages.ts";
import type { StoredRecord } from "./adapters/records.ts";
import { buildSet, refuseUnknownPool } from "./apply-set.ts";
import { buildAudits, buildClientDetails } from "./domain/audit.ts";
import { checkReplicas, checkSpec, isSameSpec, normaliseTemplate, refuseField } from "./domain/check-spec.ts";
import { decideMinimum } from "./domain/decide-minimum.ts";
import { decideUndo } from "./domain/decide-undo.ts";
import type { AuditEvent, ReplicaSet, ReplicaSetSpec } from "./domain/replica-set.ts";
import type { Rollout } from "./domain/rollout.ts";
import { requireSet, type RequestDeps } from "./request-deps.ts";

export type CreateRolloutRequest = {
  readonly requestId: string;
  readonly oldSet: string;
  readonly newSet: string;
  /** The spec of the new set to create. Without it and without a template, the new set already exists. */
  readonly spec: ReplicaSetSpec | undefined;
  /** The template of a new set, which otherwise gets the spec of the old one; empty: no template. */
  readonly template: string;
  /** Undefined: the sum of both sets. */
  readonly replicasDesired: number | undefined;
  readonly minimum: number;
  readonly leaveOld: boolean;
  readonly delayMs: number;
  /** Name of the client; empty: anonymous. */
  readonly by: string;
};

const MAX_DELAY_MS = 86_400_000;

/**
 * Begins to move replicas from the old set to the new one, which is created first if a template is given. A repeated request returns the result of the first.
 */
export async function createRollout(deps: RequestDeps, request: CreateRolloutRequest): Promise<StoredRecord<Rollout>> {
  const { requestId, oldSet, newSet, minimum, leaveOld, delayMs, by } = request;
  if (oldSet === newSet) refuseField("new_set", `"${newSet}" is the old set: another name is needed`);
  const known = await deps.rollouts.get(newSet);
  if (known !== undefined && "record" in known && known.record.requestId === requestId) return known;
  const { record: old } = await requireSet(deps, oldSet);
  refuseUnavailable("old_set", old);
  refuseRival(deps, request);
  if (delayMs > MAX_DELAY_MS) refuseField("roll_delay_ms", `${delayMs} is more than ${MAX_DELAY_MS}`);
  const there = await deps.sets.get(newSet);
  // After a canary both sets have replicas.
  const newHas = there !== undefined && "record" in there ? there.record.spec.replicasDesired : 0;
  const target = request.replicasDesired ?? old.spec.replicasDesired + newHas;
  checkReplicas("replicas_desired", target);
  const oldHas = old.disabled ? old.placements.length : old.spec.replicasDesired;
  const never = decideMinimum({ minimum, target, leaveOld }, oldHas + newHas);
  if (never !== undefined) refuseField("minimum_replicas", never);
  // Create the new set last, so that a refused request leaves no set behind.
  const fresh = await requireNewSet(deps, request, old);
  refuseUnavailable("new_set", fresh);
  const rollout: Rollout = {
    id: newSet,
    oldSet,
    newSet,
    target,
    undoTarget: oldHas + newHas,
    newBefore: newHas,
    minimum,
    leaveOld,
    delayMs,
    oldDesired: old.spec.replicasDesired,
    newDesired: fresh.spec.replicasDesired,
    phase: "CREATING",
    lastStepAtMs: 0,
    createdAtMs: deps.now(),
    fence: 0,
    undone: 0,
    trouble: undefined,
    outbox: [],
    requestId,
    traceparent: getTraceparent(),
    by,
  };
  return { record: rollout, revision: await deps.rollouts.create(newSet, rollout) };
}

async function requireNewSet(deps: RequestDeps, request: CreateRolloutRequest, old: ReplicaSet): Promise<ReplicaSet> {
  const { newSet: name, template, requestId, by } = request;
  if (request.spec === undefined && template === "") {
    const { record } = await requireSet(deps, name);
    refuseOtherPodId("new_set", name, record.spec, old);
    return record;
  }
  const wanted = request.spec ?? { ...old.spec, template: normaliseTemplate(template) };
  const spec = checkSpec(name, { ...wanted, replicasDesired: 0 });
  refuseOtherPodId("spec.pod_id", name, spec, old);
  const there = await deps.sets.get(name);
  if (there !== undefined) return reuse(there, name, spec);
  const made = buildSet(deps, { name, requestId, by }, spec);
  await deps.check(made);
  await refuseUnknownPool(deps, made);
  try {
    await deps.sets.create(name, made);
    return made;
  } catch (error) {
    const rival = await deps.sets.get(name);
    if (findFault(error)?.code !== "already_exists" || rival === undefined) throw error;
    return reuse(rival, name, spec);
  }
}

function refuseOtherPodId(field: string, name: string, { podId }: ReplicaSetSpec, old: ReplicaSet): void {
  if (podId === old.spec.podId) return;
  refuseField(
    field,
    `${name} has pod id "${podId}", and ${old.name} has "${old.spec.podId}": only pods of one pod id replace each other on a node`,
  );
}

/** Reuses a set from an earlier request whose answer was lost, or that failed later. Throws already_exists for any other set of the name. */
function reuse(found: StoredValue<ReplicaSet>, name: string, spec: ReplicaSetSpec): ReplicaSet {
  if ("record" in found && found.record.placements.length === 0 && isSameSpec(found.record.spec, spec))
    return found.record;
  return throwFault({ code: "already_exists", kind: "replica set", id: name });
}

/** Refuses a second update of a set; a new update may not have marked its sets yet. */
function refuseRival({ world }: RequestDeps, { oldSet, newSet }: CreateRolloutRequest): void {
  for (const [field, name] of Object.entries({ old_set: oldSet, new_set: newSet }))
    for (const { id } of world.rolloutsOf(name)) refuseField(field, `${name} is in rolling update ${id} already`);
}

function refuseUnavailable(field: string, { name, rollout, deletion, spec, transfer }: ReplicaSet): void {
  if (rollout !== undefined) refuseField(field, `${name} is in rolling update ${rollout} already`);
  if (deletion !== undefined) refuseField(field, `${name} is being deleted`);
  if (spec.daemon)
    refuseField(field, `${name} has a pod on each eligible node: apply the new template with \`replace\` instead`);
  if (transfer !== undefined)
    refuseField(field, `${name} is leaving node ${transfer.oldNode}: wait until that has ended`);
}

type ChangeRolloutRequest = {
  readonly requestId: string;
  readonly id: string;
  readonly change: string;
  /** Undefined: unchanged. */
  readonly minimum: number | undefined;
  /** Name of the client; empty: anonymous. */
  readonly by: string;
};

const CHANGES: Readonly<Record<"PAUSE" | "RESUME" | "UNDO" | "REDO", AuditEvent>> = {
  PAUSE: "ROLLING_UPDATE_PAUSE",
  RESUME: "ROLLING_UPDATE_RESUME",
  UNDO: "ROLLING_UPDATE_UNDO",
  REDO: "ROLLING_UPDATE_REDO",
};

/** Applies each change once per request; a change that already applies has no effect. The trails of both sets record it. */
export async function changeRollout(deps: RequestDeps, request: ChangeRolloutRequest): Promise<StoredRecord<Rollout>> {
  const { requestId, id, change, minimum, by } = request;
  if (!isChange(change))
    return refuseField("change", `"${change}" is not a change: ${Object.keys(CHANGES).join(", ")} is needed`);
  return retryOnConflict(`rolling update ${id}`, async () => {
    const { record: rollout, revision } = await requireRollout(deps, id);
    if (rollout.requestId === requestId) return { unchanged: { record: rollout, revision } };
    const next = changed(rollout, change, minimum ?? rollout.minimum);
    if (next === rollout) return { unchanged: { record: rollout, revision } };
    const traceparent = getTraceparent();
    const { oldSet, newSet } = next;
    const details = {
      roll_id: id,
      old: oldSet,
      new: newSet,
      minimum_replicas: next.minimum,
      ...buildClientDetails(by),
    };
    const context = { nowMs: deps.now(), traceparent, newId: deps.newId };
    const audits = [oldSet, newSet].flatMap((set) =>
      buildAudits(set, [{ eventType: CHANGES[change], details }], context),
    );
    return {
      write: () => deps.rollouts.change({ key: id, revision, next: { ...next, requestId, traceparent }, audits }),
    };
  });
}

function isChange(text: string): text is keyof typeof CHANGES {
  return Object.hasOwn(CHANGES, text);
}

export async function requireRollout(deps: Pick<RequestDeps, "rollouts">, id: string): Promise<StoredRecord<Rollout>> {
  const found = await deps.rollouts.get(id);
  if (found === undefined) return throwFault({ code: "not_found", kind: "rolling update", id });
  if ("unreadable" in found)
    return refuseField("id", `the record of rolling update ${id} cannot be read: ${found.unreadable}`);
  return found;
}

function changed(rollout: Rollout, change: keyof typeof CHANGES, minimum: number): Rollout {
  const { phase, id } = rollout;
  if (phase === "FINISHING") refuseField("change", `rolling update ${id} is finishing and cannot be changed`);
  if (phase === "CREATING") {
    return throwFault({
      code: "unavailable",
      dependency: `rolling update ${id}, which has not begun`,
      retryAfterMs: 500,
    });
  }
  const wanted = minimum === rollout.minimum ? rollout : { ...rollout, minimum };
  const isGoingBack = rollout.undone % 2 === 1;
  if (isGoingBack === (change === "REDO") && (change === "UNDO" || change === "REDO")) {
    const verdict = decideUndo(wanted);
    if (verdict.kind === "undone") return verdict.next;
    return refuseField("minimum_replicas", `${change} would break the minimum of healthy replicas: ${verdict.because}`);
  }
  const { oldDesired, newDesired } = rollout;
  const never = minimum > rollout.minimum ? decideMinimum(wanted, oldDesired + newDesired) : undefined;
  if (never !== undefined) refuseField("minimum_replicas", never);
  if (change === "PAUSE" && phase !== "PAUSED") return { ...wanted, phase: "PAUSED" };
  if (change === "RESUME" && phase !== "RUNNING") return { ...wanted, phase: "RUNNING" };
  return wanted;
}
