import { PART_SEPARATOR } from "@muster/names";
import { countDesired, isFrozen } from "./count-desired.ts";
import { countPlaced } from "./places.ts";
import type { ReplicaMachine, ReplicaSet, SetTrouble } from "./replica-set.ts";
import { buildSetWait, type SetPlan } from "./set-plan.ts";
import type { MachineState, SetPolicy, SetSnapshot } from "./set-snapshot.ts";

/**
 * Plans the machines of a set: one for each replica, and one more for the new node of a transfer. First it records the ledger's grants. An unneeded machine
 * without a replica, or one whose node cannot have a replica, is released. A machine with a replica stays until the replica has left it.
 */
export function planSetMachines(snapshot: SetSnapshot, policy: SetPolicy): SetPlan {
  const recorded = recordGrants(snapshot, policy);
  if (recorded.change !== undefined) return recorded;
  const { set, nowMs } = snapshot;
  const placed = new Set(set.placements.map(({ node }) => node));
  const spare = set.machines.filter(({ grant }) => grant === undefined || !placed.has(grant.node));
  const fit = spare.filter((machine) => isFit(snapshot, policy, machine));
  const needed = countNeeded(snapshot, fit.length);
  const kept = new Set(fit.toSorted(compareForKeeping).slice(0, needed));
  const surplus = spare.filter((machine) => !kept.has(machine));
  if (surplus.length > 0) {
    if (snapshot.failsafe) return buildSetWait("failsafe", ...recorded.waits);
    const next = { ...set, machines: set.machines.filter((machine) => !surplus.includes(machine)) };
    return { change: { next, because: "machines-surplus", audits: [] }, waits: [] };
  }
  const { pool } = set.spec;
  const missing = needed - kept.size;
  if (missing <= 0 || pool === undefined) return recorded;
  const wanted = Array.from({ length: missing }, (_, index): ReplicaMachine => {
    return { number: set.nextMachine + index, pool, grant: undefined, sinceMs: nowMs };
  });
  const next = { ...set, machines: [...set.machines, ...wanted], nextMachine: set.nextMachine + missing };
  return { change: { next, because: "machines-wanted", audits: [] }, waits: [] };
}

/** Records new grants, and removes grants that are gone although the set did not release them: their numbers are not requested again. */
function recordGrants(snapshot: SetSnapshot, policy: SetPolicy): SetPlan {
  const { set, ledger, nowMs } = snapshot;
  const isHeld = isLost(snapshot) && nowMs < computeLossEndMs(set, policy);
  const machines = set.machines.flatMap((machine): ReplicaMachine[] => {
    const sight = ledger.byNumber.get(machine.number);
    const { grant } = machine;
    if (grant !== undefined) return isOver(grant.reservation, sight) && !isHeld ? [] : [machine];
    if (sight?.kind !== "granted" || sight.pool !== machine.pool) return [machine];
    const { reservation, node } = sight;
    return [{ ...machine, grant: { reservation, node }, sinceMs: nowMs }];
  });
  if (machines.every((machine, index) => machine === set.machines[index]) && machines.length === set.machines.length)
    return isHeld ? buildSetWait("machines-gone") : buildSetWait();
  return { change: { next: { ...set, machines }, because: "machines-granted", audits: [] }, waits: [] };
}

/**
 * Returns whether the ledger has lost the machines that it granted to the set. The ledger never revokes a grant by itself: if all are missing, it has probably
 * lost its data. Once reported, the loss lasts until the machines exist again, even if the ledger grants others meanwhile.
 */
function isLost({ set: { machines, trouble }, ledger }: SetSnapshot): boolean {
  const grants = machines.flatMap(({ number, grant }) => (grant === undefined ? [] : { number, grant }));
  const isGone = ({ number, grant }: (typeof grants)[number]): boolean =>
    isOver(grant.reservation, ledger.byNumber.get(number));
  return grants.length > 0 && (trouble?.code === "MACHINES_GONE" ? grants.some(isGone) : grants.every(isGone));
}

/** Returns when the loss of the machines is accepted; Infinity if no loss was reported. */
export function computeLossEndMs({ trouble }: ReplicaSet, { machinesGoneMs }: SetPolicy): number {
  return trouble?.code === "MACHINES_GONE" ? trouble.sinceMs + machinesGoneMs : Number.POSITIVE_INFINITY;
}

function isOver(reservation: string, sight: MachineState | undefined): boolean {
  return sight !== undefined && (sight.kind === "gone" || sight.reservation !== reservation);
}

/** Returns whether a machine can have a replica. A node that is not visible yet may be a new grant: the ledger follows nodes independently. */
function isFit({ set, nodes, nowMs }: SetSnapshot, { nodeGraceMs }: SetPolicy, machine: ReplicaMachine): boolean {
  if (machine.pool !== set.spec.pool) return false;
  const { grant, sinceMs } = machine;
  return grant === undefined || nodes?.eligible.has(grant.node) === true || nowMs - sinceMs < nodeGraceMs;
}

/** Counts the needed machines without a replica. A frozen set requests no machines, and keeps those that it has requested. */
function countNeeded({ set, rollout }: SetSnapshot, fit: number): number {
  if (set.spec.pool === undefined) return 0;
  const missing = Math.max(0, countDesired(set, rollout, undefined) - countPlaced(set));
  const { transfer, placements } = set;
  const isSought = transfer !== undefined && !placements.some(({ node }) => node === transfer.newNode);
  return (isFrozen(set, rollout) ? Math.min(missing, fit) : missing) + (isSought ? 1 : 0);
}

/** Orders granted machines first, then earlier requests. */
function compareForKeeping(a: ReplicaMachine, b: ReplicaMachine): number {
  const waits = ({ grant }: ReplicaMachine): number => (grant === undefined ? 1 : 0);
  return waits(a) - waits(b) || a.number - b.number;
}

/** Explains why a set does not get its machines. */
export function findMachineTrouble(snapshot: SetSnapshot): Omit<SetTrouble, "sinceMs"> | undefined {
  const { set, ledger } = snapshot;
  if (isLost(snapshot)) {
    const message = `the ledger has none of its machines of pool ${set.spec.pool ?? ""} any more; its replicas stay, and other machines are requested if that lasts`;
    return { code: "MACHINES_GONE", message };
  }
  const ungranted = set.machines.filter(({ grant }) => grant === undefined);
  if (ledger.trouble !== undefined && (ungranted.length > 0 || set.deletion !== undefined)) return ledger.trouble;
  if (ledger.queue?.kind === "unknown" && ungranted.length > 0) {
    const message = `no machine of pool ${set.spec.pool ?? ""} is requested: QUEUE_UNKNOWN: ${ledger.queue.message}`;
    return { code: "MACHINE_REFUSED", message };
  }
  const reasons = ungranted.flatMap(({ number }) => {
    const sight = ledger.byNumber.get(number);
    return sight?.kind === "waiting" ? [sight.because] : [];
  });
  const [first] = reasons.toSorted();
  if (first === undefined) return undefined;
  const machines = reasons.length === 1 ? "a machine" : `${reasons.length} machines`;
  const message = `it is waiting for ${machines} of pool ${set.spec.pool ?? ""}: ${first}`;
  return { code: "WAITING_FOR_MACHINE", message };
}

/** The owner id of a machine in the ledger. */
export function buildMachineOwner(set: string, number: number): string {
  return `${set}${PART_SEPARATOR}${number}`;
}

/** Parses an owner id; undefined: the id does not belong to a set. */
export function readMachineOwner(id: string): { readonly set: string; readonly number: number } | undefined {
  const at = id.lastIndexOf(PART_SEPARATOR);
  const number = id.slice(at + PART_SEPARATOR.length);
  return at <= 0 || !/^[1-9]\d{0,9}$/.test(number) ? undefined : { set: id.slice(0, at), number: Number(number) };
}

/** Returns whether the name of a set can be parsed from the owner ids of its machines. */
export function mayHaveMachines(set: string): boolean {
  return !set.includes(PART_SEPARATOR);
}
