import { assertNever, describeFault, getReason, WIRE_CODE, type Fault } from "@muster/faults";
import { muster, type AnyMessageType, type MessageOf, type PropertiesOf } from "@muster/proto";

type WireFault = muster.common.v1.Fault;
type WireProperties = muster.common.v1.Fault.$Properties;

const WireFault = muster.common.v1.Fault;

/** Encodes a fault with number, stable word and text, for peers that do not know the detail. */
export function toWireFault(fault: Fault): WireProperties {
  return {
    code: WIRE_CODE[fault.code],
    reason: getReason(fault),
    message: describeFault(fault),
    ...toWireDetail(fault),
  };
}

/** Decodes a fault. An unknown detail becomes the simplest fault of the same gRPC number, so that newer peers are understood. */
export function toFaultFromWire(wire: WireFault): Fault {
  switch (wire.detail) {
    case "invalidRequest":
      return { code: "invalid_request", field: wire.invalidRequest.field, reason: wire.invalidRequest.reason };
    case "notFound":
      return { code: "not_found", kind: wire.notFound.kind, id: wire.notFound.id };
    case "alreadyExists":
      return { code: "already_exists", kind: wire.alreadyExists.kind, id: wire.alreadyExists.id };
    case "conflict": {
      const { id, expectedRevision, actualRevision } = wire.conflict;
      return { code: "conflict", id, expectedRevision, actualRevision };
    }
    case "poolUnknown": {
      const { pool, known } = wire.poolUnknown;
      return { code: "pool_unknown", pool, ...(known.length > 0 && { known }) };
    }
    case "poolCapacity": {
      const { pool, requested, capacity, topology, cordonedNodes: cordoned, taints } = wire.poolCapacity;
      const short = wire.poolCapacity.short.map((each) => {
        return { resource: each.resource, requested: each.requested, largest: each.largest };
      });
      return {
        ...{ code: "pool_capacity", pool, requested, capacity },
        ...(topology !== "" && { topology }),
        ...(short.length > 0 && { short }),
        ...(cordoned.length > 0 && { cordoned }),
        ...(taints.length > 0 && { taints }),
      };
    }
    case "poolAvailability": {
      const { pool, requested, available } = wire.poolAvailability;
      return { code: "pool_availability", pool, requested, available };
    }
    case "queueUnknown": {
      const { queue, known } = wire.queueUnknown;
      return { code: "queue_unknown", queue, ...(known.length > 0 && { known }) };
    }
    case "quotaExceeded": {
      const { queue, pool, resource, requested, most } = wire.quotaExceeded;
      return { code: "quota_exceeded", queue, pool, resource, requested, most };
    }
    case "limitExceeded": {
      const { what, limit, retryAfterMs } = wire.limitExceeded;
      return { code: "limit_exceeded", what, limit, retryAfterMs };
    }
    case "unavailable":
      return {
        code: "unavailable",
        dependency: wire.unavailable.dependency,
        retryAfterMs: wire.unavailable.retryAfterMs,
      };
    case "deadlineExceeded": {
      const { operation, timeoutMs } = wire.deadlineExceeded;
      return { code: "deadline_exceeded", operation, timeoutMs };
    }
    case "cancelled":
      return { code: "cancelled", operation: wire.cancelled.operation };
    case "internal":
      return { code: "internal", operation: wire.internal.operation };
    case "reservationDiffers": {
      const { owner } = wire.reservationDiffers;
      return { code: "reservation_differs", ownerKind: owner?.kind ?? "", ownerId: owner?.id ?? "" };
    }
    case undefined:
      return buildFaultOfCode(wire.code, wire.reason, wire.message);
    default:
      return assertNever(wire);
  }
}

/** The simplest fault of a gRPC status number, for peers whose fault has no known detail. */
export function buildFaultOfCode(code: number, reason: string, message: string): Fault {
  const text = message || reason || `status ${code}`;
  switch (code) {
    case 1:
      return { code: "cancelled", operation: text };
    case 4:
      return { code: "deadline_exceeded", operation: text, timeoutMs: 0 };
    case 5:
      return { code: "not_found", kind: reason.toLowerCase(), id: text };
    case 6:
      return { code: "already_exists", kind: reason.toLowerCase(), id: text };
    case 8:
      return { code: "limit_exceeded", what: text, limit: 0, retryAfterMs: 0 };
    case 10:
      return { code: "conflict", id: text, expectedRevision: 0, actualRevision: 0 };
    case 14:
      return { code: "unavailable", dependency: text, retryAfterMs: 0 };
    // Failed precondition and out of range: a retry of the same request cannot help.
    case 3:
    case 9:
    case 11:
      return { code: "invalid_request", field: reason.toLowerCase(), reason: text };
    default:
      return { code: "internal", operation: text };
  }
}

export function encodeFault(fault: Fault): Uint8Array {
  return WireFault.encode(toWireFault(fault)).finish();
}

/** Decodes the fault in a reply; uses the number and text of the headers if the body is not from Muster. */
export function decodeFault(payload: Uint8Array, code: number, text: string): Fault {
  const wire = payload.length === 0 ? undefined : tryDecode(WireFault, payload);
  return wire === undefined || wire.code === 0 ? buildFaultOfCode(code, "", text) : toFaultFromWire(wire);
}

export function encodeMessage<Type extends AnyMessageType>(type: Type, message: PropertiesOf<Type>): Uint8Array {
  return type.encode(message).finish();
}

/** Returns undefined if the bytes are not a message of this type. */
export function tryDecode<Type extends AnyMessageType>(type: Type, payload: Uint8Array): MessageOf<Type> | undefined {
  try {
    return type.decode(payload) as MessageOf<Type>;
  } catch {
    return undefined;
  }
}

/**
 * Copies the default values (zero, empty, false) of a message and its nested messages to own properties. A decoded message has them only on its prototype.
 * There, `{ ...message }` and `({ id, ...rest }) =>` lose them although the types promise them.
 */
export function copyDefaults(message: object): void {
  // `for in` also visits the properties of a prototype.
  for (const key in message) {
    const value: unknown = Reflect.get(message, key);
    if (typeof value === "function") continue;
    if (!Object.hasOwn(message, key)) Reflect.set(message, key, value);
    for (const part of Array.isArray(value) ? (value as unknown[]) : [value])
      if (typeof part === "object" && part !== null && !ArrayBuffer.isView(part)) copyDefaults(part);
  }
}

/** Full name of a message type: `muster.reservation.v1.ReserveRequest`. */
export function getTypeName(type: AnyMessageType): string {
  return type.getTypeUrl("").slice(1);
}

function toWireDetail(fault: Fault): WireProperties {
  switch (fault.code) {
    case "invalid_request":
      return { invalidRequest: { field: fault.field, reason: fault.reason } };
    case "not_found":
      return { notFound: { kind: fault.kind, id: fault.id } };
    case "already_exists":
      return { alreadyExists: { kind: fault.kind, id: fault.id } };
    case "conflict":
      return {
        conflict: {
          id: fault.id,
          expectedRevision: fault.expectedRevision,
          actualRevision: fault.actualRevision,
        },
      };
    case "pool_unknown":
      return { poolUnknown: { pool: fault.pool, known: fault.known } };
    case "pool_capacity": {
      const { pool, requested, capacity, topology, short = [], cordoned = [], taints = [] } = fault;
      const excluded = { cordonedNodes: [...cordoned], taints: [...taints] };
      return { poolCapacity: { pool, requested, capacity, topology, short: [...short], ...excluded } };
    }
    case "pool_availability":
      return { poolAvailability: { pool: fault.pool, requested: fault.requested, available: fault.available } };
    case "queue_unknown":
      return { queueUnknown: { queue: fault.queue, known: fault.known } };
    case "quota_exceeded": {
      const { queue, pool, resource, requested, most } = fault;
      return { quotaExceeded: { queue, pool, resource, requested, most } };
    }
    case "reservation_differs":
      return { reservationDiffers: { owner: { kind: fault.ownerKind, id: fault.ownerId } } };
    case "limit_exceeded":
      return { limitExceeded: { what: fault.what, limit: fault.limit, retryAfterMs: fault.retryAfterMs } };
    case "unavailable":
      return { unavailable: { dependency: fault.dependency, retryAfterMs: fault.retryAfterMs } };
    case "deadline_exceeded":
      return { deadlineExceeded: { operation: fault.operation, timeoutMs: fault.timeoutMs } };
    case "cancelled":
      return { cancelled: { operation: fault.operation } };
    case "internal":
      return { internal: { operation: fault.operation } };
    default:
      return assertNever(fault);
  }
}
