/** The `Status` object with which the API server explains a failure; every field may be missing. */
export type KubeStatus = {
  readonly code?: number;
  readonly reason?: string;
  readonly message?: string;
  readonly details?: {
    readonly kind?: string;
    readonly name?: string;
    readonly retryAfterSeconds?: number;
    readonly causes?: readonly { readonly field?: string; readonly message?: string; readonly reason?: string }[];
  };
};

/** A refusal by the API server. Has the fields of client-node's ApiException (`code`, `body`, `headers`), so that `toKubeFault` reads both. */
export class KubeError extends Error {
  readonly code: number;
  readonly body: KubeStatus;
  readonly headers: Readonly<Record<string, string>>;

  constructor(doing: string, code: number, body: KubeStatus, headers: Readonly<Record<string, string>> = {}) {
    super(`${doing}: ${code} ${body.reason ?? ""} ${body.message ?? ""}`.trimEnd());
    this.name = "KubeError";
    this.code = code;
    this.body = body;
    this.headers = headers;
  }
}

/** Bytes that are not a watch event, or an answer that is not a list. The answer may be incomplete, so the reader lists again. */
export class MalformedAnswerError extends Error {
  override readonly name = "MalformedAnswerError";
}

/** True if the resource version or the continue token is too old for the server. */
export function isGone(error: unknown): boolean {
  return error instanceof KubeError && error.code === 410;
}

/** The pause that the server requests, in milliseconds; undefined if it requests none. */
export function retryAfterMs(error: { readonly headers?: unknown; readonly body?: unknown }): number | undefined {
  const header = getField(error.headers, "retry-after");
  const seconds = Number(header ?? getField(getField(error.body, "details"), "retryAfterSeconds") ?? Number.NaN);
  return Number.isFinite(seconds) && seconds >= 0 ? seconds * 1000 : undefined;
}

/** One field of a value that may be an object. */
export function getField(value: unknown, name: string): unknown {
  if (typeof value !== "object" || value === null) return undefined;
  return Object.entries(value).find(([key]) => key === name)?.[1];
}
