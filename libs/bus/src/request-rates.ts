/** How many requests one user may make of one service, in one process of it: so many a second, after `burst` at once. */
export type RequestRate = { readonly perSecond: number; readonly burst: number };

export type RateDecision =
  | { readonly do: "take"; readonly fullAtMs: number }
  /** `retryAfterMs`: then there is room for one. */
  | { readonly do: "refuse"; readonly retryAfterMs: number };

/**
 * A bucket of `burst` tokens to which `perSecond` come back, as one number: `fullAtMs`, when it is full again. Times are monotonic milliseconds; -Infinity is a bucket of which
 * nothing was ever taken.
 */
export function decideRate({ perSecond, burst }: RequestRate, fullAtMs: number, nowMs: number): RateDecision {
  const tokenMs = 1000 / perSecond;
  const takenUntilMs = Math.max(nowMs, fullAtMs) + tokenMs;
  const missingMs = takenUntilMs - nowMs - burst * tokenMs;
  // Sums of fractions are a little off; a token that is as good as there is there.
  if (missingMs <= tokenMs / 1000) return { do: "take", fullAtMs: takenUntilMs };
  return { do: "refuse", retryAfterMs: Math.ceil(missingMs) };
}

/** Users that are told apart. An installation has nine; all beyond share one bucket. */
export const USERS_MAX = 32;
/** Whoever has no name, or one too many. */
export const OTHERS = "others";
/** One line of the log says it of a user for so long. */
const SAY_EVERY_MS = 60_000;

export type Refusal = {
  /** `others` for those who are not told apart. */
  readonly user: string;
  readonly retryAfterMs: number;
  /** How many of this user's were refused since it was last to be said; undefined while it need not be said again. */
  readonly sayRefused: number | undefined;
};

type Known = { fullAtMs: number; refused: number; saidAtMs: number };

/** What the users of one service have taken of their rates. Remembers USERS_MAX of them; one that may have his whole burst again, and of whom nothing is to be said, is forgotten for a new one. */
export class RequestRates {
  readonly #rate: RequestRate;
  readonly #known = new Map<string, Known>();

  constructor(rate: RequestRate) {
    this.#rate = rate;
  }

  /** How many users are told apart now, the others counted as one. */
  get size(): number {
    return this.#known.size;
  }

  /** Takes one request of this user; undefined: it may be answered. */
  take(name: string | undefined, nowMs: number): Refusal | undefined {
    const user = name !== undefined && this.#hasRoomFor(name, nowMs) ? name : OTHERS;
    const known = this.#known.get(user) ?? { fullAtMs: -Infinity, refused: 0, saidAtMs: -Infinity };
    this.#known.set(user, known);
    const decision = decideRate(this.#rate, known.fullAtMs, nowMs);
    if (decision.do === "take") {
      known.fullAtMs = decision.fullAtMs;
      return undefined;
    }
    const { retryAfterMs } = decision;
    known.refused += 1;
    if (nowMs - known.saidAtMs < SAY_EVERY_MS) return { user, retryAfterMs, sayRefused: undefined };
    const sayRefused = known.refused;
    known.refused = 0;
    known.saidAtMs = nowMs;
    return { user, retryAfterMs, sayRefused };
  }

  #hasRoomFor(name: string, nowMs: number): boolean {
    if (this.#known.has(name)) return true;
    if (this.#named() < USERS_MAX) return true;
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
/** Of users, as the table of rights has them; longer ones, and stranger ones, are nobody's. */
const USER = /^[a-z0-9][a-z0-9_-]{0,62}$/i;

/** Whether answers may go there. Whoever answers has more rights than who asks: what he sent to another subject, the server would take as his own word. */
export function isInbox(reply: string | undefined): boolean {
  return reply?.startsWith(INBOX) === true;
}

/** Whose inbox it is: _INBOX.<user>.<connection>.<request>. Undefined for one without a user, as a server with one token for all has them: _INBOX.<connection>.<request>. */
export function userOfInbox(reply: string | undefined): string | undefined {
  if (reply === undefined || !isInbox(reply)) return undefined;
  const [, user = "", ...rest] = reply.split(".", 5);
  return rest.length >= 2 && USER.test(user) ? user : undefined;
}
