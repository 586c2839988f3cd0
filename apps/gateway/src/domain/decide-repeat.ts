/** The answer of a request, as the client receives it. A status of 400 or more is a problem document. */
export type KeptAnswer = { readonly status: number; readonly body: string };

/** A request with a key, as the bucket stores it. */
export type KeptRequest = {
  /** The digest of the whole request. */
  readonly digest: string;
  /** The id by which its service recognizes a repeated request. */
  readonly requestId: string;
  /** Undefined until a gateway has the answer. */
  readonly answer?: KeptAnswer | undefined;
};

export type Repeat =
  | { readonly kind: "differs" }
  | { readonly kind: "answered"; readonly answer: KeptAnswer }
  /** The service may have received the request; repeated with the same id, it creates nothing twice. */
  | { readonly kind: "unanswered"; readonly requestId: string };

/** Decides about a request whose key is known. */
export function decideRepeat({ digest, requestId, answer }: KeptRequest, repeatedDigest: string): Repeat {
  if (digest !== repeatedDigest) return { kind: "differs" };
  return answer === undefined ? { kind: "unanswered", requestId } : { kind: "answered", answer };
}

/** Whether a repetition must get the same answer. A key must not keep an outage or a temporary limit, and an invalid request takes no space. */
export function isFinal({
  status,
  retryAfterMs,
}: {
  readonly status: number;
  readonly retryAfterMs?: number;
}): boolean {
  return status !== 400 && status < 500 && retryAfterMs === undefined;
}
