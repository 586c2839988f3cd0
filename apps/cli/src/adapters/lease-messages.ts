import type { Result } from "@muster/leases";
import { textOf, toEnd, toNs, toOrder, toRenewal } from "@muster/leases/wire";
import { muster } from "@muster/proto";
import type { Cleanup, CleanupSchedule } from "../domain/build-cleanup-view.ts";
import type { EngineLoad } from "../domain/build-lease-checks.ts";
import type { EngineIdentity } from "../domain/lease-engine.ts";
import type { Lease, LeaseEvent, LeaseUsers } from "../domain/lease.ts";

const wire = muster.provision.v1;

export const PHASE_TO_WIRE: ReadonlyMap<string, muster.provision.v1.LeasePhase> = new Map([
  ["ORDERED", wire.LeasePhase.LEASE_PHASE_ORDERED],
  ["PROVISIONING", wire.LeasePhase.LEASE_PHASE_PROVISIONING],
  ["ACTIVE", wire.LeasePhase.LEASE_PHASE_ACTIVE],
  ["DECOMMISSIONING", wire.LeasePhase.LEASE_PHASE_DECOMMISSIONING],
  ["ENDED", wire.LeasePhase.LEASE_PHASE_ENDED],
  ["FAILED", wire.LeasePhase.LEASE_PHASE_FAILED],
]);
const PHASE_FROM_WIRE = new Map<number, string>([...PHASE_TO_WIRE].map(([phase, number]) => [number, phase]));

const STATE_FROM_WIRE = new Map<number, Result["state"]>([
  [wire.ResultState.RESULT_STATE_OK, "ok"],
  [wire.ResultState.RESULT_STATE_DELETED, "deleted"],
]);

export function leaseFromMessage(message: muster.provision.v1.Lease.$Properties): Lease {
  const record = message.record ?? {};
  const { result, renewal, ending } = record;
  return {
    order: toOrder(record.order ?? {}),
    phase: PHASE_FROM_WIRE.get(record.phase ?? 0) ?? "UNKNOWN",
    source: record.source ?? "",
    run: record.run ?? 0,
    expiresAtNs: toNs(record.expiresAt),
    renewal: renewal ? toRenewal(renewal) : undefined,
    endRequest: ending?.request ? toEnd(ending.request) : undefined,
    ending: ending ? { cause: ending.cause ?? "", message: ending.message ?? "", atNs: toNs(ending.at) } : undefined,
    result: result ? resultFromMessage(result) : undefined,
    orderHash: record.orderHash?.length ? record.orderHash : undefined,
    waitingBecause: message.waitingBecause ?? "",
    isStuck: message.stuck ?? false,
    usedBy: usersFromMessage(message),
    endedAtNs: record.endedAt ? toNs(record.endedAt) : undefined,
    untold: record.outbox?.length ?? 0,
    traceparent: record.traceparent ?? "",
    revision: message.revision ?? 0,
  };
}

function usersFromMessage({ usedBy, usedByCount }: muster.provision.v1.Lease.$Properties): LeaseUsers {
  const some = (usedBy ?? []).map(({ id, type, phase, expiresAt }) => ({
    id: id ?? "",
    type: type ?? "",
    phase: PHASE_FROM_WIRE.get(phase ?? 0) ?? "UNKNOWN",
    expiresAtNs: toNs(expiresAt),
  }));
  return { count: usedByCount ?? 0, some };
}

function resultFromMessage(message: muster.provision.v1.Result.$Properties): Result {
  return {
    id: message.id ?? "",
    type: message.type ?? "",
    createdNs: toNs(message.created),
    state: STATE_FROM_WIRE.get(message.state ?? 0) ?? "error",
    message: message.message ?? "",
    data: textOf(message.dataJson),
    signature: message.signature ?? new Uint8Array(),
  };
}

export function leaseEventFromMessage(message: muster.provision.v1.LeaseEvent.$Properties): LeaseEvent {
  const { id, eventType, message: text, traceparent } = message;
  return {
    id: id ?? "",
    event: eventType ?? "",
    message: text ?? "",
    atNs: toNs(message.at),
    traceparent: traceparent ?? "",
  };
}

export function cleanupFromMessage(message: muster.provision.v1.CleanupResourcesReply.$Properties): Cleanup {
  const { steps, found, removed, suspected, heldBecause } = message;
  return {
    steps: (steps ?? []).map(({ action, kind, namespace, name, lease, because }) => ({
      action: action ?? "",
      kind: kind ?? "",
      namespace: namespace ?? "",
      name: name ?? "",
      lease: lease ?? "",
      because: because ?? "",
    })),
    found: found ?? 0,
    removed: removed ?? 0,
    suspected: suspected ?? 0,
    heldBecause: heldBecause ?? "",
    schedule: scheduleFromMessage(message),
  };
}

export function scheduleFromMessage({
  mode,
  nextLook,
}: Pick<muster.provision.v1.GetCleanupReply.$Properties, "mode" | "nextLook">): CleanupSchedule {
  return { mode: mode ?? "", nextLookMs: nextLook ? Number(toNs(nextLook) / 1_000_000n) : undefined };
}

export function engineFromMessage(message: muster.provision.v1.GetEngineReply.$Properties): EngineIdentity {
  return { engine: message.engine ?? "", key: message.key ?? "", nowNs: toNs(message.now) };
}

export function engineLoadFromMessage(message: muster.provision.v1.GetCountersReply.$Properties): EngineLoad {
  const { engine, counters, used, capacity, overdue, unopened } = message;
  const active = Object.values(counters ?? {}).reduce((sum: number, count) => sum + (Number(count) || 0), 0);
  return {
    engine: engine ?? "",
    active,
    overdue: overdue ?? 0,
    unopened: unopened ?? 0,
    used: unitsFromMessage(used ?? {}),
    capacity: capacity ? limitsFromMessage(capacity) : undefined,
  };
}

function limitsFromMessage(units: muster.provision.v1.ResourceUnits.$Properties): EngineLoad["capacity"] {
  const { cru, mruBytes, sruBytes, hruBytes } = units;
  const limited = { cru, mruBytes, sruBytes, hruBytes };
  return Object.fromEntries(Object.entries(limited).filter(([, limit]) => (limit ?? UNLIMITED) < UNLIMITED));
}

/** What earlier engines send for no limit. */
const UNLIMITED = Number.MAX_SAFE_INTEGER;

function unitsFromMessage(units: muster.provision.v1.ResourceUnits.$Properties): EngineLoad["used"] {
  const { cru, mruBytes, sruBytes, hruBytes } = units;
  return { cru: cru ?? 0, mruBytes: mruBytes ?? 0, sruBytes: sruBytes ?? 0, hruBytes: hruBytes ?? 0 };
}
