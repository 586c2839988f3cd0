import type { Problem } from "./messages.ts";

/** A refusal by the gateway, or the code UNREACHABLE if the gateway did not answer. */
export class RequestError extends Error {
  readonly problem: Problem;

  constructor(problem: Problem, options?: ErrorOptions) {
    super(problem.detail, options);
    this.problem = problem;
  }
}

/** Describes a failed request with its stable code, for people. */
export function describeRefusal(error: unknown): string {
  return error instanceof RequestError ? `${error.problem.code}: ${error.message}` : String(error);
}

const NO_ANSWER = "the gateway does not answer";

export type Asking = {
  readonly method?: "GET" | "POST" | "PUT" | "DELETE";
  readonly body?: unknown;
  readonly csrfToken?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
};

/** Sends a request to the gateway. Throws RequestError. */
export async function ask(
  path: string,
  { method = "GET", body, csrfToken, headers, signal }: Asking = {},
): Promise<Response> {
  let reply: Response;
  try {
    reply = await fetch(path, {
      method,
      credentials: "same-origin",
      headers: {
        ...headers,
        ...(body !== undefined && { "content-type": "application/json" }),
        ...(csrfToken !== undefined && { "x-csrf-token": csrfToken }),
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      ...(signal !== undefined && { signal }),
    });
  } catch (cause) {
    if (signal?.aborted) throw cause;
    throw new RequestError({ status: 0, code: "UNREACHABLE", detail: NO_ANSWER }, { cause });
  }
  if (!reply.ok) throw new RequestError(await problemOf(reply));
  return reply;
}

/** Timeout of a request. The gateway answers earlier, even if its services do not; a long poll waits for a part of this time. */
const ANSWER_MS = 45_000;

/** Returns the answer as JSON, typed as the message that the gateway writes. Throws RequestError. */
export async function askJson<Answer>(path: string, asking: Asking = {}): Promise<Answer> {
  const { signal } = asking;
  const timeout = AbortSignal.timeout(ANSWER_MS);
  try {
    const reply = await ask(path, { ...asking, signal: signal ? AbortSignal.any([signal, timeout]) : timeout });
    return (reply.status === 204 ? undefined : await reply.json()) as Answer;
  } catch (cause) {
    if (!timeout.aborted) throw cause;
    throw new RequestError({ status: 0, code: "UNREACHABLE", detail: NO_ANSWER }, { cause });
  }
}

async function problemOf(reply: Response): Promise<Problem> {
  const fallback = {
    status: reply.status,
    code: `HTTP_${reply.status}`,
    detail: `the gateway answers ${reply.status}`,
  };
  if (!/json/.test(reply.headers.get("content-type") ?? "")) return fallback;
  const problem = (await reply.json().catch(() => undefined)) as Partial<Problem> | undefined;
  return { ...fallback, ...problem };
}
