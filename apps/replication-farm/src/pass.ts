import { backoffMs } from "@muster/backoff";
import type { ForcePolicy } from "@muster/health";
import { buildAudits } from "./domain/audit.ts";
import { countHealthy } from "./domain/count-healthy.ts";
import { renumber } from "./domain/places.ts";
import { planPods, type PodStep, type Restarts } from "./domain/plan-pods.ts";
import { planRoll, type RolledSet } from "./domain/plan-roll.ts";
import { planSet } from "./domain/plan-set.ts";
import type { OwnedPod } from "./domain/plan-sweep.ts";
import { podNameOf, type AuditRecord, type ReplicaSet } from "./domain/replica-set.ts";
import type { Roll } from "./domain/roll.ts";
import type { Audit } from "./domain/set-plan.ts";
import type { SetPod, SetPolicy, SetSnapshot } from "./domain/set-snapshot.ts";
import type { Alerts } from "./adapters/alerts.ts";
import type { AuditLog } from "./adapters/audit-log.ts";
import type { Made } from "./adapters/pods.ts";
import type { Records, Stored } from "./adapters/records.ts";
import type { World } from "./adapters/views.ts";
import { findUnhealthy, nextUnhealthyAtMs } from "./pass-health.ts";
import { findStuck, tellMissingSet, tellRollTrouble, tellTrouble, withMissingRoll } from "./pass-trouble.ts";
import { forcePods } from "./force-pods.ts";
import { passMachines, sightMachines, type MachineDeps, type MachinesOwned } from "./pass-machines.ts";

/** What the passes over sets need from outside. */
export type PassDeps = {
  readonly now: () => number;
  readonly newId: () => string;
  readonly sets: Records<ReplicaSet>;
  readonly rolls: Records<Roll>;
  readonly world: Pick<World, "nodesFor" | "podsOf" | "occupied" | "takenFrom" | "contestFor" | "rolls">;
  readonly auditLog: Pick<AuditLog, "publish">;
  readonly pods: {
    make(set: ReplicaSet, place: { readonly node: string; readonly ordinal: number }): Promise<Made>;
    confirm(pod: string, uid: string): Promise<void>;
    delete(pod: string, uid: string, force: boolean): Promise<void>;
    abandon(pod: string, uid: string): Promise<void>;
    /** Those that are there now, not those of a cache. */
    list(set: ReplicaSet): Promise<readonly OwnedPod[]>;
  };
  readonly scheduler: MachineDeps["scheduler"];
  readonly templateHash: (set: ReplicaSet) => string;
  /** What is known looks like the loss of everything. */
  readonly failsafe: () => boolean;
  readonly policy: SetPolicy;
  readonly force: ForcePolicy;
  /** What is not as it should be for so long is told. */
  readonly unhealthyMs: number;
  readonly alerts: Pick<Alerts, "raise" | "resolve">;
  readonly tell: {
    planned(set: string, what: string, because: string): void;
    failed(set: string, what: string, error: unknown): void;
  };
};

/** A set that a farm owns, and what is remembered of it as long as it does. */
export type Owned = MachinesOwned & {
  readonly fence: number;
  readonly restarts: Map<number, Restarts & { readonly readySinceMs?: number }>;
  /** Since when the pod of each place that is not ready has not been so. */
  readonly unreadySince: Map<number, number>;
  /** What the rolling update of this name has been waiting for, and since when. */
  rollWait: { readonly at: string; readonly sinceMs: number } | undefined;
  /** Pods made, let go to their nodes and deleted, until the watcher tells of it. */
  readonly made: Map<string, { readonly uid: string; readonly atMs: number }>;
  readonly confirmed: Set<string>;
  readonly deleted: Set<string>;
};

/** `again`: something was written, and the next pass decides on it. `settled`: nothing is to be done until something changes, or until `atMs`. */
export type Settled = { readonly is: "settled"; readonly atMs: number; readonly failed: boolean };
export type Passed = { readonly is: "again" } | { readonly is: "gone" } | { readonly is: "lost" } | Settled;

/** The watcher tells of a pod within this time, or it has not been made. */
const MADE_TRUST_MS = 10_000;
const RESTART = { firstMs: 1000, mostMs: 300_000 };
/** A pod that was ready for so long is not one that keeps ending. */
const RESTART_FORGET_MS = 600_000;

/** One pass over a set: at most one change of the record, or of the rolling update that goes by its name; then the pods are made what the record says. */
export async function passSet(deps: PassDeps, owned: Owned): Promise<Passed> {
  const found = await deps.sets.get(owned.name);
  if (found !== undefined && "unreadable" in found) return settled();
  const set = found && { record: found.record, revision: found.revision };
  const rolled = await passRoll(deps, owned);
  if (rolled !== undefined) return rolled;
  if (set === undefined) return { is: "gone" };
  if (set.record.fence > owned.fence) return { is: "lost" };
  if (set.record.fence < owned.fence) return write(deps, owned, set, set.record, []);
  const told = await passAudits(deps.sets, deps, owned, set);
  if (told !== undefined) return told;
  const roll = await readRoll(deps, set.record);
  if (roll === "missing") return passMissingRoll(deps, owned, set);
  const snapshot = await snapshotOf(deps, owned, set.record, roll);
  const { change, waits } = planSet(snapshot, deps.policy);
  if (change !== undefined) {
    deps.tell.planned(owned.name, "change", change.because);
    tellTrouble(deps, set.record, change.next);
    return write(deps, owned, set, change.next, change.audits);
  }
  for (const wait of waits) deps.tell.planned(owned.name, "wait", wait);
  const acted = await passPods(deps, owned, set, snapshot);
  if (acted.is !== "settled") return acted;
  if (!acted.failed) await forcePods(deps, owned, snapshot);
  const machines = await passMachines(deps, owned, set, snapshot);
  const failed = acted.failed || machines.failed;
  const unhealthyAtMs = nextUnhealthyAtMs(owned, healthOf(deps));
  const atMs = Math.min(acted.atMs, machines.atMs, nextAtMs(set.record, roll), unhealthyAtMs);
  if (failed) return settled(atMs, failed);
  return (await removeDeleted(deps, owned, set, snapshot)) ?? settled(atMs);
}

function healthOf({ now, unhealthyMs }: PassDeps) {
  return { nowMs: now(), unhealthyMs };
}

async function passMissingRoll(deps: PassDeps, owned: Owned, set: Stored<ReplicaSet>): Promise<Passed> {
  const next = withMissingRoll(set.record, deps.now());
  tellTrouble(deps, set.record, next);
  return next === set.record ? settled() : write(deps, owned, set, next, []);
}

function settled(atMs = Number.POSITIVE_INFINITY, failed = false): Settled {
  return { is: "settled", atMs, failed };
}

/** When time alone changes what is to be done. */
function nextAtMs({ transfer, transferNotBeforeMs }: ReplicaSet, roll: Roll | undefined): number {
  return Math.min(
    transfer?.deadlineMs ?? Number.POSITIVE_INFINITY,
    transferNotBeforeMs === 0 ? Number.POSITIVE_INFINITY : transferNotBeforeMs,
    roll === undefined || roll.delayMs === 0 ? Number.POSITIVE_INFINITY : roll.lastStepAtMs + roll.delayMs,
  );
}

async function write(
  deps: PassDeps,
  { name, fence, isHeld }: Owned,
  { revision }: Stored<ReplicaSet>,
  next: ReplicaSet,
  audits: readonly Audit[],
): Promise<Passed> {
  if (!isHeld()) return { is: "lost" };
  await deps.sets.own({ key: name, revision, next, audits: auditsOf(deps, name, audits, next.traceparent) }, fence);
  return { is: "again" };
}

function auditsOf(deps: PassDeps, set: string, audits: readonly Audit[], traceparent: string): AuditRecord[] {
  return buildAudits(set, audits, { nowMs: deps.now(), traceparent, newId: deps.newId });
}

/** What the outbox has goes to its stream; what was added meanwhile is there at the next pass. A stream that is away holds up nothing until the outbox is full. */
async function passAudits<Record extends { readonly outbox: readonly AuditRecord[] }>(
  records: Records<Record>,
  deps: PassDeps,
  owned: Owned,
  { record, revision }: Stored<Record>,
): Promise<Passed | undefined> {
  if (record.outbox.length === 0) return undefined;
  if (!owned.isHeld()) return { is: "lost" };
  try {
    await deps.auditLog.publish(record.outbox);
  } catch (error) {
    deps.tell.failed(owned.name, "publish-audits", error);
    return undefined;
  }
  if (!owned.isHeld()) return { is: "lost" };
  await records.own({ key: owned.name, revision, next: { ...record, outbox: [] }, audits: [] }, owned.fence);
  return { is: "again" };
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

/** The pods that the watcher tells of, and what was done to them that it does not know yet. */
function podsOf({ world, now }: PassDeps, { made, deleted }: Owned, set: ReplicaSet): ReadonlyMap<string, SetPod> {
  const pods = new Map(world.podsOf(set.name));
  for (const [name, { uid, atMs }] of made) {
    if (pods.has(name) || now() - atMs > MADE_TRUST_MS) made.delete(name);
    else pods.set(name, { name, uid, node: "", health: "UNKNOWN", deleting: false });
  }
  const there = new Set([...pods.values()].map(({ uid }) => uid));
  for (const uid of deleted) if (!there.has(uid)) deleted.delete(uid);
  for (const [name, pod] of pods) if (deleted.has(pod.uid)) pods.set(name, { ...pod, deleting: true });
  return pods;
}

async function passPods(deps: PassDeps, owned: Owned, set: Stored<ReplicaSet>, snapshot: SetSnapshot): Promise<Passed> {
  forgetRestarts(owned, snapshot);
  const steps = planPods(snapshot, deps.world.occupied(set.record.spec.podId), owned.restarts);
  const outcomes = await Promise.all(
    steps.map(async (step): Promise<"done" | "failed" | "again" | "lost"> => {
      if (step.do === "wait") return "done";
      if (step.do === "delete" && snapshot.failsafe && set.record.deletion === undefined) return "done";
      if (step.do === "confirm" && owned.confirmed.has(snapshot.pods.get(step.pod)?.uid ?? "")) return "done";
      if (!owned.isHeld()) return "lost";
      deps.tell.planned(owned.name, step.do, step.because);
      try {
        return await act(deps, owned, set, snapshot, step);
      } catch (error) {
        deps.tell.failed(owned.name, step.do, error);
        return "failed";
      }
    }),
  );
  if (outcomes.includes("lost")) return { is: "lost" };
  if (outcomes.includes("again")) return { is: "again" };
  const pausesEndAtMs = [...owned.restarts.values()]
    .map(({ notBeforeMs }) => notBeforeMs)
    .filter((atMs) => atMs > snapshot.nowMs);
  return settled(Math.min(...pausesEndAtMs), outcomes.includes("failed"));
}

async function act(
  deps: PassDeps,
  owned: Owned,
  set: Stored<ReplicaSet>,
  snapshot: SetSnapshot,
  step: Exclude<PodStep, { do: "wait" }>,
): Promise<"done" | "again"> {
  switch (step.do) {
    case "create":
      return make(deps, owned, set, step);
    case "confirm": {
      const uid = snapshot.pods.get(step.pod)?.uid ?? "";
      await confirm(deps, owned, step, uid);
      return "done";
    }
    case "delete":
      if (step.because === "ended") noteRestart(owned, snapshot, step.pod);
      await deps.pods.delete(step.pod, step.uid, false);
      owned.deleted.add(step.uid);
      return "done";
    case "abandon":
      await deps.pods.abandon(step.pod, step.uid);
      return "done";
  }
}

async function make(
  deps: PassDeps,
  owned: Owned,
  set: Stored<ReplicaSet>,
  step: Extract<PodStep, { do: "create" }>,
): Promise<"done" | "again"> {
  const made = await deps.pods.make(set.record, step);
  switch (made.kind) {
    case "made":
      owned.made.set(step.pod, { uid: made.uid, atMs: deps.now() });
      if (!made.confirmed) await confirm(deps, owned, step, made.uid);
      return "done";
    case "name-taken":
      await write(deps, owned, set, renumber(set.record, step.ordinal), []);
      return "again";
    case "refused": {
      pauseFor(owned, step.ordinal, deps.now());
      const trouble = { code: "POD_REFUSED", message: made.message, sinceMs: deps.now() } as const;
      const { trouble: known } = set.record;
      if (known?.code === trouble.code && known.message === trouble.message) return "done";
      const next = { ...set.record, trouble };
      tellTrouble(deps, set.record, next);
      await write(deps, owned, set, next, []);
      return "again";
    }
  }
}

/** The record is read again once the pod is there: whoever owns the set after this reading finds the pod; one whose place is gone by then never runs, and is deleted. */
async function confirm(
  deps: PassDeps,
  owned: Owned,
  { pod, ordinal }: { readonly pod: string; readonly ordinal: number },
  uid: string,
): Promise<void> {
  const found = await deps.sets.get(owned.name);
  const record = found !== undefined && "record" in found ? found.record : undefined;
  if (record?.fence !== owned.fence || !record.placements.some((each) => each.ordinal === ordinal)) return;
  await deps.pods.confirm(pod, uid);
  owned.confirmed.add(uid);
}

function noteRestart(owned: Owned, { set, nowMs }: SetSnapshot, pod: string): void {
  const place = set.placements.find(({ ordinal }) => podNameOf(set.name, ordinal) === pod);
  if (place !== undefined) pauseFor(owned, place.ordinal, nowMs);
}

function pauseFor({ restarts }: Owned, ordinal: number, nowMs: number): void {
  const times = (restarts.get(ordinal)?.times ?? 0) + 1;
  // One farm makes all pods of a set: a spread would keep nobody from anybody.
  restarts.set(ordinal, { times, notBeforeMs: nowMs + backoffMs(times, RESTART, () => 1) });
}

function forgetRestarts({ restarts }: Owned, { set, pods, nowMs }: SetSnapshot): void {
  const ordinals = new Set(set.placements.map(({ ordinal }) => ordinal));
  for (const [ordinal, { readySinceMs, ...restart }] of restarts) {
    const isReady = pods.get(podNameOf(set.name, ordinal))?.health === "READY";
    if (!ordinals.has(ordinal) || (isReady && nowMs - (readySinceMs ?? nowMs) > RESTART_FORGET_MS))
      restarts.delete(ordinal);
    else restarts.set(ordinal, isReady ? { ...restart, readySinceMs: readySinceMs ?? nowMs } : restart);
  }
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
  if (!owned.isHeld()) return { is: "lost" };
  await deps.sets.remove(owned.name, revision);
  deps.tell.planned(owned.name, "remove-record", "deleted");
  return { is: "gone" };
}

/** The rolling update that goes by the set's name is run by the set's owner. Undefined: there is none, or it waits. */
async function passRoll(deps: PassDeps, owned: Owned): Promise<Passed | undefined> {
  if (!deps.world.rolls().some(({ id }) => id === owned.name)) return undefined;
  const found = await deps.rolls.get(owned.name);
  if (found === undefined || "unreadable" in found) return undefined;
  const { record: roll, revision } = found;
  const own = { key: roll.id, revision };
  if (roll.fence > owned.fence) return { is: "lost" };
  if (!owned.isHeld()) return { is: "lost" };
  if (roll.fence < owned.fence) {
    await deps.rolls.own({ ...own, next: roll, audits: [] }, owned.fence);
    return { is: "again" };
  }
  const told = await passAudits(deps.rolls, deps, owned, found);
  if (told !== undefined) return told;
  const [old, fresh] = [await readRolled(deps, roll.oldSet), await readRolled(deps, roll.newSet)];
  if (old === "unreadable" || fresh === "unreadable") return undefined;
  const blind = [old, fresh].some((each) => each !== undefined && deps.world.nodesFor(each.set) === undefined);
  const step = planRoll({ nowMs: deps.now(), roll, old, fresh, blind });
  const trouble = findStuck(owned, roll, step, healthOf(deps));
  tellRollTrouble(deps, roll, step, trouble);
  if (step.do !== "wait" && step.because === "set-missing") tellMissingSet(deps, roll);
  deps.tell.planned(owned.name, `roll-${step.do}`, step.because);
  if (step.do === "wait" && (trouble === undefined || trouble.message === roll.trouble?.message)) return undefined;
  if (!owned.isHeld()) return { is: "lost" };
  switch (step.do) {
    case "wait":
      await deps.rolls.own({ ...own, next: { ...roll, trouble }, audits: [] }, owned.fence);
      break;
    case "write": {
      const audits = auditsOf(deps, roll.newSet, step.audits, roll.traceparent);
      await deps.rolls.own({ ...own, next: { ...step.next, trouble: undefined }, audits }, owned.fence);
      break;
    }
    case "write-set": {
      const { next } = step;
      const rolled = [old, fresh].find((each) => each?.set.name === next.name);
      const audits = auditsOf(deps, next.name, step.audits, roll.traceparent);
      await deps.sets.change({ key: next.name, revision: rolled?.revision ?? 0, next, audits });
      break;
    }
    case "end":
      await deps.rolls.remove(roll.id, revision);
      break;
  }
  return { is: "again" };
}

async function readRolled(
  deps: PassDeps,
  name: string,
): Promise<(RolledSet & { readonly revision: number }) | "unreadable" | undefined> {
  const found = await deps.sets.get(name);
  if (found === undefined) return undefined;
  if ("unreadable" in found) return "unreadable";
  const { record: set, revision } = found;
  return { set, revision, healthy: countHealthy(set, deps.world.podsOf(name), deps.templateHash(set)) };
}
