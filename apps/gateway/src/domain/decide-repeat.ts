/** The answer to a request as the client receives it. With a status of 400 or more, the body is a problem document. */
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
  /** The service may have received the request. A repetition with this id creates no second object. */
  | { readonly kind: "unanswered"; readonly requestId: string };

/** Decides about a request whose key is known. */
export function decideRepeat({ digest, requestId, answer }: KeptRequest, repeatedDigest: string): Repeat {
  if (digest !== repeatedDigest) return { kind: "differs" };
  return answer === undefined ? { kind: "unanswered", requestId } : { kind: "answered", answer };
}

/** Returns whether a repetition must get this answer. Answers to outages, temporary limits and invalid requests are not kept. */
export function isFinal({
  status,
  retryAfterMs,
}: {
  readonly status: number;
  readonly retryAfterMs?: number;
}): boolean {
  return status !== 400 && status < 500 && retryAfterMs === undefined;
}
