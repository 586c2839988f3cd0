import { leaseCalls } from "../adapters/lease-calls.ts";
import type { Cli, Connected } from "../cli.ts";
import { CommandError } from "../command-error.ts";
import { describeState, whyOf } from "../domain/build-lease-views.ts";
import { plain } from "../domain/build-table.ts";
import { EXIT, type ExitCode } from "../domain/decide-exit.ts";
import { describeTimeoutOf, type Goal } from "../domain/decide-wait.ts";
import { decideLeaseCondition } from "../domain/lease.ts";
import type { Lease } from "../adapters/lease-messages.ts";
import { LEASE_NOUN } from "../domain/lease-document.ts";
import { followWithLines } from "./follow.ts";

type Options = {
  readonly goal: Goal;
  readonly timeoutMs: number | undefined;
  /** The caller prints the first state and the last one. */
  readonly printsEnds?: boolean;
};

/**
 * Prints the states of a lease until it meets the goal. Ctrl-C leaves it running. Throws CommandError when it cannot meet the goal, or when that takes too
 * long.
 */
export async function followLease(
  cli: Cli,
  connected: Connected,
  start: Lease,
  { goal, timeoutMs, printsEnds = false }: Options,
): Promise<{ readonly last: Lease; readonly code: ExitCode }> {
  const { id } = start.order;
  const history = `\`muster lease history ${id}\` shows what happened to it`;
  const { last, end } = await followWithLines(cli, connected, {
    start,
    next: () => leaseCalls(connected.link).get(id),
    isEnough: (lease) => decideLeaseCondition(lease, goal) !== "open",
    line: (lease) => {
      const why = whyOf(lease);
      const isEnd = lease === start ? why === "" : decideLeaseCondition(lease, goal) !== "open";
      if (printsEnds && isEnd) return undefined;
      return `${LEASE_NOUN}/${id} ${lease.phase}${why === "" ? "" : `: ${plain(why)}`}`;
    },
    timeoutMs,
    left: () => `lease ${id} continues; \`muster lease get ${id}\` says how it is, \`muster lease end ${id}\` ends it`,
    timedOut: (lease) =>
      new CommandError(EXIT.failed, describeTimeoutOf(timeoutMs, describeState(lease)), {
        hint: `it continues; ${history}`,
      }),
  });
  if (end === "interrupted") return { last, code: EXIT.interrupted };
  // An engine deletes the record of a lease only after its end.
  const isMet = (end === "gone" && goal.kind === "delete") || decideLeaseCondition(last, goal) === "met";
  if (isMet) return { last, code: EXIT.ok };
  throw new CommandError(EXIT.failed, describeState(last), { hint: history });
}
