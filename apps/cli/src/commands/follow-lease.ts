import { formatDuration } from "@muster/faults";
import { leaseCalls } from "../adapters/lease-calls.ts";
import type { Cli, Connected } from "../cli.ts";
import { CommandError } from "../command-error.ts";
import { describeState, whyOf } from "../domain/build-lease-views.ts";
import { plain } from "../domain/build-table.ts";
import { EXIT, type ExitCode } from "../domain/decide-exit.ts";
import { decideLeaseWait, type Lease, type LeaseWish } from "../domain/lease.ts";
import { LEASE_NOUN } from "../domain/lease-document.ts";
import { lookUntil } from "./look-until.ts";

export type Followed = { readonly last: Lease; readonly code: ExitCode };

/** Tells how a lease is until it is as wished. Ctrl-C leaves it to itself. Throws CommandError when it cannot become so any more, or when that takes too long. */
export async function followLease(
  cli: Cli,
  connected: Connected,
  start: Lease,
  {
    wish,
    timeoutMs,
    isTold = false,
  }: {
    readonly wish: LeaseWish;
    readonly timeoutMs: number | undefined;
    /** Whoever calls says himself how it begins, and what it has come to. */
    readonly isTold?: boolean;
  },
): Promise<Followed> {
  const { id } = start.order;
  const history = `\`muster lease history ${id}\` shows what happened to it`;
  let said = "";
  const say = (lease: Lease, isKnown: boolean): void => {
    const why = whyOf(lease);
    const line = `${LEASE_NOUN}/${id} ${lease.phase}${why === "" ? "" : `: ${plain(why)}`}`;
    if (line !== said && !isKnown) cli.io.err([line]);
    said = line;
  };
  say(start, isTold && whyOf(start) === "");
  const { last, end } = await lookUntil(cli, connected, {
    start,
    look: () => leaseCalls(connected.link).get(id),
    isEnough: (lease) => {
      const verdict = decideLeaseWait(lease, wish);
      say(lease, isTold && verdict !== "open");
      return verdict !== "open";
    },
    timeoutMs,
  });
  if (end === "interrupted") {
    cli.io.err([
      `left: lease ${id} goes on; \`muster lease get ${id}\` says how it is, \`muster lease end ${id}\` ends it`,
    ]);
    return { last, code: EXIT.interrupted };
  }
  if (end === "timeout")
    throw new CommandError(EXIT.failed, `timed out after ${formatDuration(timeoutMs ?? 0)}: ${describeState(last)}`, {
      hint: `it goes on; ${history}`,
    });
  // A record that is gone was of a lease that had ended.
  if (end === "gone" && wish === "ended") return { last, code: EXIT.ok };
  if (decideLeaseWait(last, wish) === "met") return { last, code: EXIT.ok };
  throw new CommandError(EXIT.failed, describeState(last), { hint: history });
}
