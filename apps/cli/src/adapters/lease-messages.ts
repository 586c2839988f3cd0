import { durationOf, nsFrom, timestampOf, type EndRequest, type Order, type Renewal } from "@muster/leases";
import type { Result } from "@muster/leases";
import { muster } from "@muster/proto";
import type { EngineLoad } from "../domain/build-lease-checks.ts";
import type { Lease, LeaseEvent } from "../domain/lease.ts";

const wire = muster.provision.v1;
const { SIGNATURE_FORMAT_LEGACY, SIGNATURE_FORMAT_UNSPECIFIED } = wire.SignatureFormat;
type WireTime = { readonly seconds?: number | null; readonly nanos?: number | null } | null | undefined;

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

export function orderToMessage(order: Order): muster.provision.v1.Order.$Properties {
  const { createdNs, durationNs, data, reference = "", signatureFormat, ...rest } = order;
  return {
    ...rest,
    data: new TextEncoder().encode(data),
    created: timestampOf(createdNs),
    duration: durationOf(durationNs),
    reference,
    signatureFormat: signatureFormat === "legacy" ? SIGNATURE_FORMAT_LEGACY : SIGNATURE_FORMAT_UNSPECIFIED,
  };
}

export function renewalToMessage({ expiresAtNs, ...rest }: Renewal): muster.provision.v1.Renewal.$Properties {
  return { ...rest, expiresAt: timestampOf(expiresAtNs) };
}

export function endToMessage({ createdNs, ...rest }: EndRequest): muster.provision.v1.EndRequest.$Properties {
  return { ...rest, created: timestampOf(createdNs) };
}

export function leaseFromMessage(message: muster.provision.v1.Lease.$Properties): Lease {
  const record = message.record ?? {};
  const { result, renewal, ending } = record;
  return {
    order: orderFromMessage(record.order ?? {}),
    phase: PHASE_FROM_WIRE.get(record.phase ?? 0) ?? "UNKNOWN",
    source: record.source ?? "",
    run: record.run ?? 0,
    expiresAtNs: toNs(record.expiresAt),
    renewal: renewal ? renewalFromMessage(renewal) : undefined,
    endRequest: ending?.request ? endFromMessage(ending.request) : undefined,
    ending: ending ? { cause: ending.cause ?? "", message: ending.message ?? "", atNs: toNs(ending.at) } : undefined,
    result: result ? resultFromMessage(result) : undefined,
    waitingBecause: message.waitingBecause ?? "",
    endedAtNs: record.endedAt ? toNs(record.endedAt) : undefined,
    untold: record.outbox?.length ?? 0,
    traceparent: record.traceparent ?? "",
    revision: message.revision ?? 0,
  };
}

function orderFromMessage(message: muster.provision.v1.Order.$Properties): Order {
  return {
    id: message.id ?? "",
    engine: message.engine ?? "",
    user: message.user ?? "",
    type: message.type ?? "",
    data: textOf(message.data),
    createdNs: toNs(message.created),
    durationNs: toNs(message.duration),
    reference: message.reference ? message.reference : undefined,
    version: message.version ?? 0,
    signature: message.signature ?? new Uint8Array(),
    signatureFormat: message.signatureFormat === SIGNATURE_FORMAT_LEGACY ? "legacy" : "muster-lease-v1",
  };
}

function renewalFromMessage(message: muster.provision.v1.Renewal.$Properties): Renewal {
  const { id, engine, user, sequence, signature } = message;
  return {
    id: id ?? "",
    engine: engine ?? "",
    user: user ?? "",
    expiresAtNs: toNs(message.expiresAt),
    sequence: sequence ?? 0,
    signature: signature ?? new Uint8Array(),
  };
}

function endFromMessage(message: muster.provision.v1.EndRequest.$Properties): EndRequest {
  const { id, engine, user, signature } = message;
  return {
    id: id ?? "",
    engine: engine ?? "",
    user: user ?? "",
    createdNs: toNs(message.created),
    signature: signature ?? new Uint8Array(),
  };
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

export function engineLoadFromMessage(message: muster.provision.v1.GetCountersReply.$Properties): EngineLoad {
  const { engine, counters, used, capacity } = message;
  const active = Object.values(counters ?? {}).reduce((sum: number, count) => sum + (Number(count) || 0), 0);
  return {
    engine: engine ?? "",
    active,
    used: unitsFromMessage(used ?? {}),
    capacity: capacity ? unitsFromMessage(capacity) : undefined,
  };
}

function unitsFromMessage(units: muster.provision.v1.ResourceUnits.$Properties): EngineLoad["used"] {
  const { cru, mruBytes, sruBytes, hruBytes } = units;
  return { cru: cru ?? 0, mruBytes: mruBytes ?? 0, sruBytes: sruBytes ?? 0, hruBytes: hruBytes ?? 0 };
}

function toNs(time: WireTime): bigint {
  return nsFrom({ seconds: time?.seconds ?? 0, nanos: time?.nanos ?? 0 });
}

function textOf(bytes: Uint8Array | null | undefined): string {
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes ?? new Uint8Array());
}
