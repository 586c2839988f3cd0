import { unlessMissing, formatDuration } from "@muster/faults";
import { leaseCalls } from "../adapters/lease-calls.ts";
import type { Cli } from "../cli.ts";
import { CommandError } from "../command-error.ts";
import { describeState } from "../domain/build-lease-views.ts";
import { EXIT, type ExitCode } from "../domain/decide-exit.ts";
import { checkWish } from "../domain/decide-wait.ts";
import { decideLeaseCondition, isMishap, LEASE_PHASES } from "../domain/lease.ts";
import { LEASE_NOUN } from "../domain/lease-document.ts";
import { buildLeaseRecord } from "../domain/lease-record.ts";
import { askOfLeases } from "./lease-questions.ts";
import { lookUntil } from "./look-until.ts";
import { print } from "./output.ts";
import type { WaitOptions } from "./wait.ts";

/**
 * `muster wait lease/ID --for WISH`: until it is in the phase, cannot come to it any more, or the time is over. Ends with 0 where the phase is the one that was waited
 * for, whatever brought it there; of one that crashed or failed it says so, and why, on standard error.
 */
export async function waitForLease(cli: Cli, id: string, { wish, timeoutMs, output }: WaitOptions): Promise<ExitCode> {
  const wrong = checkWish(wish, { noun: LEASE_NOUN, conditions: LEASE_PHASES });
  if (wrong !== undefined) throw new CommandError(EXIT.usage, wrong.message, { hint: wrong.hint });
  const met = [`${LEASE_NOUN}/${id} condition met`];
  await using connected = await cli.connect();
  const start = await askOfLeases(connected, (leases) =>
    // A record that is gone was of a lease that had ended.
    wish.for === "delete" ? unlessMissing(leases.get(id)) : leases.get(id),
  );
  if (start === undefined) {
    // Of one that never was nothing is told: then the id is a slip.
    const events = await askOfLeases(connected, (leases) => leases.history(id, 1));
    if (events.length === 0)
      throw new CommandError(EXIT.refused, `lease ${id} does not exist, and nothing is told of one that did`, {
        hint: "`muster lease get` lists those that exist",
      });
    if (output === "table") cli.io.out(met);
    return EXIT.ok;
  }
  const { last, end } = await lookUntil(cli, connected, {
    start,
    look: () => leaseCalls(connected.link).get(id),
    isEnough: (lease) => decideLeaseCondition(lease, wish) !== "open",
    timeoutMs,
  });
  if (end === "interrupted") return EXIT.interrupted;
  const isMet = end === "gone" ? wish.for === "delete" : decideLeaseCondition(last, wish) === "met";
  // What was waited for holds, and that is what the code says, as of kubectl wait; how it came to it is told beside.
  if (isMet && isMishap(last)) cli.io.err([describeState(last)]);
  if (isMet || output !== "table") print(cli.io, output, { table: () => met, data: () => buildLeaseRecord(last) });
  if (isMet) return EXIT.ok;
  const wished = wish.for === "delete" ? "its end" : `condition ${wish.type}${wish.is ? "" : "=false"}`;
  const now = describeState(last);
  const message =
    end === "timeout"
      ? `timed out after ${formatDuration(timeoutMs)} waiting for ${wished}: ${now}`
      : `${wished} can no longer be met: ${now}`;
  throw new CommandError(EXIT.failed, message, { hint: `\`muster explain ${LEASE_NOUN}/${id}\` says why` });
}
