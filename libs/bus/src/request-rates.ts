/** How many requests, or units of something else, one user may take of one service, in one process of it: `perSecond` after a burst of `burst`. */
export type RequestRate = { readonly perSecond: number; readonly burst: number };

type RateDecision =
  | { readonly kind: "take"; readonly fullAtMs: number }
  /** `retryAfterMs`: then the same request has room. */
  | { readonly kind: "refuse"; readonly retryAfterMs: number };

/**
 * A bucket of `burst` tokens that gains `perSecond`, as one number: `fullAtMs`, when it is full again. Times are monotonic milliseconds; -Infinity is an
 * unused bucket.
 */
export function decideRate(
  { perSecond, burst }: RequestRate,
  fullAtMs: number,
  nowMs: number,
  tokens = 1,
): RateDecision {
  const tokenMs = 1000 / perSecond;
  const takenUntilMs = Math.max(nowMs, fullAtMs) + tokens * tokenMs;
  const missingMs = takenUntilMs - nowMs - burst * tokenMs;
  // Sums of fractions are inexact; a nearly complete token counts.
  if (missingMs <= tokenMs / 1000) return { kind: "take", fullAtMs: takenUntilMs };
  return { kind: "refuse", retryAfterMs: Math.ceil(missingMs) };
}

/** Users of NATS with their own bucket. An installation has ten; all beyond share one. */
export const MAX_USERS = 32;
/** Users without a name, or beyond the limit. */
export const OTHERS = "others";
/** A user is reported at most this often. */
const SAY_EVERY_MS = 60_000;

export type Refusal = {
  /** `others` for those without their own bucket. */
  readonly user: string;
  readonly retryAfterMs: number;
  /** How many requests of this user were refused since the last report; undefined while no report is due. */
  readonly reportRefused: number | undefined;
};

type Known = { fullAtMs: number; refused: number; saidAtMs: number };

/** The buckets of one service's users, `maxUsers` at most. A full one without a due report makes room for a new user. */
export class RequestRates {
  readonly #rate: RequestRate;
  readonly #known = new Map<string, Known>();

  readonly #maxUsers: number;

  constructor(rate: RequestRate, maxUsers = MAX_USERS) {
    this.#rate = rate;
    this.#maxUsers = maxUsers;
  }

  /** Number of buckets, the shared one included. */
  get size(): number {
    return this.#known.size;
  }

  /** Takes one request of this user, or a request that counts as several; undefined: it may be answered. */
  take(name: string | undefined, nowMs: number, tokens = 1): Refusal | undefined {
    const user = name !== undefined && this.#hasRoomFor(name, nowMs) ? name : OTHERS;
    const known = this.#known.get(user) ?? { fullAtMs: -Infinity, refused: 0, saidAtMs: -Infinity };
    this.#known.set(user, known);
    const decision = decideRate(this.#rate, known.fullAtMs, nowMs, tokens);
    if (decision.kind === "take") {
      known.fullAtMs = decision.fullAtMs;
      return undefined;
    }
    const { retryAfterMs } = decision;
    known.refused += 1;
    if (nowMs - known.saidAtMs < SAY_EVERY_MS) return { user, retryAfterMs, reportRefused: undefined };
    const reportRefused = known.refused;
    known.refused = 0;
    known.saidAtMs = nowMs;
    return { user, retryAfterMs, reportRefused };
  }

  /** Reverses one `take` of this user: its request does not count. */
  restore(name: string): void {
    const known = this.#known.get(this.#known.has(name) ? name : OTHERS);
    if (known !== undefined) known.fullAtMs -= 1000 / this.#rate.perSecond;
  }

  #hasRoomFor(name: string, nowMs: number): boolean {
    if (this.#known.has(name)) return true;
    if (this.#named() < this.#maxUsers) return true;
    for (const [user, { fullAtMs, saidAtMs }] of this.#known)
      if (user !== OTHERS && fullAtMs <= nowMs && nowMs - saidAtMs >= SAY_EVERY_MS) {
        this.#known.delete(user);
        return true;
      }
    return false;
  }

  #named(): number {
    return this.#known.size - (this.#known.has(OTHERS) ? 1 : 0);
  }
}

const INBOX = "_INBOX.";
/** Names of users in the table of rights; other names share a bucket. */
const USER = /^[a-z0-9][a-z0-9_-]{0,62}$/i;

/**
 * Whether a reply to this subject is allowed. A responder has more rights than its caller, so the server would accept a publication to any other subject as
 * one of the responder.
 */
export function isInbox(reply: string | undefined): boolean {
  return reply?.startsWith(INBOX) === true;
}

/**
 * Whose inbox it is: _INBOX.<user>.<connection>.<request>. Undefined for one without a user, as a server with one token for all has them:
 * _INBOX.<connection>.<request>.
 */
export function userOfInbox(reply: string | undefined): string | undefined {
  if (reply === undefined || !isInbox(reply)) return undefined;
  const [, user = "", ...rest] = reply.split(".", 5);
  return rest.length >= 2 && USER.test(user) ? user : undefined;
}
