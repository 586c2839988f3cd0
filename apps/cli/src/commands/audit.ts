import { makeAuditCalls, type AuditedChange, type AuditQuery } from "../adapters/audit-calls.ts";
import type { ConnectedCli } from "../cli.ts";
import { buildChangeLine, buildChangeRecord, buildChangeTable } from "../domain/build-change-views.ts";
import { EXIT, type ExitCode } from "../domain/decide-exit.ts";
import type { EventLog } from "../kinds/resource.ts";
import type { CommandLine } from "../kinds/resources.ts";
import { followEvents } from "./events.ts";
import { printList, type Format } from "./output.ts";

const POLL_MS = 1000;

export type AuditOptions = {
  readonly query: AuditQuery;
  /** Limits the output to the newest changes. */
  readonly limit: number;
  readonly follow: boolean;
  readonly output: Format;
};

/** `muster audit`: lists changes over HTTP with their users, oldest first; `--follow` adds later changes. */
export async function showAudit(cli: CommandLine, { query, limit, follow, output }: AuditOptions): Promise<ExitCode> {
  await using connected = await cli.connect();
  const log = auditLog(query, limit);
  if (follow) return await followEvents(cli, connected, { noun: "audit", name: undefined }, log, { output });
  const { events } = await log.read(connected, { name: undefined, follow });
  printList(cli.io, output, events, {
    none: log.none(undefined),
    table: (style) => log.table(events, style),
    record: (change) => log.record(change),
  });
  return EXIT.ok;
}

/** The first read returns the newest changes, and each later read the changes after those. */
function auditLog(query: AuditQuery, limit: number): EventLog<AuditedChange> {
  let lastSequence: number | undefined;
  const readNext = async ({ link }: ConnectedCli) => {
    const calls = makeAuditCalls(link);
    // The number is 0 while the stream is empty, because the first event has number 1.
    const page = lastSequence ? await calls.after(query, lastSequence) : await calls.newest(query, limit);
    lastSequence = page.lastSequence;
    return { events: page.changes, isOver: false };
  };
  return {
    pollMs: POLL_MS,
    read: readNext,
    keyOf: ({ sequence }) => String(sequence),
    none: () => (query.refused ? "no change was refused" : "no changes"),
    table: buildChangeTable,
    line: buildChangeLine,
    record: buildChangeRecord,
  };
}
