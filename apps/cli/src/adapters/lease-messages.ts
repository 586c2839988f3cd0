import type { Result } from "@muster/leases";
import { textOf, toEnd, toNs, toOrder, toRenewal } from "@muster/leases/wire";
import { enums, lowercaseNames, muster } from "@muster/proto";
import type { Cleanup, CleanupSchedule } from "../domain/build-cleanup-view.ts";
import type { EngineLoad } from "../domain/build-lease-checks.ts";
import type { Lease, LeaseEvent, LeaseUsers } from "../domain/lease.ts";
import { pick } from "./message-fields.ts";

const STATES = lowercaseNames(enums.ResultState);

export function leaseFromMessage(message = muster.provision.v1.Lease.create()): Lease {
  const record = message.record ?? muster.provision.v1.LeaseRecord.create();
  const { result, renewal, ending } = record;
  return {
    order: toOrder(record.order ?? muster.provision.v1.Order.create()),
    phase: enums.LeasePhase.nameOf(record.phase) ?? "UNKNOWN",
    ...pick(record, "source", "run"),
    expiresAtNs: toNs(record.expiresAt),
    renewal: renewal && toRenewal(renewal),
    endRequest: ending?.request && toEnd(ending.request),
    ending: ending && { cause: ending.cause, message: ending.message, atNs: toNs(ending.at) },
    result: result && resultFromMessage(result),
    orderHash: record.orderHash.length > 0 ? record.orderHash : undefined,
    waitingBecause: message.waitingBecause,
    isStuck: message.stuck,
    usedBy: usersFromMessage(message),
    endedAtNs: record.endedAt && toNs(record.endedAt),
    unpublished: record.outbox.length,
    traceparent: record.traceparent,
    revision: message.revision,
  };
}

function usersFromMessage({ usedBy, usedByCount }: muster.provision.v1.Lease): LeaseUsers {
  const some = usedBy.map(({ id, type, phase, expiresAt }) => ({
    id,
    type,
    phase: enums.LeasePhase.nameOf(phase) ?? "UNKNOWN",
    expiresAtNs: toNs(expiresAt),
  }));
  return { count: usedByCount, some };
}

function resultFromMessage(message: muster.provision.v1.Result): Result {
  return {
    ...pick(message, "id", "type"),
    createdNs: toNs(message.created),
    state: STATES.nameOf(message.state) ?? "error",
    message: message.message,
    data: textOf(message.dataJson),
    signature: message.signature,
  };
}

export function leaseEventFromMessage(message: muster.provision.v1.LeaseEvent): LeaseEvent {
  const { id, eventType, message: text, traceparent } = message;
  return { id, event: eventType, message: text, atNs: toNs(message.at), traceparent };
}

export function cleanupFromMessage(message: muster.provision.v1.CleanupResourcesReply): Cleanup {
  return {
    steps: message.steps.map((step) => pick(step, "action", "kind", "namespace", "name", "lease", "because")),
    ...pick(message, "found", "removed", "suspected", "heldBecause"),
    schedule: scheduleFromMessage(message),
  };
}

export function scheduleFromMessage({
  mode,
  nextLook,
}: Pick<muster.provision.v1.GetCleanupReply, "mode" | "nextLook">): CleanupSchedule {
  return { mode, nextScanMs: nextLook ? Number(toNs(nextLook) / 1_000_000n) : undefined };
}

export function engineLoadFromMessage(message: muster.provision.v1.GetCountersReply): EngineLoad {
  const { counters, used, capacity } = message;
  const active = Object.values(counters ?? {}).reduce((sum: number, count) => sum + count, 0);
  return {
    active,
    ...pick(message, "engine", "overdue", "unopened"),
    used: unitsFromMessage(used),
    capacity: capacity && limitsFromMessage(capacity),
  };
}

function limitsFromMessage(units: muster.provision.v1.ResourceUnits): EngineLoad["capacity"] {
  const { cru, mruBytes, sruBytes, hruBytes } = units;
  const limited = { cru, mruBytes, sruBytes, hruBytes };
  return Object.fromEntries(Object.entries(limited).filter(([, limit]) => (limit ?? UNLIMITED) < UNLIMITED));
}

/** What earlier engines send for no limit. */
const UNLIMITED = Number.MAX_SAFE_INTEGER;

function unitsFromMessage(units: muster.provision.v1.ResourceUnits | undefined): EngineLoad["used"] {
  const { cru = 0, mruBytes = 0, sruBytes = 0, hruBytes = 0 } = units ?? {};
  return { cru, mruBytes, sruBytes, hruBytes };
}
