import { findFault, type Fault } from "@muster/faults";
import { getField, retryAfterMs } from "./kube-error.ts";

/** Retry hint if neither the server nor the network states one. */
const RETRY_AFTER_MS = 1000;

const UNAUTHENTICATED = "the API server, which does not take this service's credential (401),";

const NETWORK_CODES: ReadonlySet<string> = new Set([
  "ECONNREFUSED",
  "ECONNRESET",
  "ECONNABORTED",
  "EPIPE",
  "ETIMEDOUT",
  "EHOSTUNREACH",
  "EHOSTDOWN",
  "ENETUNREACH",
  "ENETDOWN",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EPROTO",
  "ERR_STREAM_PREMATURE_CLOSE",
  "ERR_SSL_WRONG_VERSION_NUMBER",
  "ERR_TLS_CERT_ALTNAME_INVALID",
  "CERT_HAS_EXPIRED",
  "DEPTH_ZERO_SELF_SIGNED_CERT",
  "SELF_SIGNED_CERT_IN_CHAIN",
  "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
]);

/**
 * The fault behind an error of client-node, by status code and never by text; undefined for an error of neither the API server nor the network. An expired
 * version or token (410) is a conflict: read again. A missing permission (403) is an invalid request, because a retry cannot help. A refused credential (401)
 * is retryable, because credentials are renewed without us; the fault names the credential.
 */
export function toKubeFault(error: unknown): Fault | undefined {
  const known = findFault(error);
  if (known !== undefined) return known;
  if (!(error instanceof Error)) return undefined;
  const code = getField(error, "code");
  if (typeof code === "number" && code >= 400 && code <= 599) return statusFault(code, error);
  return networkFault(error) ?? (error.cause === undefined ? undefined : toKubeFault(error.cause));
}

/** The fault behind an error of client-node. An error of neither the API server nor the network is a defect, and is rethrown. */
export function requireKubeFault(error: unknown): Fault {
  const fault = toKubeFault(error);
  if (fault === undefined) throw error;
  return fault;
}

/** Whether the API server refuses the call because a right is missing: no retry helps before an administrator grants it. */
export function isForbidden(error: unknown): boolean {
  const fault = toKubeFault(error);
  return fault?.code === "invalid_request" && fault.field === "permission";
}

function statusFault(code: number, error: Error): Fault {
  const body = parseBody(getField(error, "body"));
  const details = getField(body, "details");
  const kind = text(getField(details, "kind")) ?? "object";
  const id = text(getField(details, "name")) ?? "";
  switch (code) {
    case 404:
      return { code: "not_found", kind, id };
    case 409:
      if (getField(body, "reason") === "AlreadyExists") return { code: "already_exists", kind, id };
      return { code: "conflict", id: `${kind} ${id}`.trim(), expectedRevision: 0, actualRevision: 0 };
    case 410:
      return { code: "conflict", id: "resource version", expectedRevision: 0, actualRevision: 0 };
    case 401:
      return { code: "unavailable", dependency: UNAUTHENTICATED, retryAfterMs: RETRY_AFTER_MS };
    case 408:
    case 429:
      return unavailable(retryAfterMs({ headers: getField(error, "headers"), body }));
    default:
      if (code >= 500) return unavailable(retryAfterMs({ headers: getField(error, "headers"), body }));
      return { code: "invalid_request", field: wrongField(code, details), reason: reasonText(code, body) };
  }
}

function networkFault(error: Error): Fault | undefined {
  if (error.name === "TimeoutError") return unavailable(undefined);
  if (error.name === "AbortError") {
    // node:http throws its own error, with the signal's reason as its cause.
    if (error.cause instanceof Error && error.cause.name === "TimeoutError") return unavailable(undefined);
    return { code: "cancelled", operation: "request to the API server" };
  }
  const code = getField(error, "code");
  if (typeof code !== "string") return undefined;
  return NETWORK_CODES.has(code) || code.startsWith("UND_ERR_") ? unavailable(undefined) : undefined;
}

function unavailable(afterMs: number | undefined): Fault {
  return { code: "unavailable", dependency: "kubernetes", retryAfterMs: afterMs ?? RETRY_AFTER_MS };
}

function wrongField(code: number, details: unknown): string {
  if (code === 403) return "permission";
  const causes = getField(details, "causes");
  const first: unknown = Array.isArray(causes) ? causes[0] : undefined;
  return text(getField(first, "field")) ?? "request";
}

function reasonText(code: number, body: unknown): string {
  return text(getField(body, "message")) ?? `refused with status ${code}`;
}

/**
 * The API server's explanation of a failure: its first cause, such as the disruption budget that forbids an eviction, or else its message. Undefined: no
 * message.
 */
export function getStatusMessage(error: unknown): string | undefined {
  const body = parseBody(getField(error, "body"));
  const causes = getField(getField(body, "details"), "causes");
  const first: unknown = Array.isArray(causes) ? causes[0] : undefined;
  const message = text(getField(first, "message")) ?? text(getField(body, "message"));
  return message ?? (error instanceof Error && error.cause !== undefined ? getStatusMessage(error.cause) : undefined);
}

/** client-node leaves the body as text for a status without a type. */
function parseBody(body: unknown): unknown {
  if (typeof body !== "string") return body;
  try {
    return JSON.parse(body);
  } catch {
    return undefined;
  }
}

function text(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}
