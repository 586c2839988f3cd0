import { createHash } from "node:crypto";
import { RequestRates, type Refusal, type RequestRate } from "@muster/bus";

/** Maximum addresses with a separate rate; further addresses share one rate. */
const MAX_ADDRESSES = 10_000;
const MAX_TOKENS = 10_000;

type Reviewed<User> =
  | { readonly user: User | undefined; readonly refusal?: undefined }
  | { readonly user?: undefined; readonly refusal: Refusal };

/** Limits unknown tokens by address, because each costs the cluster a review. */
export type FailedTokens<User> = {
  /**
   * Reviews a token unless its address has sent too many unknown tokens. A previously accepted token is always reviewed, so that other clients with the same
   * address cannot lock a user out. Concurrent requests with one token share its review.
   */
  review(address: string, token: string, ask: () => Promise<User | undefined>): Promise<Reviewed<User>>;
};

/** Creates the limiter. `nowMs` is a monotonic clock. */
export function failedTokens<User>(rate: RequestRate, nowMs: () => number): FailedTokens<User> {
  const rates = new RequestRates(rate, MAX_ADDRESSES);
  // Digests of accepted tokens, sorted by their last use. No token is stored.
  const accepted = new Set<string>();
  // The map is limited by the burst of each address.
  const inFlight = new Map<string, Promise<Reviewed<User>>>();
  const accept = (digest: string): void => {
    accepted.delete(digest);
    const oldest = accepted.size >= MAX_TOKENS ? accepted.values().next().value : undefined;
    if (oldest !== undefined) accepted.delete(oldest);
    accepted.add(digest);
  };
  const reviewOnce = async (
    address: string,
    digest: string,
    ask: () => Promise<User | undefined>,
  ): Promise<Reviewed<User>> => {
    const wasAccepted = accepted.has(digest);
    // Count the request before the review, because other requests may arrive during the review.
    const refusal = wasAccepted ? undefined : rates.take(address, nowMs());
    if (refusal !== undefined) return { refusal };
    let isUnknown = false;
    try {
      const user = await ask();
      isUnknown = user === undefined;
      if (!isUnknown) accept(digest);
      return { user };
    } finally {
      if (isUnknown && wasAccepted) rates.take(address, nowMs());
      if (isUnknown) accepted.delete(digest);
      else if (!wasAccepted) rates.restore(address);
    }
  };
  return {
    review: (address, token, ask) => {
      const digest = createHash("sha256").update(token).digest("base64");
      const known = inFlight.get(digest);
      if (known !== undefined) return known;
      const reviewed = reviewOnce(address, digest, ask).finally(() => inFlight.delete(digest));
      inFlight.set(digest, reviewed);
      return reviewed;
    },
  };
}
