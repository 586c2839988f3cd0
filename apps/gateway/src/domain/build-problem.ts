import { assertNever, describeFault, getReason, type Fault } from "@muster/faults";

/** A problem document of RFC 9457. */
export type Problem = {
  /** Identifies the code. It is a name, not an address. */
  readonly type: string;
  readonly title: string;
  readonly status: number;
  /** One line for people. */
  readonly detail: string;
  /** The stable code that programs compare: `POOL_UNKNOWN`. */
  readonly code: string;
  /** The invalid field of the request. */
  readonly field?: string;
  /** Time after which the same request may succeed; absent if a retry does not help. */
  readonly retryAfterMs?: number;
  /** All fields of the service's fault. */
  readonly fault?: Fault;
};

/** The refusals of HTTP itself; no fault of a service has these codes. */
export type HttpRefusal =
  | "UNAUTHENTICATED"
  | "FORBIDDEN"
  | "CSRF"
  | "METHOD_NOT_ALLOWED"
  | "NOT_ACCEPTABLE"
  | "REQUEST_TIMEOUT"
  | "BODY_TOO_LARGE"
  | "PATH_TOO_LONG"
  | "UNSUPPORTED_MEDIA_TYPE"
  | "IDEMPOTENCY_KEY_REUSED"
  | "HEADERS_TOO_LARGE"
  | "MALFORMED_REQUEST";

const REFUSAL_STATUS: Readonly<Record<HttpRefusal, number>> = {
  MALFORMED_REQUEST: 400,
  UNAUTHENTICATED: 401,
  FORBIDDEN: 403,
  CSRF: 403,
  METHOD_NOT_ALLOWED: 405,
  NOT_ACCEPTABLE: 406,
  REQUEST_TIMEOUT: 408,
  BODY_TOO_LARGE: 413,
  PATH_TOO_LONG: 414,
  UNSUPPORTED_MEDIA_TYPE: 415,
  IDEMPOTENCY_KEY_REUSED: 422,
  HEADERS_TOO_LARGE: 431,
};

/** The retry hint for temporary faults without a time. */
const RETRY_MS = 1000;

export function buildRefusal(code: HttpRefusal, detail: string): Problem {
  return { type: typeOf(code), title: titleOf(code), status: REFUSAL_STATUS[code], detail, code };
}

export function buildProblem(fault: Fault): Problem {
  const code = getReason(fault);
  const retryAfterMs = retryAfterOf(fault);
  return {
    type: typeOf(code),
    title: titleOf(code),
    status: statusOf(fault),
    detail: describeFault(fault),
    code,
    ...(fault.code === "invalid_request" && { field: fault.field }),
    ...(retryAfterMs !== undefined && { retryAfterMs }),
    fault,
  };
}

/** Returns whole seconds, as in the header `Retry-After`. */
export function retryAfterSeconds({ retryAfterMs }: Pick<Problem, "retryAfterMs">): number | undefined {
  return retryAfterMs === undefined ? undefined : Math.max(1, Math.ceil(retryAfterMs / 1000));
}

function statusOf(fault: Fault): number {
  switch (fault.code) {
    case "invalid_request":
      return 400;
    case "not_found":
      return 404;
    case "already_exists":
    case "conflict":
    case "reservation_differs":
      return 409;
    // The path is correct, but the cluster can never satisfy the body.
    case "pool_unknown":
    case "pool_capacity":
    case "queue_unknown":
    case "quota_exceeded":
      return 422;
    case "limit_exceeded":
      return fault.retryAfterMs > 0 ? 429 : 422;
    case "pool_availability":
    case "unavailable":
    case "cancelled":
      return 503;
    case "deadline_exceeded":
      return 504;
    case "internal":
      return 500;
    default:
      return assertNever(fault);
  }
}

function retryAfterOf(fault: Fault): number | undefined {
  switch (fault.code) {
    case "unavailable":
      return fault.retryAfterMs > 0 ? fault.retryAfterMs : RETRY_MS;
    case "limit_exceeded":
      return fault.retryAfterMs > 0 ? fault.retryAfterMs : undefined;
    case "pool_availability":
    case "deadline_exceeded":
    case "cancelled":
      return RETRY_MS;
    // A conflict requires a new read before the retry; a retry does not change the other faults.
    default:
      return undefined;
  }
}

function typeOf(code: string): string {
  return `urn:muster:problem:${code.toLowerCase().replaceAll("_", "-")}`;
}

function titleOf(code: string): string {
  const words = code.toLowerCase().replaceAll("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}
