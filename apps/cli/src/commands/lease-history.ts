import { unlessMissing } from "@muster/faults";
import { leaseCalls } from "../adapters/lease-calls.ts";
import type { Cli, Connected } from "../cli.ts";
import { buildLeaseEventLine, buildLeaseHistory } from "../domain/build-lease-views.ts";
import { EXIT, type ExitCode } from "../domain/decide-exit.ts";
import { isLeaseOver, type LeaseEvent } from "../domain/lease.ts";
import { buildLeaseEventRecord } from "../domain/lease-record.ts";
import { keepContact } from "./keep-contact.ts";
import { askOfLeases } from "./lease-questions.ts";
import { print, type Format } from "./output.ts";

type HistoryOptions = {
  readonly id: string;
  /** The newest of them. */
  readonly limit: number;
  readonly follow: boolean;
  readonly output: Format;
};

export const EVENTS_DEFAULT = 100;
const LOOK_EVERY_MS = 1000;

/** `muster lease history ID`, also of one whose record is gone; with `--follow` until the lease is over and all of it is told. */
export async function showHistory(cli: Cli, options: HistoryOptions): Promise<ExitCode> {
  const { id, limit, follow, output } = options;
  await using connected = await cli.connect();
  const events = await askOfLeases(connected, (leases) => leases.history(id, limit));
  // That nothing is known may be a slip in the name.
  if (events.length === 0) await askOfLeases(connected, (leases) => leases.get(id));
  if (follow) return await followHistory(cli, connected, options);
  print(cli.io, output, {
    table: (style) => (events.length === 0 ? [`nothing is told of lease ${id} yet`] : buildLeaseHistory(events, style)),
    data: () => events.map(buildLeaseEventRecord),
  });
  return EXIT.ok;
}

async function followHistory(cli: Cli, connected: Connected, { id, limit, output }: HistoryOptions): Promise<ExitCode> {
  const leases = leaseCalls(connected.link);
  const stop = AbortSignal.any([cli.interrupts.first, cli.io.closed]);
  using contact = keepContact(cli, connected);
  const told = new Set<string>();
  while (!stop.aborted) {
    const look = async () => {
      // Asked for first: what it has told by then is in the history.
      const lease = await unlessMissing(leases.get(id));
      return { lease, events: await leases.history(id, limit) };
    };
    const seen = await contact.ask("history", look, stop);
    if (seen === undefined) break;
    tell(
      cli,
      seen.events.filter((event) => !told.has(event.id)),
      output,
    );
    for (const event of seen.events) told.add(event.id);
    if (seen.lease === undefined || (isLeaseOver(seen.lease) && seen.lease.untold === 0)) return EXIT.ok;
    await cli.pause(LOOK_EVERY_MS, stop);
  }
  return cli.interrupts.first.aborted ? EXIT.interrupted : EXIT.ok;
}

function tell({ io }: Cli, events: readonly LeaseEvent[], output: Format): void {
  if (output === "table") io.out(events.map((event) => buildLeaseEventLine(event, io.outStyle())));
  else io.out(events.map((event) => JSON.stringify(buildLeaseEventRecord(event))));
}
