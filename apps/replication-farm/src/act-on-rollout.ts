import { isRolloutWritten, type RolloutPlan } from "./domain/plan-pass.ts";
import type { RolloutStep } from "./domain/plan-rollout.ts";
import type { AuditRecord } from "./domain/replica-set.ts";
import type { Rollout } from "./domain/rollout.ts";
import type { SeenRollout } from "./observe-set.ts";
import type { SetOwnership, PassDeps } from "./pass-deps.ts";
import { runInStepSpan } from "./pass-trace.ts";
import { raiseAbandoned, raiseRolloutTrouble, resolveAbandoned } from "./pass-trouble.ts";
import { buildAuditRecords, publishOutbox } from "./pass-writes.ts";

/** The fence of a rolling update that no farm has run yet. */
const NO_OWNER = 0;

type Written = Extract<RolloutPlan, { kind: "step" }>;

/** Carries out the plan of the set's rolling update. `none`: no record was written. `failed`: the end of the update waits for the audit stream. */
export async function actOnRollout(
  deps: PassDeps,
  owned: SetOwnership,
  seen: SeenRollout,
  plan: RolloutPlan,
): Promise<"again" | "lost" | "none" | "failed"> {
  const { record: rollout, revision } = seen;
  const own = { key: rollout.id, revision, audits: [] };
  if (!owned.isHeld()) return "lost";
  if (plan.kind === "take") {
    owned.isRolloutFenced = false;
    await deps.rollouts.own({ ...own, next: rollout }, owned.fence);
    owned.isRolloutFenced = rollout.fence === NO_OWNER;
    return "again";
  }
  if (await publishOutbox(deps, owned, rollout)) {
    if (!owned.isHeld()) return "lost";
    await deps.rollouts.own({ ...own, next: { ...rollout, outbox: [] } }, owned.fence);
    return "again";
  }
  if (plan.kind === "fence") return fenceSets(deps, owned, seen);
  if (plan.kind !== "step") return "none";
  const { step, trouble } = plan;
  owned.rolloutWait = plan.wait;
  raiseRolloutTrouble(deps, rollout, step, trouble);
  raiseAbandoned(deps, rollout, step);
  deps.report.planned(owned.name, `roll-${step.kind}`, step.because);
  if (!isRolloutWritten(rollout.outbox, plan)) return step.kind === "end" ? "failed" : "none";
  if (step.kind === "end" && step.audits.length > 0) {
    // Publish the audits before the end is written: after the end, no record can carry them.
    const { traceparent } = rollout;
    const outbox = withStableIds(rollout, step, buildAuditRecords(deps, rollout.newSet, step.audits, traceparent));
    if (!(await publishOutbox(deps, owned, { outbox, traceparent }))) return "failed";
  }
  if (!owned.isHeld()) return "lost";
  const traced = { name: "roll replica sets", set: owned.name, because: step.because };
  await runInStepSpan(traced, (traceparent) => writeStep(deps, owned, seen, plan, traceparent || rollout.traceparent));
  return "again";
}

/**
 * After a change of owner, writes both sets unchanged. A set does not carry the fence of the update, and the update may end without another write to it. A late
 * write of the former, frozen owner then conflicts.
 */
async function fenceSets(deps: PassDeps, owned: SetOwnership, { sets }: SeenRollout): Promise<"again"> {
  for (const each of sets ?? []) {
    if (each === undefined) continue;
    const { set, revision } = each;
    await deps.sets.change({ key: set.name, revision, next: set, audits: [] });
  }
  owned.isRolloutFenced = true;
  return "again";
}

async function writeStep(
  deps: PassDeps,
  owned: SetOwnership,
  { record: rollout, revision, sets }: SeenRollout,
  { step, trouble }: Written,
  traceparent: string,
): Promise<void> {
  const own = { key: rollout.id, revision };
  switch (step.kind) {
    case "wait":
      await deps.rollouts.own({ ...own, next: { ...rollout, trouble }, audits: [] }, owned.fence);
      break;
    case "write": {
      const audits = buildAuditRecords(deps, rollout.newSet, step.audits, traceparent);
      await deps.rollouts.own({ ...own, next: { ...step.next, trouble: undefined }, audits }, owned.fence);
      break;
    }
    case "write-set": {
      // The sets were read before this point, and a later owner writes them after its take-over, so this write then conflicts.
      if ((await deps.rollouts.get(rollout.id))?.revision !== revision || !owned.isHeld()) break;
      const next = { ...step.next, traceparent: rollout.traceparent };
      const read = sets?.find((each) => each?.set.name === next.name)?.revision ?? 0;
      const audits = withStableIds(rollout, step, buildAuditRecords(deps, next.name, step.audits, traceparent));
      await deps.sets.change({ key: next.name, revision: read, next, audits });
      break;
    }
    case "end":
      await deps.rollouts.remove(rollout.id, revision);
      resolveAbandoned(deps, rollout);
      break;
  }
}

/** Audits an abandoned update once in the trail of a set, however often its end is retried: the stream drops duplicates. */
function withStableIds(
  { id, createdAtMs }: Rollout,
  { because }: RolloutStep,
  audits: readonly AuditRecord[],
): readonly AuditRecord[] {
  if (because === "finished") return audits;
  return audits.map((audit) => ({ ...audit, id: `${id}-${createdAtMs}-${audit.replicaSet}-given-up` }));
}
