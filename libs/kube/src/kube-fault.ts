import { faultOf, type Fault } from "@muster/faults";
import { field, retryAfterMs } from "./kube-error.ts";

/** How long to wait when the server or the network did not say. */
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
 * The fault behind an error of client-node, by status code and never by text; undefined when it is not one of the API server's or the network's.
 * A version or token that is too old (410) is a conflict: read again. A refusal for lack of permission (403) is an invalid request, because the same request
 * cannot help; credentials that are not accepted (401) are not, because they are renewed without us, but the fault says that it is they.
 */
export function kubeFault(error: unknown): Fault | undefined {
  const known = faultOf(error);
  if (known !== undefined) return known;
  if (!(error instanceof Error)) return undefined;
  const code = field(error, "code");
  if (typeof code === "number" && code >= 400 && code <= 599) return statusFault(code, error);
  return networkFault(error) ?? (error.cause === undefined ? undefined : kubeFault(error.cause));
}

function statusFault(code: number, error: Error): Fault {
  const body = parseBody(field(error, "body"));
  const details = field(body, "details");
  const kind = text(field(details, "kind")) ?? "object";
  const id = text(field(details, "name")) ?? "";
  switch (code) {
    case 404:
      return { code: "not_found", kind, id };
    case 409:
      if (field(body, "reason") === "AlreadyExists") return { code: "already_exists", kind, id };
      return { code: "conflict", id: `${kind} ${id}`.trim(), expectedRevision: 0, actualRevision: 0 };
    case 410:
      return { code: "conflict", id: "resource version", expectedRevision: 0, actualRevision: 0 };
    case 401:
      return { code: "unavailable", dependency: UNAUTHENTICATED, retryAfterMs: RETRY_AFTER_MS };
    case 408:
    case 429:
      return unavailable(retryAfterMs({ headers: field(error, "headers"), body }));
    default:
      if (code >= 500) return unavailable(retryAfterMs({ headers: field(error, "headers"), body }));
      return { code: "invalid_request", field: wrongField(code, details), reason: reasonText(code, body) };
  }
}

function networkFault(error: Error): Fault | undefined {
  if (error.name === "TimeoutError") return unavailable(undefined);
  if (error.name === "AbortError") {
    // A signal's reason is the cause of what node:http throws.
    if (error.cause instanceof Error && error.cause.name === "TimeoutError") return unavailable(undefined);
    return { code: "cancelled", operation: "request to the API server" };
  }
  const code = field(error, "code");
  if (typeof code !== "string") return undefined;
  return NETWORK_CODES.has(code) || code.startsWith("UND_ERR_") ? unavailable(undefined) : undefined;
}

function unavailable(afterMs: number | undefined): Fault {
  return { code: "unavailable", dependency: "kubernetes", retryAfterMs: afterMs ?? RETRY_AFTER_MS };
}

function wrongField(code: number, details: unknown): string {
  if (code === 403) return "permission";
  const causes = field(details, "causes");
  const first: unknown = Array.isArray(causes) ? causes[0] : undefined;
  return text(field(first, "field")) ?? "request";
}

function reasonText(code: number, body: unknown): string {
  return text(field(body, "message")) ?? `refused with status ${code}`;
}

/** What the API server says of a failure, by its first cause where it names one, such as the disruption budget that forbids an eviction. Undefined: no message. */
export function statusMessage(error: unknown): string | undefined {
  const body = parseBody(field(error, "body"));
  const causes = field(field(body, "details"), "causes");
  const first: unknown = Array.isArray(causes) ? causes[0] : undefined;
  const said = text(field(first, "message")) ?? text(field(body, "message"));
  return said ?? (error instanceof Error && error.cause !== undefined ? statusMessage(error.cause) : undefined);
}

/** client-node hands the body on as text where it has no type for the status. */
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
