import type { StoredRecord } from "./adapters/records.ts";
import type { SetPassPlan } from "./domain/plan-pass.ts";
import type { ReplicaSet } from "./domain/replica-set.ts";
import type { SetSnapshot } from "./domain/set-snapshot.ts";
import { forcePods } from "./force-pods.ts";
import type { SeenSet } from "./observe-set.ts";
import type { SetOwnership, PassDeps } from "./pass-deps.ts";
import { passMachines } from "./pass-machines.ts";
import { beginSteps, finishSteps } from "./pass-pods.ts";
import { raiseTrouble } from "./pass-trouble.ts";
import { commitSet, publishOutbox, writeSet } from "./pass-writes.ts";

/** `again`: a write happened, and the next round decides on it. `atMs`: the time at which the plan changes without an event. */
export type RoundResult = "again" | "gone" | "lost" | { readonly atMs: number; readonly failed: boolean };

type WorkPlan = Extract<SetPassPlan, { kind: "work" }>;

/** Carries out the plan of a set. Steps of pods continue while the next change is made. A round without a change waits for the end of these steps. */
export async function actOnSet(
  deps: PassDeps,
  seen: SeenSet,
  stored: StoredRecord<ReplicaSet>,
  plan: SetPassPlan,
): Promise<RoundResult> {
  const { owned, snapshot } = seen;
  if (plan.kind === "take") return change(deps, owned, stored, stored.record);
  const isPublished = await publishOutbox(deps, owned, stored.record);
  const set = isPublished ? { ...stored, record: { ...stored.record, outbox: [] } } : stored;
  if (plan.change === undefined) raiseTrouble(deps, set.record, set.record);
  else deps.report.planned(owned.name, "change", plan.change.because);
  if (plan.change === undefined && !isPublished)
    return plan.kind === "hold" || snapshot === undefined ? SETTLED : settle(deps, seen, set, snapshot, plan);
  const next = plan.change && { ...plan.change, next: { ...plan.change.next, outbox: set.record.outbox } };
  const written = await (next === undefined
    ? writeSet(deps, owned, set, set.record)
    : commitSet(deps, seen, set, next));
  if (written === undefined) return "lost";
  // Raise after the write: an alert for a decision on an outdated record would never be resolved.
  raiseTrouble(deps, set.record, written.record);
  if (plan.kind === "work" && snapshot !== undefined)
    beginSteps(deps, owned, { ...snapshot, set: written.record }, plan.pods);
  return "again";
}

const SETTLED = { atMs: Infinity, failed: false };

async function settle(
  deps: PassDeps,
  { owned, inFlight, atMs }: SeenSet,
  set: StoredRecord<ReplicaSet>,
  snapshot: SetSnapshot,
  plan: WorkPlan,
): Promise<RoundResult> {
  for (const wait of plan.waits) deps.report.planned(owned.name, "wait", wait);
  beginSteps(deps, owned, snapshot, plan.pods);
  const finished = await finishSteps(deps, owned);
  if (finished.lost) return "lost";
  // The plan includes neither the steps that started earlier nor the answers.
  if (inFlight.size > 0 || owned.answers.length > 0) return "again";
  if (plan.isDone) owned.doneUnder = set.record.traceparent;
  if (!finished.failed) await forcePods(deps, owned, snapshot);
  const machines = await passMachines(deps, owned, set.record, plan.machines);
  const failed = finished.failed || machines.failed;
  if (!failed && plan.isOver) {
    const removed = await removeRecord(deps, owned, set);
    if (removed !== undefined) return removed;
  }
  return { atMs: Math.min(atMs, finished.atMs, machines.atMs, plan.atMs), failed };
}

async function change(
  deps: PassDeps,
  owned: SetOwnership,
  set: StoredRecord<ReplicaSet>,
  next: ReplicaSet,
): Promise<RoundResult> {
  const written = await writeSet(deps, owned, set, next);
  if (written === undefined) return "lost";
  raiseTrouble(deps, set.record, written.record);
  return "again";
}

/** Removes the record of a deleted set last, so that its pods can always be traced to it. Undefined: the API server still has pods of the set. */
async function removeRecord(
  deps: PassDeps,
  owned: SetOwnership,
  { record, revision }: StoredRecord<ReplicaSet>,
): Promise<"gone" | "lost" | undefined> {
  if ((await deps.pods.list(record)).length > 0) return undefined;
  if (!owned.isHeld()) return "lost";
  await deps.sets.remove(owned.name, revision);
  raiseTrouble(deps, record, { ...record, trouble: undefined });
  deps.report.planned(owned.name, "remove-record", "deleted");
  return "gone";
}
