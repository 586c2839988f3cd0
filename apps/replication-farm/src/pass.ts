import { countAvailable, countHealthy } from "./domain/count-healthy.ts";
import { nextAvailableAtMs } from "./domain/decide-available.ts";
import { endOfLossMs } from "./domain/plan-machines.ts";
import { planRoll, type RolledSet, type RollStep } from "./domain/plan-roll.ts";
import { planSet } from "./domain/plan-set.ts";
import type { AuditRecord, ReplicaSet } from "./domain/replica-set.ts";
import type { Roll } from "./domain/roll.ts";
import type { SetSnapshot, SetPolicy } from "./domain/set-snapshot.ts";
import type { Stored } from "./adapters/records.ts";
import { auditsOf, commit, publish, write } from "./pass-writes.ts";
import { inChange, inTrace } from "./change-trace.ts";
import { findUnhealthy, nextUnhealthyAtMs } from "./pass-health.ts";
import { endGivenUp, findStuck, tellGivenUp, tellRollTrouble, tellTrouble, withMissingRoll } from "./pass-trouble.ts";
import { forcePods } from "./force-pods.ts";
import { beginSteps, finishSteps, podsOf, type Finished } from "./pass-pods.ts";
import { passMachines, sightMachines } from "./pass-machines.ts";
import type { Owned, PassDeps } from "./pass-deps.ts";

/** `again`: something was written, and the next pass decides on it. `settled`: nothing is to be done until something changes, or until `atMs`. */
export type Settled = { readonly kind: "settled"; readonly atMs: number; readonly failed: boolean };
export type Passed = { readonly kind: "again" } | { readonly kind: "gone" } | { readonly kind: "lost" } | Settled;

/**
 * One pass over a set: at most one change of the record, or of the rolling update that goes by its name, and what makes the pods what the record says. That goes on while the next change is made; a pass
 * that changes nothing waits for its end.
 */
export async function passSet(deps: PassDeps, owned: Owned): Promise<Passed> {
  const found = await deps.sets.get(owned.name);
  if (found !== undefined && "unreadable" in found) return settled();
  const rolled = await passRoll(deps, owned, found !== undefined);
  if (rolled !== undefined) return rolled;
  if (found === undefined) return { kind: "gone" };
  if (found.record.fence > owned.fence) return { kind: "lost" };
  if (found.record.fence < owned.fence) return change(deps, owned, found, found.record);
  const isTold = await publish(deps, owned, found.record);
  const set = isTold ? { ...found, record: { ...found.record, outbox: [] } } : found;
  const roll = await readRoll(deps, set.record);
  if (roll === "missing") return passMissingRoll(deps, owned, set, isTold);
  const isResting = owned.steps.size === 0;
  const snapshot = await snapshotOf(deps, owned, set.record, roll);
  const plan = planSet(snapshot, deps.policy);
  if (plan.change !== undefined) deps.tell.planned(owned.name, "change", plan.change.because);
  if (plan.change === undefined) tellTrouble(deps, set.record, set.record);
  if (plan.change !== undefined || isTold) {
    const written = await (plan.change === undefined
      ? write(deps, owned, set, set.record)
      : commit(deps, owned, set, plan.change, roll));
    if (written === undefined) return { kind: "lost" };
    // Not before it is written: what was decided on what is no longer so would be told, and never be over.
    tellTrouble(deps, set.record, written.record);
    beginSteps(deps, owned, { ...snapshot, set: written.record, pods: podsOf(deps, owned, written.record) });
    return { kind: "again" };
  }
  for (const wait of plan.waits) deps.tell.planned(owned.name, "wait", wait);
  beginSteps(deps, owned, snapshot);
  const finished = await finishSteps(deps, owned, set.record);
  if (finished.lost) return { kind: "lost" };
  if (finished.next !== undefined) {
    return change(deps, owned, set, finished.next);
  }
  // What was begun earlier was not in what was decided on.
  if (!isResting) return { kind: "again" };
  if (plan.waits.length === 0 && isAtRest(snapshot)) owned.doneUnder = set.record.traceparent;
  return rest(deps, owned, set, snapshot, finished);
}

/** What is to be done when record and pods are as they should be, or wait for something. */
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
  const atMs = Math.min(finished.atMs, machines.atMs, nextMs, owned.rollAtMs, unhealthyAtMs);
  if (failed) return settled(atMs, failed);
  return (await removeDeleted(deps, owned, set, snapshot)) ?? settled(atMs);
}

/** Everything that was asked for is there. */
function isAtRest({ set, roll, pods, templateHash }: SetSnapshot): boolean {
  const isWhole = countHealthy(set, pods, templateHash) === set.placements.length;
  return roll === undefined && set.transfer === undefined && isWhole;
}

function healthOf({ now, unhealthyMs }: PassDeps) {
  return { nowMs: now(), unhealthyMs };
}

async function passMissingRoll(
  deps: PassDeps,
  owned: Owned,
  set: Stored<ReplicaSet>,
  isTold: boolean,
): Promise<Passed> {
  const next = withMissingRoll(set.record, deps.now());
  if (next !== set.record || isTold) return change(deps, owned, set, next);
  tellTrouble(deps, next, next);
  return settled();
}

function settled(atMs = Number.POSITIVE_INFINITY, failed = false): Settled {
  return { kind: "settled", atMs, failed };
}

/** When time alone changes what is to be done. */
function nextAtMs(set: ReplicaSet, { roll, pods, nowMs }: SetSnapshot, policy: SetPolicy): number {
  const { transfer, transferNotBeforeMs, spec } = set;
  const never = Number.POSITIVE_INFINITY;
  const lossEndsAtMs = endOfLossMs(set, policy);
  return Math.min(
    lossEndsAtMs > nowMs ? lossEndsAtMs : never,
    transfer === undefined || transfer.deadlineMs <= nowMs ? never : transfer.deadlineMs,
    transfer === undefined ? never : nextAvailableAtMs(pods, spec, nowMs),
    transferNotBeforeMs === 0 ? never : transferNotBeforeMs,
    roll === undefined || roll.delayMs === 0 ? never : roll.lastStepAtMs + roll.delayMs,
  );
}

async function change(deps: PassDeps, owned: Owned, set: Stored<ReplicaSet>, next: ReplicaSet): Promise<Passed> {
  const written = await write(deps, owned, set, next);
  if (written === undefined) return { kind: "lost" };
  tellTrouble(deps, set.record, written.record);
  return { kind: "again" };
}

async function readRoll(deps: PassDeps, { roll: id }: ReplicaSet): Promise<Roll | "missing" | undefined> {
  if (id === undefined) return undefined;
  const roll = await deps.rolls.get(id);
  // How many replicas the set should have stands there, so that nothing is done without it.
  return roll !== undefined && "record" in roll ? roll.record : "missing";
}

async function snapshotOf(deps: PassDeps, owned: Owned, set: ReplicaSet, roll: Roll | undefined): Promise<SetSnapshot> {
  const ledger = await sightMachines(deps, owned, set);
  const nodes = deps.world.nodesFor(set);
  const pods = podsOf(deps, owned, set);
  return {
    nowMs: deps.now(),
    set,
    roll,
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

/** The record of a deleted set goes once nothing is left of it, so that whoever finds its pods finds it. */
async function removeDeleted(
  deps: PassDeps,
  owned: Owned,
  { record, revision }: Stored<ReplicaSet>,
  { pods }: SetSnapshot,
): Promise<Passed | undefined> {
  const { name, deletion, placements, transfer, machines, nextMachine, roll, outbox } = record;
  if (deletion === undefined || placements.length > 0 || transfer !== undefined || roll !== undefined) return undefined;
  const isGivenBack = machines.length === 0 && (nextMachine === 1 || deps.scheduler.machinesOf(name)?.size === 0);
  if (pods.size > 0 || outbox.length > 0 || !isGivenBack) return undefined;
  if ((await deps.pods.list(record)).length > 0) return undefined;
  if (!owned.isHeld()) return { kind: "lost" };
  await deps.sets.remove(owned.name, revision);
  tellTrouble(deps, record, { ...record, trouble: undefined });
  deps.tell.planned(owned.name, "remove-record", "deleted");
  return { kind: "gone" };
}

/** The rolling update that goes by the set's name is run by the set's owner. Undefined: there is none, or it waits. */
async function passRoll(deps: PassDeps, owned: Owned, hasSet: boolean): Promise<Passed | undefined> {
  owned.rollAtMs = Number.POSITIVE_INFINITY;
  if (deps.world.roll(owned.name) === undefined) return undefined;
  const found = await deps.rolls.get(owned.name);
  if (found === undefined || "unreadable" in found) return undefined;
  const { record: roll, revision } = found;
  const own = { key: roll.id, revision };
  if (roll.fence > owned.fence) return { kind: "lost" };
  if (!owned.isHeld()) return { kind: "lost" };
  if (roll.fence < owned.fence) {
    await deps.rolls.own({ ...own, next: roll, audits: [] }, owned.fence);
    return { kind: "again" };
  }
  if (await publish(deps, owned, roll)) {
    if (!owned.isHeld()) return { kind: "lost" };
    await deps.rolls.own({ ...own, next: { ...roll, outbox: [] }, audits: [] }, owned.fence);
    return { kind: "again" };
  }
  const [old, fresh] = [await readRolled(deps, roll.oldSet), await readRolled(deps, roll.newSet)];
  if (old === "unreadable" || fresh === "unreadable") return hasSet ? undefined : settled();
  owned.rollAtMs = Math.min(...[old, fresh].map((each) => each?.nextAtMs ?? Number.POSITIVE_INFINITY));
  const blind = [old, fresh].some((each) => each !== undefined && deps.world.nodesFor(each.set) === undefined);
  const step = planRoll({ nowMs: deps.now(), roll, old, fresh, blind });
  const sets = [old, fresh].flatMap((each) => each?.set ?? []);
  const trouble = findStuck(owned, roll, step, { ...healthOf(deps), sets });
  tellRollTrouble(deps, roll, step, trouble);
  tellGivenUp(deps, roll, step);
  deps.tell.planned(owned.name, `roll-${step.kind}`, step.because);
  if (step.kind === "wait" && (trouble === undefined || trouble.message === roll.trouble?.message)) return undefined;
  // What is audited of it stands nowhere else: it is kept until that is on its stream.
  if (step.kind === "end" && roll.outbox.length > 0)
    return hasSet ? undefined : settled(Number.POSITIVE_INFINITY, true);
  if (step.kind === "end" && step.audits.length > 0) {
    // Before it ends: what is audited of it has no record then that could carry it.
    const { traceparent } = roll;
    const outbox = auditsOf(deps, roll.newSet, step.audits, traceparent).map((audit) => onceOf(roll, step, audit));
    if (!(await publish(deps, owned, { outbox, traceparent }))) return hasSet ? undefined : settled(undefined, true);
  }
  if (!owned.isHeld()) return { kind: "lost" };
  const { because } = step;
  const traced = { doing: "roll replica sets", set: owned.name, because, under: roll.traceparent };
  await inChange(traced, async (traceparent) => {
    switch (step.kind) {
      case "wait":
        await deps.rolls.own({ ...own, next: { ...roll, trouble }, audits: [] }, owned.fence);
        break;
      case "write": {
        const audits = auditsOf(deps, roll.newSet, step.audits, traceparent);
        await deps.rolls.own({ ...own, next: { ...step.next, trouble: undefined }, audits }, owned.fence);
        break;
      }
      case "write-set": {
        const next = { ...step.next, traceparent: roll.traceparent };
        const rolled = [old, fresh].find((each) => each?.set.name === next.name);
        const audits = auditsOf(deps, next.name, step.audits, traceparent).map((audit) => onceOf(roll, step, audit));
        await deps.sets.change({ key: next.name, revision: rolled?.revision ?? 0, next, audits });
        break;
      }
      case "end":
        await deps.rolls.remove(roll.id, revision);
        endGivenUp(deps, roll);
        break;
    }
  });
  return { kind: "again" };
}

/** That it was given up is audited once in the trail of a set, however often it is tried to end it: the stream drops what it has. */
function onceOf({ id, createdAtMs }: Roll, { because }: RollStep, audit: AuditRecord): AuditRecord {
  if (because === "finished") return audit;
  return { ...audit, id: `${id}-${createdAtMs}-${audit.replicaSet}-given-up` };
}

async function readRolled(
  deps: PassDeps,
  name: string,
): Promise<(RolledSet & { readonly revision: number; readonly nextAtMs: number }) | "unreadable" | undefined> {
  const found = await deps.sets.get(name);
  if (found === undefined) return undefined;
  if ("unreadable" in found) return "unreadable";
  const { record: set, revision } = found;
  const [pods, nowMs] = [deps.world.podsOf(name), deps.now()];
  const healthy = countAvailable(set, pods, { templateHash: deps.templateHash(set), nowMs });
  const nextAtMs = nextAvailableAtMs(pods, set.spec, nowMs);
  return { set, revision, healthy, nextAtMs };
}
