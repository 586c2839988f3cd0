import { makeLeaseCalls } from "../adapters/lease-calls.ts";
import type { Cli, ConnectedCli } from "../cli.ts";
import { CommandError } from "../command-error.ts";
import { describeState, describeCause } from "../domain/build-lease-views.ts";
import { escapeControls } from "../domain/build-table.ts";
import { EXIT, type ExitCode } from "../domain/decide-exit.ts";
import { describeTimeoutOf, type WaitGoal } from "../domain/decide-wait.ts";
import { decideLeaseCondition } from "../domain/lease.ts";
import type { Lease } from "../adapters/lease-messages.ts";
import { LEASE_NOUN } from "../domain/lease-document.ts";
import { followGoal } from "./follow.ts";

/** An engine deletes the record of a lease only after its end. */
const LEASES = {
  decide: (lease: Lease, goal: WaitGoal) => decideLeaseCondition(lease, goal),
  next: ({ link }: ConnectedCli, { order }: Lease) => makeLeaseCalls(link).get(order.id),
};

type Options = {
  readonly goal: WaitGoal;
  readonly timeoutMs: number | undefined;
  /** True if the caller prints the first state and the last one. */
  readonly printsEnds?: boolean;
};

/**
 * Prints the states of a lease until it meets the goal. Ctrl-C does not end the lease. Throws CommandError if the lease cannot meet the goal, or on timeout.
 */
export async function followLease(
  cli: Cli,
  connected: ConnectedCli,
  start: Lease,
  { goal, timeoutMs, printsEnds = false }: Options,
): Promise<{ readonly last: Lease; readonly code: ExitCode }> {
  const { id } = start.order;
  const history = `\`muster lease history ${id}\` shows what happened to it`;
  const { last, verdict } = await followGoal(cli, connected, LEASES, start, {
    ...{ goal, timeoutMs },
    line: (lease) => {
      const why = describeCause(lease);
      const isEnd = lease === start ? why === "" : decideLeaseCondition(lease, goal) !== "open";
      if (printsEnds && isEnd) return undefined;
      return `${LEASE_NOUN}/${id} ${lease.phase}${why === "" ? "" : `: ${escapeControls(why)}`}`;
    },
    left: () => `lease ${id} continues; \`muster lease get ${id}\` shows its state, \`muster lease end ${id}\` ends it`,
  });
  if (verdict === "met") return { last, code: EXIT.ok };
  if (verdict === "interrupted") return { last, code: EXIT.interrupted };
  if (verdict !== "open") throw new CommandError(EXIT.failed, describeState(last), { hint: history });
  throw new CommandError(EXIT.failed, describeTimeoutOf(timeoutMs, describeState(last)), {
    hint: `it continues; ${history}`,
  });
}
