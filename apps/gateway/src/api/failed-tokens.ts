import { createHash } from "node:crypto";
import { RequestRates, type Refusal, type RequestRate } from "@muster/bus";

/** Addresses with a limit of their own; beyond, they share one. */
const MAX_ADDRESSES = 10_000;
const MAX_TOKENS = 10_000;

/** Limits unknown tokens by address: each costs the cluster, or the issuer, a question. */
export type FailedTokens = {
  /** Undefined: the token may be reviewed. An accepted token always may: other clients behind the same address lock no user out. */
  refusal(address: string, token: string): Refusal | undefined;
  /** Counts an unknown token, and remembers a known one. */
  record(address: string, token: string, isKnown: boolean): void;
};

/** `nowMs` is a monotonic clock. */
export function failedTokens(rate: RequestRate, nowMs: () => number): FailedTokens {
  const rates = new RequestRates(rate, MAX_ADDRESSES);
  // Digests, in the order of their last use. No token is kept.
  const accepted = new Set<string>();
  return {
    refusal: (address, token) => {
      if (accepted.has(digestOf(token)) || !rates.isExhausted(address, nowMs())) return undefined;
      return rates.take(address, nowMs());
    },
    record: (address, token, isKnown) => {
      const digest = digestOf(token);
      accepted.delete(digest);
      if (!isKnown) {
        rates.take(address, nowMs());
        return;
      }
      const oldest = accepted.size >= MAX_TOKENS ? accepted.values().next().value : undefined;
      if (oldest !== undefined) accepted.delete(oldest);
      accepted.add(digest);
    },
  };
}

function digestOf(token: string): string {
  return createHash("sha256").update(token).digest("base64");
}
