import { retryOnConflict } from "@muster/backoff";
import { faultOf, throwFault } from "@muster/faults";
import { traceparentOf } from "@muster/tracing";
import type { Readable } from "./adapters/messages.ts";
import type { Stored } from "./adapters/records.ts";
import {
  buildSet,
  checkReplicas,
  checkSpec,
  isSameSpec,
  oneForm,
  refuse,
  refuseUnknownPool,
  requireSet,
  type RequestDeps,
} from "./requests.ts";
import { buildAudits, byWhom } from "./domain/audit.ts";
import { decideMinimum } from "./domain/decide-minimum.ts";
import { decideUndo } from "./domain/decide-undo.ts";
import type { AuditEvent, ReplicaSet, ReplicaSetSpec } from "./domain/replica-set.ts";
import type { Roll } from "./domain/roll.ts";

export type CreateRollRequest = {
  readonly requestId: string;
  readonly oldSet: string;
  readonly newSet: string;
  /** Of the new set, which is made. With neither this nor a template it exists. */
  readonly spec: ReplicaSetSpec | undefined;
  /** Of a new set that is made with everything else as the old one has it; empty: none. */
  readonly template: string;
  /** Undefined: as many as both sets have. */
  readonly replicasDesired: number | undefined;
  readonly minimum: number;
  readonly leaveOld: boolean;
  readonly delayMs: number;
  /** Empty: nobody who says so. */
  readonly by: string;
};

const DELAY_MS_MAX = 86_400_000;

/** Begins to move from the old set to the new one, which is made first when a template comes along. The same request again finds what the first one made. */
export async function createRoll(deps: RequestDeps, request: CreateRollRequest): Promise<Stored<Roll>> {
  const { requestId, oldSet, newSet, minimum, leaveOld, delayMs, by } = request;
  if (oldSet === newSet) refuse("new_set", `"${newSet}" is the old set: another name is needed`);
  const known = await deps.rolls.get(newSet);
  if (known !== undefined && "record" in known && known.record.requestId === requestId) return known;
  const { record: old } = await requireSet(deps, oldSet);
  refuseUnfit("old_set", old);
  refuseRival(deps, request);
  if (delayMs > DELAY_MS_MAX) refuse("roll_delay_ms", `${delayMs} is more than ${DELAY_MS_MAX}`);
  const there = await deps.sets.get(newSet);
  // After a canary both sets have replicas.
  const newHas = there !== undefined && "record" in there ? there.record.spec.replicasDesired : 0;
  const target = request.replicasDesired ?? old.spec.replicasDesired + newHas;
  checkReplicas("replicas_desired", target);
  const oldHas = old.disabled ? old.placements.length : old.spec.replicasDesired;
  const never = decideMinimum({ minimum, target, leaveOld }, oldHas + newHas);
  if (never !== undefined) refuse("minimum_replicas", never);
  // Last, so that a request that is refused leaves no set behind.
  const fresh = await requireNewSet(deps, request, old);
  refuseUnfit("new_set", fresh);
  const roll: Roll = {
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
    traceparent: traceparentOf(),
    by,
  };
  return { record: roll, revision: await deps.rolls.create(newSet, roll) };
}

async function requireNewSet(deps: RequestDeps, request: CreateRollRequest, old: ReplicaSet): Promise<ReplicaSet> {
  const { newSet: name, template, requestId, by } = request;
  if (request.spec === undefined && template === "") {
    const { record } = await requireSet(deps, name);
    refuseOtherPodId("new_set", name, record.spec, old);
    return record;
  }
  const wanted = request.spec ?? { ...old.spec, template: oneForm(template) };
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
    if (faultOf(error)?.code !== "already_exists" || rival === undefined) throw error;
    return reuse(rival, name, spec);
  }
}

function refuseOtherPodId(field: string, name: string, { podId }: ReplicaSetSpec, old: ReplicaSet): void {
  if (podId === old.spec.podId) return;
  refuse(
    field,
    `${name} has pod id "${podId}", and ${old.name} has "${old.spec.podId}": only pods of one pod id give way to each other on a node`,
  );
}

/** Made by a request of which the answer was lost, or by one that got no further. Throws already_exists for any other set of the name. */
function reuse(found: Readable<ReplicaSet>, name: string, spec: ReplicaSetSpec): ReplicaSet {
  if ("record" in found && found.record.placements.length === 0 && isSameSpec(found.record.spec, spec))
    return found.record;
  return throwFault({ code: "already_exists", kind: "replica set", id: name });
}

/** One that was made a moment ago has not marked its sets yet. */
function refuseRival({ world }: RequestDeps, { oldSet, newSet }: CreateRollRequest): void {
  for (const [field, name] of Object.entries({ old_set: oldSet, new_set: newSet }))
    for (const { id } of world.rollsOf(name)) refuse(field, `${name} is in rolling update ${id} already`);
}

function refuseUnfit(field: string, { name, roll, deletion, spec, transfer }: ReplicaSet): void {
  if (roll !== undefined) refuse(field, `${name} is in rolling update ${roll} already`);
  if (deletion !== undefined) refuse(field, `${name} is being deleted`);
  if (spec.daemon)
    refuse(field, `${name} has a pod on each eligible node: apply the new template with \`replace\` instead`);
  if (transfer !== undefined) refuse(field, `${name} is leaving node ${transfer.oldNode}: wait until that has ended`);
}

export type ChangeRollRequest = {
  readonly requestId: string;
  readonly id: string;
  readonly change: string;
  /** Undefined: as before. */
  readonly minimum: number | undefined;
  /** Empty: nobody who says so. */
  readonly by: string;
};

const CHANGES: Readonly<Record<"PAUSE" | "RESUME" | "UNDO" | "REDO", AuditEvent>> = {
  PAUSE: "ROLLING_UPDATE_PAUSE",
  RESUME: "ROLLING_UPDATE_RESUME",
  UNDO: "ROLLING_UPDATE_UNDO",
  REDO: "ROLLING_UPDATE_REDO",
};

/** Each change is done once a request, and one that is done already changes nothing. Both sets' trails have it. */
export async function changeRoll(deps: RequestDeps, request: ChangeRollRequest): Promise<Stored<Roll>> {
  const { requestId, id, change, minimum, by } = request;
  if (!isChange(change)) return refuse("change", `"${change}" is none: ${Object.keys(CHANGES).join(", ")} is needed`);
  return retryOnConflict(`rolling update ${id}`, async () => {
    const { record: roll, revision } = await requireRoll(deps, id);
    if (roll.requestId === requestId) return { unchanged: { record: roll, revision } };
    const next = changed(roll, change, minimum ?? roll.minimum);
    if (next === roll) return { unchanged: { record: roll, revision } };
    const traceparent = traceparentOf();
    const { oldSet, newSet } = next;
    const details = { roll_id: id, old: oldSet, new: newSet, minimum_replicas: next.minimum, ...byWhom(by) };
    const context = { nowMs: deps.now(), traceparent, newId: deps.newId };
    const audits = [oldSet, newSet].flatMap((set) =>
      buildAudits(set, [{ eventType: CHANGES[change], details }], context),
    );
    return {
      write: () => deps.rolls.change({ key: id, revision, next: { ...next, requestId, traceparent }, audits }),
    };
  });
}

function isChange(text: string): text is keyof typeof CHANGES {
  return Object.hasOwn(CHANGES, text);
}

export async function requireRoll(deps: Pick<RequestDeps, "rolls">, id: string): Promise<Stored<Roll>> {
  const found = await deps.rolls.get(id);
  if (found === undefined) return throwFault({ code: "not_found", kind: "rolling update", id });
  if ("unreadable" in found)
    return refuse("id", `the record of rolling update ${id} cannot be read: ${found.unreadable}`);
  return found;
}

function changed(roll: Roll, change: keyof typeof CHANGES, minimum: number): Roll {
  const { phase, id } = roll;
  if (phase === "FINISHING") refuse("change", `rolling update ${id} is finishing and cannot be changed`);
  if (phase === "CREATING") {
    return throwFault({
      code: "unavailable",
      dependency: `rolling update ${id}, which has not begun`,
      retryAfterMs: 500,
    });
  }
  const wanted = minimum === roll.minimum ? roll : { ...roll, minimum };
  const isGoingBack = roll.undone % 2 === 1;
  if (isGoingBack === (change === "REDO") && (change === "UNDO" || change === "REDO")) {
    const verdict = decideUndo(wanted);
    if (verdict.kind === "undone") return verdict.next;
    return refuse("minimum_replicas", `${change} would take from what has to stay healthy: ${verdict.because}`);
  }
  const { oldDesired, newDesired } = roll;
  const never = minimum > roll.minimum ? decideMinimum(wanted, oldDesired + newDesired) : undefined;
  if (never !== undefined) refuse("minimum_replicas", never);
  if (change === "PAUSE" && phase !== "PAUSED") return { ...wanted, phase: "PAUSED" };
  if (change === "RESUME" && phase !== "RUNNING") return { ...wanted, phase: "RUNNING" };
  return wanted;
}
