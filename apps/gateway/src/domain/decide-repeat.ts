/** The answer of a request, as the client has it. A status of 400 or more is a problem document. */
export type KeptAnswer = { readonly status: number; readonly body: string };

/** A request with a key, as the bucket has it. */
export type KeptRequest = {
  /** The digest of everything that the request states. */
  readonly digest: string;
  /** By which its service knows a repeated request. */
  readonly requestId: string;
  /** Undefined: no gateway has had an answer yet. */
  readonly answer?: KeptAnswer | undefined;
};

export type Repeat =
  | { readonly kind: "differs" }
  | { readonly kind: "answered"; readonly answer: KeptAnswer }
  /** The service may have received it: asked again with the same id, it makes nothing twice. */
  | { readonly kind: "unanswered"; readonly requestId: string };

/** Decides about a request whose key is known. */
export function decideRepeat({ digest, requestId, answer }: KeptRequest, repeatedDigest: string): Repeat {
  if (digest !== repeatedDigest) return { kind: "differs" };
  return answer === undefined ? { kind: "unanswered", requestId } : { kind: "answered", answer };
}

/** Whether a repetition must get the same answer. An outage or a limit that passes must not stick to a key, and an invalid request takes no room. */
export function isFinal({
  status,
  retryAfterMs,
}: {
  readonly status: number;
  readonly retryAfterMs?: number;
}): boolean {
  return status !== 400 && status < 500 && retryAfterMs === undefined;
}
