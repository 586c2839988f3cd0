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
  /** The store refused a message. For a stream that discards new messages, this means that it is full. */
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

/** The number of a JetStream API error; undefined for other errors. */
export function findJetStreamCode(error: unknown): number | undefined {
  if (!(error instanceof Error) || !("apiError" in error) || !("code" in error)) return undefined;
  return typeof error.code === "number" ? error.code : undefined;
}

/** Whether the current configuration of the server (a limit, a permission) caused the error. An operator can change it at run time. */
export function isRefusal(error: unknown): boolean {
  return findJetStreamCode(error) !== undefined || (error instanceof Error && REFUSALS.has(error.name));
}

export function isWrongSequence(error: unknown): boolean {
  const code = findJetStreamCode(error);
  return code === JETSTREAM.wrongLastSequence || code === JETSTREAM.wrongLastSequenceUnknown;
}

/** Whether the store refused a message because its limits are reached. */
export function isFull(error: unknown): boolean {
  const code = findJetStreamCode(error);
  return (
    code === JETSTREAM.storeFailed || code === JETSTREAM.storageExceeded || code === JETSTREAM.insufficientResources
  );
}

/** Whether the whole server is out of storage. */
export function isServerFull(error: unknown): boolean {
  const code = findJetStreamCode(error);
  return code === JETSTREAM.storageExceeded || code === JETSTREAM.insufficientResources;
}

/** Builds a fault that allows retries, because an operator can free storage. */
export function buildServerFullError(cause: unknown): FaultError {
  const what = "storage of nats";
  return new FaultError({ code: "limit_exceeded", what, limit: 0, retryAfterMs: RETRY_AFTER_MS }, { cause });
}

/**
 * Maps errors of the client to faults. A missing answer becomes unavailable, also after the time limit of one request: deadline_exceeded would mean the
 * caller's deadline. Its outcome is unknown, as after a lost connection, so a writer must check it, as the contracts of bucket and log state. Faults and
 * defects are returned unchanged.
 */
export function toFault(error: unknown, doing: string): unknown {
  if (isFaultError(error)) return error;
  if (!isUnavailable(error)) return error;
  return buildUnavailableError(doing, error);
}

export function buildUnavailableError(doing: string, cause?: unknown): FaultError {
  return new FaultError({ code: "unavailable", dependency: "nats", retryAfterMs: RETRY_AFTER_MS }, { doing, cause });
}

function isUnavailable(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if (CONNECTION_ERRORS.has(error.name)) return true;
  if (findJetStreamCode(error) === undefined) return false;
  const status = "status" in error ? error.status : undefined;
  return typeof status === "number" && (status >= 500 || status === 408);
}
