import { type Fault, findFault, formatDuration, formatElapsed, isRetryable } from "@muster/faults";
import type { Cli, ConnectedCli } from "../cli.ts";
import { CommandError } from "../command-error.ts";
import { EXIT } from "../domain/decide-exit.ts";
import { describeTrouble } from "../domain/describe-trouble.ts";
import { isAborted } from "../is-aborted.ts";

/** Time for which the command retries a service; the work itself continues during the retries. */
export const MAX_LOST_MS = 120_000;
const BACKOFF = { firstMs: 250, maxMs: 5000 };

export type ContactDeps = {
  /** The address of the server, for people. */
  readonly address: string;
  /** Returns the remedy to print after the last retry; called only then, because it depends on the current state. */
  readonly hint: () => string;
  readonly now: () => number;
  readonly pause: (delayMs: number, signal: AbortSignal) => Promise<void>;
  readonly print: (lines: readonly string[]) => void;
};

/** Retries calls while the services are away. Reports their loss and their return once each, for any number of open calls. */
export type ServiceContact = {
  /**
   * Returns the answer, and retries while the services do not answer; undefined if the signal is aborted first. Rejects immediately with a final fault, and
   * with CommandError after MAX_LOST_MS without an answer. `who` identifies a caller, which makes one call at a time.
   */
  ask<Answer>(who: string, question: () => Promise<Answer>, signal: AbortSignal): Promise<Answer | undefined>;
  /** Records that the connection itself was lost, or is restored. */
  link(state: "lost" | "back"): void;
};

const LINK = "link";

export function makeServiceContact(deps: ContactDeps): ServiceContact {
  const lostSinceMs = new Map<string, number>();
  const lose = (who: string, why: string): void => {
    if (lostSinceMs.has(who)) return;
    if (lostSinceMs.size === 0)
      deps.print([`lost contact with ${deps.address}${why}; trying again for ${formatDuration(MAX_LOST_MS)}`]);
    lostSinceMs.set(who, deps.now());
  };
  const regain = (who: string): void => {
    const sinceMs = Math.min(...lostSinceMs.values());
    if (!lostSinceMs.delete(who) || lostSinceMs.size > 0) return;
    deps.print([`in contact again with ${deps.address} after ${formatElapsed(deps.now() - sinceMs)}`]);
  };
  const giveUp = (fault: Fault, cause: unknown): never => {
    const message = `no contact with ${deps.address} for ${formatDuration(MAX_LOST_MS)}: ${describeTrouble(fault)}`;
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
          const fault = findFault(error);
          if (isAborted(signal)) break;
          if (fault === undefined || !isRetryable(fault)) throw error;
          lose(who, `: ${describeTrouble(fault)}`);
          if (deps.now() - (lostSinceMs.get(who) ?? deps.now()) > MAX_LOST_MS) giveUp(fault, error);
          await deps.pause(Math.min(BACKOFF.maxMs, BACKOFF.firstMs * 2 ** Math.min(failures, 10)), signal);
        }
      }
      return undefined;
    },
  };
}

/** Keeps contact with the services over this connection, and reports changes to `print`, by default on standard error. */
export function keepContact(cli: Cli, connected: ConnectedCli, print = cli.io.err): ServiceContact & Disposable {
  const { now, pause } = cli;
  const { address, hint } = connected;
  const kept = makeServiceContact({ address, hint, now, pause, print });
  const listening = connected.onLink((state) => {
    kept.link(state);
  });
  return { ...kept, [Symbol.dispose]: () => listening[Symbol.dispose]() };
}
