import { backoffMs } from "@muster/backoff";
import { describeFault, faultOf } from "@muster/faults";
import type { PoolScheduler } from "./adapters/pool-scheduler.ts";
import type { Records, Stored } from "./adapters/records.ts";
import { isClear, planAllocation, type AllocationStep } from "./domain/plan-allocation.ts";
import type { OwnedPod } from "./domain/plan-sweep.ts";
import type { ReplicaSet, Trouble } from "./domain/replica-set.ts";
import type { LedgerSight, MachineSight, SetSnapshot } from "./domain/set-snapshot.ts";

/** What the passes over a set's machines need from outside. */
export type MachineDeps = {
  readonly now: () => number;
  readonly sets: Pick<Records<ReplicaSet>, "get">;
  readonly scheduler: Pick<PoolScheduler, "machinesOf" | "allocate" | "deallocate" | "ask" | "trouble">;
  readonly pods: { list(set: ReplicaSet): Promise<readonly OwnedPod[]> };
  readonly tell: {
    planned(set: string, what: string, because: string): void;
    failed(set: string, what: string, error: unknown): void;
  };
};

/** What is remembered of requests that came to nothing, until one succeeds. */
export type Refusals = { times: number; notBeforeMs: number; trouble: LedgerSight["trouble"] };

export type MachinesOwned = { readonly name: string; readonly isHeld: () => boolean; readonly refusals: Refusals };

export const NO_REFUSALS: Refusals = { times: 0, notBeforeMs: 0, trouble: undefined };

const RETRY = { firstMs: 1000, maxMs: 60_000 };
/** Pods that the API server still has and the watcher no longer tells of. */
const PODS_RETRY_MS = 1000;
/** Requests of one pass. */
const CALLS_MOST = 32;

/** What the ledger has for the set. Where it seems to have lost a grant it is asked: what is known may be older than the record. */
export async function sightMachines(deps: MachineDeps, owned: MachinesOwned, set: ReplicaSet): Promise<LedgerSight> {
  const trouble = owned.refusals.trouble ?? deps.scheduler.trouble();
  const told = deps.scheduler.machinesOf(set.name);
  if (told === undefined) return { known: false, byNumber: new Map(), trouble };
  const byNumber = new Map<number, MachineSight>(told);
  for (const { number, grant } of set.machines) {
    const known = told.get(number);
    if (grant === undefined || (known?.is === "granted" && known.reservation === grant.reservation)) continue;
    byNumber.delete(number);
    try {
      byNumber.set(number, (await deps.scheduler.ask(set.name, number)) ?? { is: "gone" });
    } catch (error) {
      if (faultOf(error) === undefined) throw error;
      deps.tell.failed(set.name, "ask-for-machine", error);
      return { known: false, byNumber: new Map(), trouble };
    }
  }
  return { known: true, byNumber, trouble };
}

/** Asks the ledger for the machines of the record, and gives back what is not in it. Returns when to look again. */
export async function passMachines(
  deps: MachineDeps,
  owned: MachinesOwned,
  { record }: Stored<ReplicaSet>,
  { ledger, pods, failsafe }: SetSnapshot,
): Promise<{ readonly atMs: number; readonly failed: boolean }> {
  const steps = planAllocation(record, ledger, { pods: pods.values(), failsafe });
  const asked = await allocate(deps, owned, steps.filter((step) => step.do === "allocate").slice(0, CALLS_MOST));
  const surplus = steps.filter((step) => step.do === "deallocate").slice(0, CALLS_MOST);
  const given = surplus.length === 0 ? DONE : await deallocate(deps, owned, record, surplus);
  return { atMs: Math.min(asked.atMs, given.atMs), failed: asked.failed || given.failed };
}

type Outcome = { readonly atMs: number; readonly failed: boolean };
type Step<Kind extends AllocationStep["do"]> = Extract<AllocationStep, { do: Kind }>;

const DONE: Outcome = { atMs: Number.POSITIVE_INFINITY, failed: false };

/** One after the other, and no further after a refusal: the next would most likely be refused as well. */
async function allocate(
  { scheduler, tell, now }: MachineDeps,
  { name, isHeld, refusals }: MachinesOwned,
  steps: readonly Step<"allocate">[],
): Promise<Outcome> {
  if (steps.length === 0) {
    Object.assign(refusals, NO_REFUSALS);
    return DONE;
  }
  if (now() < refusals.notBeforeMs) return { atMs: refusals.notBeforeMs, failed: false };
  for (const { number, pool, because } of steps) {
    if (!isHeld()) return DONE;
    tell.planned(name, "allocate", because);
    try {
      await scheduler.allocate(name, number, pool);
    } catch (error) {
      const trouble = troubleOf(error, pool);
      tell.failed(name, "allocate", error);
      refusals.times += 1;
      // One farm asks for all machines of a set: a spread would keep nobody from anybody.
      refusals.notBeforeMs = now() + backoffMs(refusals.times, RETRY, () => 1);
      const isNew = refusals.trouble?.code !== trouble.code || refusals.trouble.message !== trouble.message;
      refusals.trouble = trouble;
      return { atMs: isNew ? now() : refusals.notBeforeMs, failed: false };
    }
    Object.assign(refusals, NO_REFUSALS);
  }
  return { atMs: now(), failed: false };
}

/** Throws what is no fault. */
function troubleOf(error: unknown, pool: string): Omit<Trouble, "sinceMs"> {
  const fault = faultOf(error);
  if (fault === undefined) throw error;
  const isAnswer = ["pool_unknown", "pool_capacity", "limit_exceeded", "invalid_request"].includes(fault.code);
  if (isAnswer) return { code: "MACHINE_REFUSED", message: `no machine of pool ${pool}: ${describeFault(fault)}` };
  return {
    code: "LEDGER_AWAY",
    message: `the ledger does not give a machine of pool ${pool}: ${describeFault(fault)}`,
  };
}

/**
 * The record is read again: a number stands in it before it is asked for, so that one which the ledger has told of and which is not in what is read now is wanted by nobody. And the API server is asked for
 * the pods, because the watcher may be behind.
 */
async function deallocate(
  { sets, pods, scheduler, tell, now }: MachineDeps,
  { name, isHeld }: MachinesOwned,
  { uid, fence }: ReplicaSet,
  steps: readonly Step<"deallocate">[],
): Promise<Outcome> {
  const found = await sets.get(name);
  const record = found !== undefined && "record" in found ? found.record : undefined;
  if (record?.uid !== uid || record.fence !== fence) return DONE;
  const live = steps.some(({ node }) => node !== undefined) ? await pods.list(record) : [];
  const places = live.map(({ pod, node }) => ({ name: pod, node }));
  let outcome = DONE;
  for (const { number, reservation, node, because } of steps) {
    if (record.machines.some((machine) => machine.number === number && because !== "other-pool")) continue;
    if (node !== undefined && !isClear(record, places, node)) {
      outcome = { ...outcome, atMs: now() + PODS_RETRY_MS };
      continue;
    }
    if (!isHeld()) return DONE;
    tell.planned(name, "deallocate", because);
    try {
      await scheduler.deallocate({ set: name, number, reservation });
    } catch (error) {
      tell.failed(name, "deallocate", error);
      return { ...outcome, failed: true };
    }
  }
  return outcome;
}
