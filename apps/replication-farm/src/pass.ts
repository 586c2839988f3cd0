import { countAvailable, countHealthy } from "./domain/count-healthy.ts";
import { nextAvailableAtMs } from "./domain/decide-available.ts";
import { endOfLossMs } from "./domain/plan-machines.ts";
import { planRollout, type RolloutSet, type RolloutStep } from "./domain/plan-rollout.ts";
import { planSet } from "./domain/plan-set.ts";
import type { AuditRecord, ReplicaSet } from "./domain/replica-set.ts";
import type { Rollout } from "./domain/rollout.ts";
import type { SetSnapshot, SetPolicy } from "./domain/set-snapshot.ts";
import type { Stored } from "./adapters/records.ts";
import { auditsOf, commit, publish, write } from "./pass-writes.ts";
import { inChange, inTrace } from "./change-trace.ts";
import { findUnhealthy, nextUnhealthyAtMs } from "./pass-health.ts";
import {
  resolveGivenUp,
  findStuck,
  raiseGivenUp,
  raiseRolloutTrouble,
  raiseTrouble,
  withMissingRollout,
} from "./pass-trouble.ts";
import { forcePods } from "./force-pods.ts";
import { beginSteps, finishSteps, podsOf, type Finished } from "./pass-pods.ts";
import { passMachines, observeMachines } from "./pass-machines.ts";
import type { Owned, PassDeps } from "./pass-deps.ts";

/** The fence of a rolling update that no farm has run yet. */
const NO_OWNER = 0;

/** `again`: something was written, and the next pass decides on it. `settled`: nothing is due until something changes, or until `atMs`. */
export type Settled = { readonly kind: "settled"; readonly atMs: number; readonly failed: boolean };
export type Passed = { readonly kind: "again" } | { readonly kind: "gone" } | { readonly kind: "lost" } | Settled;

/**
 * One pass over a set: at most one change of the record, or of the rolling update of its name, and the steps that make the pods match the record. The steps
 * continue while the next change is made; a pass that changes nothing waits for their end.
 */
export async function passSet(deps: PassDeps, owned: Owned): Promise<Passed> {
  const found = await deps.sets.get(owned.name);
  if (found !== undefined && "unreadable" in found) return settled();
  const rolloutSet = await passRollout(deps, owned, found !== undefined);
  if (rolloutSet !== undefined) return rolloutSet;
  if (found === undefined) return { kind: "gone" };
  if (found.record.fence > owned.fence) return { kind: "lost" };
  if (found.record.fence < owned.fence) return change(deps, owned, found, found.record);
  const isPublished = await publish(deps, owned, found.record);
  const set = isPublished ? { ...found, record: { ...found.record, outbox: [] } } : found;
  const rollout = await readRollout(deps, set.record);
  if (rollout === "missing") return passMissingRollout(deps, owned, set, isPublished);
  const isResting = owned.steps.size === 0;
  const snapshot = await snapshotOf(deps, owned, set.record, rollout);
  const plan = planSet(snapshot, deps.policy);
  if (plan.change !== undefined) deps.report.planned(owned.name, "change", plan.change.because);
  if (plan.change === undefined) raiseTrouble(deps, set.record, set.record);
  if (plan.change !== undefined || isPublished) {
    const written = await (plan.change === undefined
      ? write(deps, owned, set, set.record)
      : commit(deps, owned, set, plan.change, rollout));
    if (written === undefined) return { kind: "lost" };
    // Only after the write: an alert for a decision on an outdated record would never be resolved.
    raiseTrouble(deps, set.record, written.record);
    beginSteps(deps, owned, { ...snapshot, set: written.record, pods: podsOf(deps, owned, written.record) });
    return { kind: "again" };
  }
  for (const wait of plan.waits) deps.report.planned(owned.name, "wait", wait);
  beginSteps(deps, owned, snapshot);
  const finished = await finishSteps(deps, owned, set.record);
  if (finished.lost) return { kind: "lost" };
  if (finished.next !== undefined) {
    return change(deps, owned, set, finished.next);
  }
  // The decision did not include the steps that were started earlier.
  if (!isResting) return { kind: "again" };
  if (plan.waits.length === 0 && isAtRest(snapshot)) owned.doneUnder = set.record.traceparent;
  return rest(deps, owned, set, snapshot, finished);
}

/** Handles machines, forced deletions and the removal of the record when record and pods match, or wait for something. */
async function rest(
  deps: PassDeps,
  owned: Owned,
  set: Stored<ReplicaSet>,
  snapshot: SetSnapshot,
  finished: Finished,
): Promise<Passed> {
  if (!finished.failed) await forcePods(deps, owned, snapshot);
  const machines = await inTrace(set.record.traceparent, () => passMachines(deps, owned, set, snapshot));
  const failed = finished.failed || machines.failed;
  const unhealthyAtMs = nextUnhealthyAtMs(owned, healthOf(deps));
  const nextMs = nextAtMs(set.record, snapshot, deps.policy);
  const atMs = Math.min(finished.atMs, machines.atMs, nextMs, owned.rolloutAtMs, unhealthyAtMs);
  if (failed) return settled(atMs, failed);
  return (await removeDeleted(deps, owned, set, snapshot)) ?? settled(atMs);
}

/** Whether everything that was requested exists. */
function isAtRest({ set, rollout, pods, templateHash }: SetSnapshot): boolean {
  const isWhole = countHealthy(set, pods, templateHash) === set.placements.length;
  return rollout === undefined && set.transfer === undefined && isWhole;
}

function healthOf({ now, unhealthyMs }: PassDeps) {
  return { nowMs: now(), unhealthyMs };
}

async function passMissingRollout(
  deps: PassDeps,
  owned: Owned,
  set: Stored<ReplicaSet>,
  isPublished: boolean,
): Promise<Passed> {
  const next = withMissingRollout(set.record, deps.now());
  if (next !== set.record || isPublished) return change(deps, owned, set, next);
  raiseTrouble(deps, next, next);
  return settled();
}

function settled(atMs = Number.POSITIVE_INFINITY, failed = false): Settled {
  return { kind: "settled", atMs, failed };
}

/** When time alone changes the plan. */
function nextAtMs(set: ReplicaSet, { rollout, pods, nowMs }: SetSnapshot, policy: SetPolicy): number {
  const { transfer, transferNotBeforeMs, spec } = set;
  const never = Number.POSITIVE_INFINITY;
  const lossEndsAtMs = endOfLossMs(set, policy);
  return Math.min(
    lossEndsAtMs > nowMs ? lossEndsAtMs : never,
    transfer === undefined || transfer.deadlineMs <= nowMs ? never : transfer.deadlineMs,
    transfer === undefined ? never : nextAvailableAtMs(pods, spec, nowMs),
    transferNotBeforeMs === 0 ? never : transferNotBeforeMs,
    rollout === undefined || rollout.delayMs === 0 ? never : rollout.lastStepAtMs + rollout.delayMs,
  );
}

async function change(deps: PassDeps, owned: Owned, set: Stored<ReplicaSet>, next: ReplicaSet): Promise<Passed> {
  const written = await write(deps, owned, set, next);
  if (written === undefined) return { kind: "lost" };
  raiseTrouble(deps, set.record, written.record);
  return { kind: "again" };
}

async function readRollout(deps: PassDeps, { rollout: id }: ReplicaSet): Promise<Rollout | "missing" | undefined> {
  if (id === undefined) return undefined;
  const rollout = await deps.rollouts.get(id);
  // The update states how many replicas the set should have, so nothing is done without it.
  return rollout !== undefined && "record" in rollout ? rollout.record : "missing";
}

async function snapshotOf(
  deps: PassDeps,
  owned: Owned,
  set: ReplicaSet,
  rollout: Rollout | undefined,
): Promise<SetSnapshot> {
  const ledger = await observeMachines(deps, owned, set);
  const nodes = deps.world.nodesFor(set);
  const pods = podsOf(deps, owned, set);
  return {
    nowMs: deps.now(),
    set,
    rollout,
    nodes,
    unhealthy: nodes === undefined || set.disabled ? [] : findUnhealthy(owned, set, pods, healthOf(deps)),
    taken: deps.world.takenFrom(set),
    contest: deps.world.contestFor(set),
    ledger,
    pods,
    templateHash: deps.templateHash(set),
    failsafe: deps.failsafe(),
  };
}

/** The record of a deleted set is removed last, so that its pods can always be traced to it. */
async function removeDeleted(
  deps: PassDeps,
  owned: Owned,
  { record, revision }: Stored<ReplicaSet>,
  { pods }: SetSnapshot,
): Promise<Passed | undefined> {
  const { name, deletion, placements, transfer, machines, nextMachine, rollout, outbox } = record;
  if (deletion === undefined || placements.length > 0 || transfer !== undefined || rollout !== undefined)
    return undefined;
  const isReleased = machines.length === 0 && (nextMachine === 1 || deps.scheduler.machinesOf(name)?.size === 0);
  if (pods.size > 0 || outbox.length > 0 || !isReleased) return undefined;
  if ((await deps.pods.list(record)).length > 0) return undefined;
  if (!owned.isHeld()) return { kind: "lost" };
  await deps.sets.remove(owned.name, revision);
  raiseTrouble(deps, record, { ...record, trouble: undefined });
  deps.report.planned(owned.name, "remove-record", "deleted");
  return { kind: "gone" };
}

/** The owner of the set runs the rolling update of the set's name. Undefined: none exists, or it waits. */
async function passRollout(deps: PassDeps, owned: Owned, hasSet: boolean): Promise<Passed | undefined> {
  owned.rolloutAtMs = Number.POSITIVE_INFINITY;
  if (deps.world.rollout(owned.name) === undefined) return undefined;
  const found = await deps.rollouts.get(owned.name);
  if (found === undefined || "unreadable" in found) return undefined;
  const { record: rollout, revision } = found;
  const own = { key: rollout.id, revision };
  if (rollout.fence > owned.fence) return { kind: "lost" };
  if (!owned.isHeld()) return { kind: "lost" };
  if (rollout.fence < owned.fence) {
    owned.isRolloutFenced = false;
    await deps.rollouts.own({ ...own, next: rollout, audits: [] }, owned.fence);
    owned.isRolloutFenced = rollout.fence === NO_OWNER;
    return { kind: "again" };
  }
  if (await publish(deps, owned, rollout)) {
    if (!owned.isHeld()) return { kind: "lost" };
    await deps.rollouts.own({ ...own, next: { ...rollout, outbox: [] }, audits: [] }, owned.fence);
    return { kind: "again" };
  }
  const [oldRead, freshRead] = [await readRolloutSet(deps, rollout.oldSet), await readRolloutSet(deps, rollout.newSet)];
  if (oldRead === "unreadable" || freshRead === "unreadable") return hasSet ? undefined : settled();
  const old = oldRead && (await fenced(deps, owned, oldRead));
  const fresh = freshRead && (await fenced(deps, owned, freshRead));
  owned.isRolloutFenced = true;
  owned.rolloutAtMs = Math.min(...[old, fresh].map((each) => each?.nextAtMs ?? Number.POSITIVE_INFINITY));
  const blind = [old, fresh].some((each) => each !== undefined && deps.world.nodesFor(each.set) === undefined);
  const step = planRollout({ nowMs: deps.now(), rollout, old, fresh, blind });
  const sets = [old, fresh].flatMap((each) => each?.set ?? []);
  const trouble = findStuck(owned, rollout, step, { ...healthOf(deps), sets });
  raiseRolloutTrouble(deps, rollout, step, trouble);
  raiseGivenUp(deps, rollout, step);
  deps.report.planned(owned.name, `roll-${step.kind}`, step.because);
  if (step.kind === "wait" && (trouble === undefined || trouble.message === rollout.trouble?.message)) return undefined;
  // Only the record has its audits: it is kept until they are published.
  if (step.kind === "end" && rollout.outbox.length > 0)
    return hasSet ? undefined : settled(Number.POSITIVE_INFINITY, true);
  if (step.kind === "end" && step.audits.length > 0) {
    // Before the end: after it, no record can carry the audits.
    const { traceparent } = rollout;
    const outbox = auditsOf(deps, rollout.newSet, step.audits, traceparent).map((audit) =>
      onceOf(rollout, step, audit),
    );
    if (!(await publish(deps, owned, { outbox, traceparent }))) return hasSet ? undefined : settled(undefined, true);
  }
  if (!owned.isHeld()) return { kind: "lost" };
  const { because } = step;
  const traced = { doing: "roll replica sets", set: owned.name, because, under: rollout.traceparent };
  await inChange(traced, async (traceparent) => {
    switch (step.kind) {
      case "wait":
        await deps.rollouts.own({ ...own, next: { ...rollout, trouble }, audits: [] }, owned.fence);
        break;
      case "write": {
        const audits = auditsOf(deps, rollout.newSet, step.audits, traceparent);
        await deps.rollouts.own({ ...own, next: { ...step.next, trouble: undefined }, audits }, owned.fence);
        break;
      }
      case "write-set": {
        // Its sets were read before this, and a later owner writes them after it has taken the update over: this write then conflicts.
        if ((await deps.rollouts.get(rollout.id))?.revision !== revision || !owned.isHeld()) break;
        const next = { ...step.next, traceparent: rollout.traceparent };
        const rolloutSet = [old, fresh].find((each) => each?.set.name === next.name);
        const audits = auditsOf(deps, next.name, step.audits, traceparent).map((audit) => onceOf(rollout, step, audit));
        await deps.sets.change({ key: next.name, revision: rolloutSet?.revision ?? 0, next, audits });
        break;
      }
      case "end":
        await deps.rollouts.remove(rollout.id, revision);
        resolveGivenUp(deps, rollout);
        break;
    }
  });
  return { kind: "again" };
}

type StoredRolloutSet = RolloutSet & { readonly revision: number; readonly nextAtMs: number };

/**
 * After a change of owner, writes a set unchanged: sets do not carry the fence of the update, which may end without another write to them, and a write of the
 * former owner, which was frozen before it, must conflict.
 */
async function fenced(deps: PassDeps, owned: Owned, rolloutSet: StoredRolloutSet): Promise<StoredRolloutSet> {
  if (owned.isRolloutFenced) return rolloutSet;
  const { set, revision } = rolloutSet;
  return {
    ...rolloutSet,
    revision: (await deps.sets.change({ key: set.name, revision, next: set, audits: [] })).revision,
  };
}

/** A given up update is audited once in the trail of a set, however often its end is retried: the stream drops duplicates. */
function onceOf({ id, createdAtMs }: Rollout, { because }: RolloutStep, audit: AuditRecord): AuditRecord {
  if (because === "finished") return audit;
  return { ...audit, id: `${id}-${createdAtMs}-${audit.replicaSet}-given-up` };
}

async function readRolloutSet(deps: PassDeps, name: string): Promise<StoredRolloutSet | "unreadable" | undefined> {
  const found = await deps.sets.get(name);
  if (found === undefined) return undefined;
  if ("unreadable" in found) return "unreadable";
  const { record: set, revision } = found;
  const [pods, nowMs] = [deps.world.podsOf(name), deps.now()];
  const healthy = countAvailable(set, pods, { templateHash: deps.templateHash(set), nowMs });
  const nextAtMs = nextAvailableAtMs(pods, set.spec, nowMs);
  return { set, revision, healthy, nextAtMs };
}
