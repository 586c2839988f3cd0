import { FaultError, isFaultError } from "@muster/faults";

/** Numbers of the JetStream API errors that we handle. */
export const JETSTREAM = {
  insufficientResources: 10023,
  noMessageFound: 10037,
  storageExceeded: 10047,
  messageTooLarge: 10054,
  streamNameInUse: 10058,
  streamNotFound: 10059,
  wrongLastSequence: 10071,
  /** The store refused a message; for a stream that refuses new messages when full: it is full. */
  storeFailed: 10077,
  wrongLastSequenceUnknown: 10164,
} as const;

/** Retry hint for NATS. */
export const RETRY_AFTER_MS = 500;

const CONNECTION_ERRORS: ReadonlySet<string> = new Set([
  "ClosedConnectionError",
  "ConnectionError",
  "DrainingConnectionError",
  "JetStreamNotEnabled",
  "NoResponders",
  "RequestError",
  "TimeoutError",
]);

const REFUSALS: ReadonlySet<string> = new Set([
  "AuthorizationError",
  "PermissionViolationError",
  "UserAuthenticationExpiredError",
]);

/** The number of a JetStream API error; undefined for every other error. */
export function jetStreamCode(error: unknown): number | undefined {
  if (!(error instanceof Error) || !("apiError" in error) || !("code" in error)) return undefined;
  return typeof error.code === "number" ? error.code : undefined;
}

/** The server refused by its present configuration (a limit, a permission), which an operator can change while we run. */
export function isRefusal(error: unknown): boolean {
  return jetStreamCode(error) !== undefined || (error instanceof Error && REFUSALS.has(error.name));
}

export function isWrongSequence(error: unknown): boolean {
  const code = jetStreamCode(error);
  return code === JETSTREAM.wrongLastSequence || code === JETSTREAM.wrongLastSequenceUnknown;
}

/** The store refused a message because its limits are reached. */
export function isFull(error: unknown): boolean {
  const code = jetStreamCode(error);
  return (
    code === JETSTREAM.storeFailed || code === JETSTREAM.storageExceeded || code === JETSTREAM.insufficientResources
  );
}

/** Nothing more fits on the server, whatever it is for. */
export function isServerFull(error: unknown): boolean {
  const code = jetStreamCode(error);
  return code === JETSTREAM.storageExceeded || code === JETSTREAM.insufficientResources;
}

/** An operator can make room: a retry may succeed later. */
export function serverFull(cause: unknown): FaultError {
  const what = "storage of nats";
  return new FaultError({ code: "limit_exceeded", what, limit: 0, retryAfterMs: RETRY_AFTER_MS }, { cause });
}

/**
 * Maps the client's errors to faults. No answer becomes unavailable, also where the time limit of one request has passed: that limit is ours and not the
 * caller's deadline, which deadline_exceeded would speak of; and a request without an answer has the same unknown outcome as one whose connection was lost,
 * so a writer has to find out in either case, as the contracts of bucket and log say. A fault stays itself, anything else is a defect and comes back as it
 * is.
 */
export function toFault(error: unknown, doing: string): unknown {
  if (isFaultError(error)) return error;
  if (!isUnavailable(error)) return error;
  return unavailable(doing, error);
}

export function unavailable(doing: string, cause?: unknown): FaultError {
  return new FaultError({ code: "unavailable", dependency: "nats", retryAfterMs: RETRY_AFTER_MS }, { doing, cause });
}

function isUnavailable(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if (CONNECTION_ERRORS.has(error.name)) return true;
  if (jetStreamCode(error) === undefined) return false;
  const status = "status" in error ? error.status : undefined;
  return typeof status === "number" && (status >= 500 || status === 408);
}
