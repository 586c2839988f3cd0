/** Requests, or units of another resource, that one user may take of one service process: `perSecond` after a burst of `burst`. */
export type RequestRate = { readonly perSecond: number; readonly burst: number };

type RateDecision =
  | { readonly kind: "take"; readonly fullAtMs: number }
  /** `retryAfterMs`: time until the same request is admitted. */
  | { readonly kind: "refuse"; readonly retryAfterMs: number };

/**
 * Decides on a bucket of `burst` tokens that gains `perSecond` tokens per second. Its whole state is `fullAtMs`, the time at which the bucket is full again.
 * Times are monotonic milliseconds; -Infinity is an unused bucket.
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

/** NATS users with their own bucket; all further users share one. A typical installation has ten users. */
export const MAX_USERS = 32;
/** The shared bucket of users without a name, or beyond the limit. */
export const OTHERS = "others";
/** Minimum interval between two reports about one user. */
const REPORT_INTERVAL_MS = 60_000;

export type Refusal = {
  /** Name of the user; `others` for users of the shared bucket. */
  readonly user: string;
  readonly retryAfterMs: number;
  /** How many requests of this user were refused since the last report; undefined while no report is due. */
  readonly reportRefused: number | undefined;
};

type Known = { fullAtMs: number; refused: number; reportedAtMs: number };

/** The buckets of at most `maxUsers` users of one service. A new user replaces a full bucket without a due report. */
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

  /** Takes the tokens of one request of this user; undefined: the request is admitted. */
  take(name: string | undefined, nowMs: number, tokens = 1): Refusal | undefined {
    const user = name !== undefined && this.#hasRoomFor(name, nowMs) ? name : OTHERS;
    const known = this.#known.get(user) ?? { fullAtMs: -Infinity, refused: 0, reportedAtMs: -Infinity };
    this.#known.set(user, known);
    const decision = decideRate(this.#rate, known.fullAtMs, nowMs, tokens);
    if (decision.kind === "take") {
      known.fullAtMs = decision.fullAtMs;
      return undefined;
    }
    const { retryAfterMs } = decision;
    known.refused += 1;
    if (nowMs - known.reportedAtMs < REPORT_INTERVAL_MS) return { user, retryAfterMs, reportRefused: undefined };
    const reportRefused = known.refused;
    known.refused = 0;
    known.reportedAtMs = nowMs;
    return { user, retryAfterMs, reportRefused };
  }

  /** Reverses one `take` of this user, for a request that does not count. */
  restore(name: string): void {
    const known = this.#known.get(this.#known.has(name) ? name : OTHERS);
    if (known !== undefined) known.fullAtMs -= 1000 / this.#rate.perSecond;
  }

  #hasRoomFor(name: string, nowMs: number): boolean {
    if (this.#known.has(name)) return true;
    if (this.#named() < this.#maxUsers) return true;
    for (const [user, { fullAtMs, reportedAtMs }] of this.#known)
      if (user !== OTHERS && fullAtMs <= nowMs && nowMs - reportedAtMs >= REPORT_INTERVAL_MS) {
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
/** Form of the user names in the table of rights; all other names share a bucket. */
const USER = /^[a-z0-9][a-z0-9_-]{0,62}$/i;

/**
 * Whether a reply to this subject is allowed. A responder has more rights than its caller, so the server would accept a publication to any other subject as
 * one of the responder.
 */
export function isInbox(reply: string | undefined): boolean {
  return reply?.startsWith(INBOX) === true;
}

/**
 * The user in the inbox _INBOX.<user>.<connection>.<request>. Undefined for _INBOX.<connection>.<request>, which clients of a server with one token for all
 * use.
 */
export function findInboxUser(reply: string | undefined): string | undefined {
  if (reply === undefined || !isInbox(reply)) return undefined;
  const [, user = "", ...rest] = reply.split(".", 5);
  return rest.length >= 2 && USER.test(user) ? user : undefined;
}
