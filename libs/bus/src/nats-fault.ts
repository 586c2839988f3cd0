import { FaultError, isFaultError, type Fault } from "@muster/faults";

/** Retry hint while the servers are unreachable or restarting. */
const NATS_RETRY_MS = 500;

/** The service did nothing: the request could not be sent, or had no responder. */
export const NATS_AWAY: Fault = { code: "unavailable", dependency: "nats", retryAfterMs: NATS_RETRY_MS };

/** Numbers of the JetStream API's errors. */
export const JS_ERROR = {
  consumerNotFound: 10014,
  noMessageFound: 10037,
  sequenceNotFound: 10043,
  storageInsufficient: 10047,
  streamConfigInvalid: 10052,
  streamNameInUse: 10058,
  streamNotFound: 10059,
  wrongLastSequence: 10071,
  storeFailed: 10077,
  consumerExists: 10148,
  wrongLastSequenceUnknown: 10164,
} as const;

type NatsContext = {
  /** The operation: `publishing to muster.evt...`. */
  readonly operation: string;
  /** Time limit of the operation; deadline_exceeded contains it. */
  readonly timeoutMs?: number;
};

/** The only conversion of errors of the NATS libraries into faults: by class name and number, never by text. */
export function toNatsFault(error: unknown, context: NatsContext): Fault {
  if (isFaultError(error)) return error.fault;
  const { operation, timeoutMs = 0 } = context;
  const name = error instanceof Error ? error.name : "";
  switch (name) {
    case "TimeoutError":
      return { code: "deadline_exceeded", operation, timeoutMs };
    case "NoResponders":
    case "JetStreamNotEnabled":
    case "ConnectionError":
    case "AuthorizationError":
    case "PermissionViolationError":
    case "UserAuthenticationExpiredError":
      return NATS_AWAY;
    // Only disposing the bus closes or drains its connection.
    case "ClosedConnectionError":
    case "DrainingConnectionError":
      return { code: "cancelled", operation };
    case "RequestError":
      return isNoResponders(error) ? NATS_AWAY : { code: "cancelled", operation };
    case "InvalidArgumentError":
    case "InvalidSubjectError":
    case "InvalidNameError":
      return { code: "invalid_request", field: operation, reason: getMessage(error) };
    case "JetStreamApiError":
    case "ConsumerNotFoundError":
    case "StreamNotFoundError":
      return apiFault(error, operation);
    default:
      return isSystemError(error) ? NATS_AWAY : { code: "internal", operation };
  }
}

/** The fault as an error to throw, with the original error as its cause. */
export function toNatsError(error: unknown, context: NatsContext): FaultError {
  return isFaultError(error)
    ? error
    : new FaultError(toNatsFault(error, context), { cause: error, doing: context.operation });
}

/** Whether the request had no responder, so that the service did nothing. */
export function isNoResponders(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if (error.name === "NoResponders") return true;
  return error.name === "RequestError" && error.cause instanceof Error && error.cause.name === "NoResponders";
}

/** The number of a JetStream API error; undefined for other errors. */
export function findApiCode(error: unknown): number | undefined {
  return error instanceof Error && "code" in error && typeof error.code === "number" ? error.code : undefined;
}

function apiFault(error: unknown, operation: string): Fault {
  const status = error instanceof Error && "status" in error ? error.status : 0;
  switch (findApiCode(error)) {
    case JS_ERROR.streamNotFound:
      return { code: "not_found", kind: "stream", id: operation };
    case JS_ERROR.consumerNotFound:
      return { code: "not_found", kind: "consumer", id: operation };
    case JS_ERROR.streamConfigInvalid:
      return { code: "invalid_request", field: operation, reason: getMessage(error) };
    case JS_ERROR.wrongLastSequence:
    case JS_ERROR.wrongLastSequenceUnknown:
      return { code: "conflict", id: operation, expectedRevision: 0, actualRevision: 0 };
    case JS_ERROR.storageInsufficient:
    case JS_ERROR.storeFailed:
      return {
        code: "limit_exceeded",
        what: `stream storage (${getMessage(error)})`,
        limit: 0,
        retryAfterMs: NATS_RETRY_MS,
      };
    default:
      // No leader, no server for a replica, or a stream that is not loaded: each passes.
      if (typeof status === "number" && (status >= 500 || status === 408)) return NATS_AWAY;
      if (status === 404) return { code: "not_found", kind: "jetstream object", id: operation };
      if (status === 400) return { code: "invalid_request", field: operation, reason: getMessage(error) };
      return { code: "internal", operation };
  }
}

/** Whether it is a Node system error, such as ECONNREFUSED. */
function isSystemError(error: unknown): boolean {
  return error instanceof Error && "code" in error && typeof error.code === "string" && error.code.startsWith("E");
}

function getMessage(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
