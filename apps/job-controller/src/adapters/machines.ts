import { type Fault, findFault } from "@muster/faults";
import {
  describeRefusal,
  makeLedgerCalls,
  type LedgerClient,
  type Need,
  type ReservationCalls,
} from "@muster/ledger-client";
import { JOB } from "@muster/names";
import { getUnitOwnerId, type RequestUnit } from "../domain/build-units.ts";
import { explainWait } from "../domain/explain-wait.ts";
import type { UnitSeen } from "../domain/snapshot.ts";
import { listPoolMaxima, toUnitSeen } from "./messages.ts";

/** The machines and requests of jobs in the ledger, as far as this process knows, and the refusals of the ledger. */
export type Machines = Pick<LedgerClient, "refresh" | "invalidate"> & {
  /** Returns the units of one owner id, by unit id, and how long this process has observed each wait. Before the first list, the gang's unit is `unknown`. */
  unitsOf(ownerId: string): readonly UnitSeen[];
  /** Returns the owner ids of all units that jobs have or wait for. */
  ownerIds(): ReadonlySet<string>;
  /** Requests a unit; a position in the queue and a refusal are answers too. Rejects with FaultError without an answer. */
  reserve(unit: RequestUnit, priority: number): Promise<void>;
  /** Returns why the ledger would refuse or queue the unit; undefined if the ledger would grant it. Rejects with FaultError without an answer. */
  check(unit: RequestUnit, priority: number): Promise<WaitReason | undefined>;
  /** Releases a unit, or its position in the queue. Has no effect if the ledger has neither. */
  release(unitId: string): Promise<void>;
  /** Announces to the ledger that the work on the unit ends, unless the ledger has withdrawn the preemption. Rejects with FaultError without an answer. */
  accept(unitId: string): Promise<void>;
  /** Reports that the work on the unit has ended, so that the unit waits again. Has no effect if the unit is released or not preempted. */
  requeue(unitId: string): Promise<void>;
  /** Returns the maximum of machines of each pool that the node scaler scales. Undefined if the ledger does not answer. */
  maxima(): Promise<ReadonlyMap<string, number> | undefined>;
};

/** Why a job waits, or would wait, for its machines: the stable code, and the text for people. */
export type WaitReason = { readonly code: string; readonly text: string };

export type MachinesDeps = {
  readonly ledger: LedgerClient;
  readonly calls: ReservationCalls;
  readonly now: () => number;
  /** The monotonic clock that measures waits; `ledger` uses the same clock. */
  readonly elapsedMs: () => number;
  /** Called with the owner id after each change. */
  readonly changed: (ownerId: string) => void;
  /** Called after the first list, which shows which reservations are missing. */
  readonly listed: () => void;
};

/** The kind of owner of units in the ledger. */
export const OWNER_KIND = JOB;
/** Timeout of each check of a manifest; it is short, because the client waits for the answers. */
const CHECK_TIMEOUT_MS = 2000;
/** Maps faults of requests that cannot be granted until a pool changes. */
const REFUSALS: Partial<Record<Fault["code"], string>> = {
  pool_unknown: "POOL_UNKNOWN",
  pool_capacity: "POOL_CAPACITY",
  queue_unknown: "QUEUE_UNKNOWN",
  quota_exceeded: "QUOTA_EXCEEDED",
};

/** Returns undefined if the same request may be granted later. A limit with a pause means that the ledger is busy. */
function findRefusalCode(fault: Fault): string | undefined {
  if (fault.code !== "limit_exceeded") return REFUSALS[fault.code];
  return fault.limit > 0 && fault.retryAfterMs === 0 ? "LIMIT_EXCEEDED" : undefined;
}

/** Returns undefined for an error after which the same request may be granted. */
function readRefusal(error: unknown, needs: readonly Need[]): WaitReason | undefined {
  const fault = findFault(error);
  const code = fault && findRefusalCode(fault);
  return fault === undefined || code === undefined ? undefined : { code, text: describeRefusal(fault, needs) };
}

type Refused = Extract<UnitSeen, { readonly sinceMs: number }>;

/** Groups the units of `ledger` by job: the groups of `ledger` are owner ids. */
export function makeMachines({ ledger, calls, now, elapsedMs, changed, listed }: MachinesDeps): Machines {
  /** The refusals by owner id and unit id, because the ledger does not keep them. */
  const refusals = new Map<string, Map<string, Refused>>();
  const refusedOf = (ownerId: string) => [...(refusals.get(ownerId)?.values() ?? [])];
  const forgetRefusal = (unitId: string): boolean => {
    const ownerId = getUnitOwnerId(unitId);
    const isForgotten = refusals.get(ownerId)?.delete(unitId) === true;
    if (refusals.get(ownerId)?.size === 0) refusals.delete(ownerId);
    return isForgotten;
  };
  const refuse = (refused: Refused): void => {
    const ownerId = getUnitOwnerId(refused.id);
    refusals.set(ownerId, (refusals.get(ownerId) ?? new Map<string, Refused>()).set(refused.id, refused));
    changed(ownerId);
  };
  /** Set by the last answer to a request with shares, node selections, further pools, a topology or a queue. */
  let dropsConstraints = false;
  ledger.onChange((ownerId) => {
    if (ownerId === undefined) {
      listed();
      return;
    }
    for (const { id } of refusedOf(ownerId)) if (ledger.get(id) !== undefined) forgetRefusal(id);
    changed(ownerId);
  });
  return {
    refresh: ledger.refresh,
    invalidate: ledger.invalidate,
    unitsOf: (ownerId) => {
      if (!ledger.isKnown()) return [{ id: ownerId, state: "unknown" }];
      const aheadMs = now() - elapsedMs();
      const reserved = ledger.inGroup(ownerId).map((each): UnitSeen => {
        const unit = toUnitSeen(each, each.seenAtMs + aheadMs);
        return dropsConstraints && unit.state === "waiting" ? { ...unit, dropsConstraints } : unit;
      });
      const refused = refusedOf(ownerId).map((each) => ({ ...each, sinceMs: each.sinceMs + aheadMs }));
      return [...reserved, ...refused].sort((a, b) => (a.id < b.id ? -1 : 1));
    },
    ownerIds: () => new Set([...ledger.groups(), ...refusals.keys()]),
    reserve: async ({ id, needs, topology, queue, graceMs, notPreemptible, because }, priority) => {
      const preemption = {
        ...(graceMs !== undefined && { graceMs }),
        ...(notPreemptible && { notPreemptible }),
        ...(because === "scaled-up" && { beyondMinimum: true }),
      };
      try {
        // An existing reservation with other needs is an answer too: the next pass decides about it.
        const answer = await ledger.reserve(id, needs, { priority, topology, queue, ...preemption });
        // A ledger of an earlier version drops these fields: then no request is repeated because of them.
        if (answer !== undefined && (topology !== undefined || queue !== undefined || needs.some(isSpecific)))
          dropsConstraints =
            isDropped(topology, answer.topology) || isDropped(queue, answer.queue) || !isKept(answer.needs, needs);
      } catch (error) {
        const because = readRefusal(error, needs);
        if (because === undefined) throw error;
        const components = needs.map(({ component }) => component);
        refuse({ id, state: "refused", components, because, sinceMs: elapsedMs() });
      }
    },
    check: (unit, priority) => checkUnit(calls, unit, priority),
    release: async (unitId) => {
      if (forgetRefusal(unitId)) {
        changed(getUnitOwnerId(unitId));
        return;
      }
      const reservation = ledger.get(unitId) ?? (await ledger.ask(unitId));
      if (reservation !== undefined) await ledger.release(unitId, reservation.id);
    },
    ...preemptionCalls(ledger),
    maxima: () => askMaxima(calls),
  };
}

async function checkUnit(
  calls: ReservationCalls,
  { id, needs, topology, queue }: RequestUnit,
  priority: number,
): Promise<WaitReason | undefined> {
  try {
    const asked = { priority, topology, queue, timeoutMs: CHECK_TIMEOUT_MS };
    const because = await makeLedgerCalls(calls, OWNER_KIND).check(id, needs, asked);
    return because && { code: because.code, text: explainWait(because) };
  } catch (error) {
    const because = readRefusal(error, needs);
    if (because === undefined) throw error;
    return because;
  }
}

async function askMaxima(calls: MachinesDeps["calls"]): ReturnType<Machines["maxima"]> {
  try {
    return listPoolMaxima((await calls.listPools({}, { timeoutMs: CHECK_TIMEOUT_MS })).pools);
  } catch (error) {
    if (findFault(error) === undefined) throw error;
    return undefined;
  }
}

/** Calls the ledger with the id of the unit's known reservation; has no effect for an unknown unit. */
function preemptionCalls(ledger: LedgerClient): Pick<Machines, "accept" | "requeue"> {
  return {
    accept: async (unitId) => {
      const reservation = ledger.get(unitId);
      if (reservation !== undefined) await ledger.acceptPreemption(unitId, reservation.id);
    },
    requeue: async (unitId) => {
      const reservation = ledger.get(unitId);
      if (reservation !== undefined) await ledger.requeue(unitId, reservation.id);
    },
  };
}

function isDropped(requested: string | undefined, answered: string | undefined): boolean {
  return requested !== undefined && answered === undefined;
}

/** Whether a ledger of an earlier version would drop a part of the need. */
function isSpecific({ otherPools, shared, selection }: Need): boolean {
  return otherPools !== undefined || shared !== undefined || selection !== undefined;
}

/**
 * Whether the ledger keeps further pools, shares and node selections. The values of an existing reservation may differ from the requested values; the plan
 * compares them.
 */
function isKept(answered: readonly Need[], requested: readonly Need[]): boolean {
  const known = new Map(answered.map((need) => [need.component, need]));
  return requested.every(({ component, otherPools, shared, selection }) => {
    const kept = known.get(component);
    if (kept === undefined) return true;
    return (
      (otherPools === undefined || kept.otherPools !== undefined) &&
      (shared === undefined || kept.shared !== undefined) &&
      (selection === undefined || kept.selection !== undefined) &&
      (selection?.minimum === undefined || kept.selection?.minimum !== undefined)
    );
  });
}
