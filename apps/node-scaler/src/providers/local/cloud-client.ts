import { findFault, throwFault } from "@muster/faults";
import type { z } from "zod";
import { shapes } from "./machine-shapes.ts";

type CloudAddress = {
  /** The provider's block in the file of pools, for errors. */
  readonly name: string;
  readonly url: string;
  readonly token: string;
  /** The timeout of one call. */
  readonly timeoutMs: number;
};

type CloudRequest = {
  /** A text for errors: `starting elastic-1`. */
  readonly doing: string;
  readonly method: "GET" | "POST" | "DELETE";
  /** The path below `/v1/`. */
  readonly path: string;
  readonly body?: unknown;
};

/** An unsuccessful answer that the caller may handle. */
export type CloudRefusal = {
  readonly kind: "refused";
  readonly code: string;
  readonly message: string;
  readonly zone: string | undefined;
};

const RETRY_AFTER_MS = 1_000;
const MAX_RETRY_AFTER_MS = 10 * 60_000;

/**
 * Sends one request. Throws `unavailable` (429, 5xx, or no connection), `deadline_exceeded`, `internal` for a malformed answer, and the signal's reason after
 * an abort. After any of these the request may have taken effect.
 */
export async function callCloud<Shape extends z.ZodType>(
  cloud: CloudAddress,
  request: CloudRequest,
  shape: Shape,
  signal: AbortSignal,
): Promise<{ readonly kind: "answered"; readonly body: z.infer<Shape> } | CloudRefusal> {
  const { doing } = request;
  try {
    const limit = AbortSignal.timeout(cloud.timeoutMs);
    const response = await fetch(`${cloud.url.replace(/\/$/, "")}/v1/${request.path}`, {
      method: request.method,
      headers: { authorization: `Bearer ${cloud.token}`, "content-type": "application/json" },
      signal: AbortSignal.any([signal, limit]),
      redirect: "error",
      ...(request.body === undefined ? {} : { body: JSON.stringify(request.body) }),
    });
    const text = await response.text();
    if (response.ok) return { kind: "answered", body: shape.parse(JSON.parse(text)) };
    return readRefusal(cloud, response, text);
  } catch (error) {
    signal.throwIfAborted();
    return throwFault(findFault(error) ?? cloudFault(error, cloud, doing), { cause: error, doing });
  }
}

function readRefusal({ name }: CloudAddress, response: Response, text: string): CloudRefusal {
  const retryAfterMs = retryAfter(response.headers.get("retry-after"));
  if (response.status === 429) {
    throwFault({ code: "unavailable", dependency: `provider ${name} (asked too often)`, retryAfterMs });
  }
  if (response.status >= 500) {
    throwFault({ code: "unavailable", dependency: `provider ${name} (${response.status})`, retryAfterMs });
  }
  if (response.status === 401) {
    throwFault({
      code: "invalid_request",
      field: `providers.${name}.tokenFile`,
      reason: "the cloud does not accept the token",
    });
  }
  const { error } = shapes.refusal.parse(JSON.parse(text));
  return { kind: "refused", code: error.code, message: error.message, zone: error.zone };
}

function cloudFault(
  error: unknown,
  { name, timeoutMs }: CloudAddress,
  doing: string,
): Parameters<typeof throwFault>[0] {
  if (error instanceof DOMException && error.name === "TimeoutError") {
    return { code: "deadline_exceeded", operation: doing, timeoutMs };
  }
  // fetch reports all connection failures by this class.
  if (error instanceof TypeError) {
    return { code: "unavailable", dependency: `provider ${name}`, retryAfterMs: RETRY_AFTER_MS };
  }
  return { code: "internal", operation: `${doing}: the answer of the provider ${name} cannot be read` };
}

/** Reads the seconds of a Retry-After header; any other value counts as one second. */
function retryAfter(header: string | null): number {
  const ms = Number(header ?? Number.NaN) * 1_000;
  return ms > 0 ? Math.min(ms, MAX_RETRY_AFTER_MS) : RETRY_AFTER_MS;
}
