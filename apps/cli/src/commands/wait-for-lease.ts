import { leaseCalls } from "../adapters/lease-calls.ts";
import type { Cli, Connected } from "../cli.ts";
import { CommandError } from "../command-error.ts";
import { describeState } from "../domain/build-lease-views.ts";
import { EXIT, type ExitCode } from "../domain/decide-exit.ts";
import { decideLeaseCondition, isMishap, LEASE_PHASES, type Lease } from "../domain/lease.ts";
import { LEASE_NOUN } from "../domain/lease-document.ts";
import { buildLeaseRecord } from "../domain/lease-record.ts";
import { askOfLeases } from "./lease-questions.ts";
import { findUnlessDeleted, waitFor, type Waited, type WaitOptions } from "./wait.ts";

/**
 * `muster wait lease/ID --for WISH`. Ends with 0 where the phase is the one that was waited for, whatever brought it there; of one that crashed or failed it says so,
 * and why, on standard error.
 */
export function waitForLease(cli: Cli, id: string, options: WaitOptions): Promise<ExitCode> {
  const waited: Waited<Lease> = {
    noun: LEASE_NOUN,
    conditions: LEASE_PHASES,
    nameOf: () => id,
    find: async (connected, wish) => {
      // A record that is gone was of a lease that had ended.
      const lease = await askOfLeases(connected, (leases) => findUnlessDeleted(wish, leases.get(id)));
      if (lease === undefined) await refuseUnknown(connected, id);
      return lease;
    },
    look: ({ link }) => ({ look: () => leaseCalls(link).get(id) }),
    decide: decideLeaseCondition,
    record: buildLeaseRecord,
    // The code says that the wish holds, as of kubectl wait; how it came to it is told beside.
    note: (lease) => (isMishap(lease) ? [describeState(lease)] : []),
    describe: describeState,
    explained: () => `${LEASE_NOUN}/${id}`,
  };
  return waitFor(cli, waited, options);
}

/** Throws CommandError for an id without a history: no such lease ever existed. */
async function refuseUnknown(connected: Connected, id: string): Promise<void> {
  const events = await askOfLeases(connected, (leases) => leases.history(id, 1));
  if (events.length > 0) return;
  throw new CommandError(EXIT.refused, `lease ${id} does not exist, and nothing is told of one that did`, {
    hint: "`muster lease get` lists those that exist",
  });
}
