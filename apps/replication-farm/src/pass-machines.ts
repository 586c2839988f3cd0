import { computeBackoffMs } from "@muster/backoff";
import { describeFault, findFault } from "@muster/faults";
import { QUEUE_LABEL, type QueueChoice } from "@muster/ledger-client/choose-queue";
import type { PoolScheduler } from "./adapters/pool-scheduler.ts";
import type { SetQueues } from "./adapters/set-queues.ts";
import type { FarmRecords } from "./adapters/records.ts";
import { isNodeClearOf, type AllocationStep } from "./domain/plan-allocation.ts";
import type { OwnedPod } from "./domain/plan-sweep.ts";
import type { ReplicaSet, SetTrouble } from "./domain/replica-set.ts";
import type { LedgerState, MachineState } from "./domain/set-snapshot.ts";

/** The dependencies of passes over a set's machines. */
export type MachineDeps = {
  readonly now: () => number;
  readonly sets: Pick<FarmRecords<ReplicaSet>, "get">;
  readonly scheduler: Pick<PoolScheduler, "machinesOf" | "allocate" | "deallocate" | "ask" | "trouble">;
  readonly queueOf: SetQueues["choose"];
  readonly pods: { list(set: ReplicaSet): Promise<readonly OwnedPod[]> };
  readonly report: {
    planned(set: string, what: string, because: string): void;
    failed(set: string, what: string, error: unknown): void;
  };
};

/** State of failed requests until one succeeds. */
type Refusals = { times: number; notBeforeMs: number; trouble: LedgerState["trouble"] };

export type MachinesOwned = { readonly name: string; readonly isHeld: () => boolean; readonly refusals: Refusals };

export const NO_REFUSALS: Refusals = { times: 0, notBeforeMs: 0, trouble: undefined };

const RETRY = { firstMs: 1000, maxMs: 60_000 };
/** The API server may still have pods that the watcher no longer publishes. */
const PODS_RETRY_MS = 1000;
/** Maximum number of requests in one pass. */
const MAX_CALLS = 32;

const NO_QUEUE: QueueChoice = { kind: "none" };

/** Observes the ledger's state of the set. A grant that seems lost is read from the ledger, because the known state may be older than the record. */
export async function observeMachines(deps: MachineDeps, owned: MachinesOwned, set: ReplicaSet): Promise<LedgerState> {
  const trouble = owned.refusals.trouble ?? deps.scheduler.trouble();
  const reservations = deps.scheduler.machinesOf(set.name);
  const queue = set.spec.pool === undefined ? NO_QUEUE : deps.queueOf(set.spec.labels[QUEUE_LABEL] ?? "");
  if (reservations === undefined) return { known: false, byNumber: new Map(), trouble, queue };
  const byNumber = new Map<number, MachineState>(reservations);
  for (const { number, grant } of set.machines) {
    const known = reservations.get(number);
    if (grant === undefined || (known?.kind === "granted" && known.reservation === grant.reservation)) continue;
    byNumber.delete(number);
    try {
      byNumber.set(number, (await deps.scheduler.ask(set.name, number)) ?? { kind: "gone" });
    } catch (error) {
      if (findFault(error) === undefined) throw error;
      deps.report.failed(set.name, "ask-for-machine", error);
      return { known: false, byNumber: new Map(), trouble, queue };
    }
  }
  return { known: true, byNumber, trouble, queue };
}

/** Requests and releases machines. Returns when the next pass is due. */
export async function passMachines(
  deps: MachineDeps,
  owned: MachinesOwned,
  record: ReplicaSet,
  steps: readonly AllocationStep[],
): Promise<{ readonly atMs: number; readonly failed: boolean }> {
  const asked = await allocate(deps, owned, steps.filter((step) => step.kind === "allocate").slice(0, MAX_CALLS));
  const surplus = steps.filter((step) => step.kind === "deallocate").slice(0, MAX_CALLS);
  const given = surplus.length === 0 ? DONE : await deallocate(deps, owned, record, surplus);
  return { atMs: Math.min(asked.atMs, given.atMs), failed: asked.failed || given.failed };
}

type Outcome = { readonly atMs: number; readonly failed: boolean };
type Step<Kind extends AllocationStep["kind"]> = Extract<AllocationStep, { kind: Kind }>;

const DONE: Outcome = { atMs: Number.POSITIVE_INFINITY, failed: false };

/** Requests machines in sequence until a refusal, because the next request would probably be refused as well. */
async function allocate(
  { scheduler, report, now }: MachineDeps,
  { name, isHeld, refusals }: MachinesOwned,
  steps: readonly Step<"allocate">[],
): Promise<Outcome> {
  if (steps.length === 0) {
    Object.assign(refusals, NO_REFUSALS);
    return DONE;
  }
  if (now() < refusals.notBeforeMs) return { atMs: refusals.notBeforeMs, failed: false };
  for (const { number, pool, queue, because } of steps) {
    if (!isHeld()) return DONE;
    report.planned(name, "allocate", because);
    try {
      await scheduler.allocate(name, number, pool, queue);
    } catch (error) {
      const trouble = describeRefusedMachine(error, pool);
      report.failed(name, "allocate", error);
      refusals.times += 1;
      // One farm requests all machines of a set, so the pause needs no jitter.
      refusals.notBeforeMs = now() + computeBackoffMs(refusals.times, RETRY, () => 1);
      const isNew = refusals.trouble?.code !== trouble.code || refusals.trouble.message !== trouble.message;
      refusals.trouble = trouble;
      return { atMs: isNew ? now() : refusals.notBeforeMs, failed: false };
    }
    Object.assign(refusals, NO_REFUSALS);
  }
  return { atMs: now(), failed: false };
}

const REFUSALS: readonly string[] = [
  ...["pool_unknown", "pool_capacity", "queue_unknown", "quota_exceeded"],
  ...["limit_exceeded", "invalid_request"],
];

/** Describes why the ledger refused a machine, as a trouble of the set. Rethrows defects. */
function describeRefusedMachine(error: unknown, pool: string): Omit<SetTrouble, "sinceMs"> {
  const fault = findFault(error);
  if (fault === undefined) throw error;
  const isAnswer = REFUSALS.includes(fault.code);
  if (isAnswer) return { code: "MACHINE_REFUSED", message: `no machine of pool ${pool}: ${describeFault(fault)}` };
  return {
    code: "LEDGER_AWAY",
    message: `the ledger does not grant a machine of pool ${pool}: ${describeFault(fault)}`,
  };
}

/**
 * Releases a reservation after two reads. The record is read again: a number is recorded before it is requested, so a reservation whose number is missing now
 * is not desired. The pods are read from the API server, because the watcher may be behind.
 */
async function deallocate(
  { sets, pods, scheduler, report, now }: MachineDeps,
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
    if (record.machines.some((machine) => machine.number === number && because === "not-wanted")) continue;
    if (node !== undefined && !isNodeClearOf(record, places, node)) {
      outcome = { ...outcome, atMs: now() + PODS_RETRY_MS };
      continue;
    }
    if (!isHeld()) return DONE;
    report.planned(name, "deallocate", because);
    try {
      await scheduler.deallocate({ set: name, number, reservation });
      outcome = { ...outcome, atMs: now() };
    } catch (error) {
      if (findFault(error) === undefined) throw error;
      report.failed(name, "deallocate", error);
      return { ...outcome, failed: true };
    }
  }
  return outcome;
}
