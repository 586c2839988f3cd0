import { faultOf, isRetryable, type Fault, formatDuration } from "@muster/faults";
import { CommandError } from "../command-error.ts";
import { EXIT } from "../domain/decide-exit.ts";
import { describeTrouble } from "../domain/describe-trouble.ts";
import { formatElapsed } from "../domain/duration.ts";
import { isAborted } from "../is-aborted.ts";

/** Nobody waits longer than this for somebody who does not answer; what runs goes on without us. */
export const LOST_MAX_MS = 120_000;
const BACKOFF = { firstMs: 250, maxMs: 5000 };

export type ContactDeps = {
  /** Who is asked, for people. */
  readonly address: string;
  /** What to try once all patience is over, as things are then. */
  readonly hint: () => string;
  readonly now: () => number;
  readonly pause: (delayMs: number, signal: AbortSignal) => Promise<void>;
  readonly say: (lines: readonly string[]) => void;
};

/** Asks the same services again and again for a long time, and tells when they are lost and when they are back: once each, however many questions are open. */
export type Contact = {
  /**
   * The answer, asked for again while the services are away; undefined when the signal is aborted before. Rejects with a final fault at once, and with
   * CommandError when nobody has answered for LOST_MAX_MS. `who` tells the questions apart: one at a time for each.
   */
  ask<Answer>(who: string, question: () => Promise<Answer>, signal: AbortSignal): Promise<Answer | undefined>;
  /** The connection itself was lost, or is back. */
  link(state: "lost" | "back"): void;
};

const LINK = "link";

export function contact(deps: ContactDeps): Contact {
  const lostSinceMs = new Map<string, number>();
  const lose = (who: string, why: string): void => {
    if (lostSinceMs.has(who)) return;
    if (lostSinceMs.size === 0)
      deps.say([`lost contact with ${deps.address}${why}; trying again for ${formatDuration(LOST_MAX_MS)}`]);
    lostSinceMs.set(who, deps.now());
  };
  const regain = (who: string): void => {
    const sinceMs = Math.min(...lostSinceMs.values());
    if (!lostSinceMs.delete(who) || lostSinceMs.size > 0) return;
    deps.say([`in contact again with ${deps.address} after ${formatElapsed(deps.now() - sinceMs)}`]);
  };
  const giveUp = (fault: Fault, cause: unknown): never => {
    const message = `no contact with ${deps.address} for ${formatDuration(LOST_MAX_MS)}: ${describeTrouble(fault)}`;
    throw new CommandError(EXIT.unreachable, message, { hint: deps.hint(), cause });
  };
  return {
    link: (state) => {
      if (state === "lost") lose(LINK, "");
      else regain(LINK);
    },
    ask: async (who, question, signal) => {
      for (let failures = 0; !isAborted(signal); failures++) {
        try {
          const answer = await question();
          regain(who);
          return answer;
        } catch (error) {
          const fault = faultOf(error);
          if (isAborted(signal)) break;
          if (fault === undefined || !isRetryable(fault)) throw error;
          lose(who, `: ${describeTrouble(fault)}`);
          if (deps.now() - (lostSinceMs.get(who) ?? deps.now()) > LOST_MAX_MS) giveUp(fault, error);
          await deps.pause(Math.min(BACKOFF.maxMs, BACKOFF.firstMs * 2 ** Math.min(failures, 10)), signal);
        }
      }
      return undefined;
    },
  };
}
