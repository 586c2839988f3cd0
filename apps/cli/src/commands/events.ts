import type { ConnectedCli } from "../cli.ts";
import { CommandError } from "../command-error.ts";
import { EXIT, type ExitCode } from "../domain/decide-exit.ts";
import type { EventLog, ResourceRow } from "../kinds/resource.ts";
import { findNamedResource, type CommandLine } from "../kinds/resources.ts";
import { askAbout } from "./find-work.ts";
import { keepContact } from "./service-contact.ts";
import { printList, toJson, type Format } from "./output.ts";

export type EventsOptions = {
  readonly follow: boolean;
  /** Limits the output to the newest events. */
  readonly limit?: number;
  readonly output: Format;
};

type Target = { readonly resource: ResourceRow; readonly name: string | undefined };

/** `muster events [NAME]`: lists events, oldest first; `--follow` adds later events. */
export async function showEvents(
  cli: CommandLine,
  text: string | undefined,
  options: EventsOptions,
): Promise<ExitCode> {
  const target = readTarget(cli, text);
  const { resource, name } = target;
  const { events: log } = resource;
  if (log === undefined) throw new CommandError(EXIT.usage, `a ${resource.noun} has no events`);
  await using connected = await cli.connect();
  if (options.follow)
    return await askAbout(cli, connected, { resource, text, name }, () =>
      followEvents(cli, connected, { noun: resource.noun, name }, log, options),
    );
  const { events } = await askAbout(cli, connected, { resource, text, name }, () =>
    log.read(connected, { name, ...options }),
  );
  printList(cli.io, options.output, events, {
    none: log.none(name),
    table: (style) => log.table(events, style),
    record: (event) => log.record(event),
  });
  return EXIT.ok;
}

function readTarget({ resources }: CommandLine, text: string | undefined): Target {
  const [first] = resources;
  if (text === undefined) return { resource: first, name: undefined };
  const all = resources.find(({ plural, events }) => plural === text && events?.ofAll === true);
  return all === undefined ? findNamedResource(resources, [text]) : { resource: all, name: undefined };
}

/** Follows events until an interrupt, or until the named item is over. Prints each event once, as text or as a line of JSON. */
export async function followEvents(
  cli: CommandLine,
  connected: ConnectedCli,
  { noun, name }: { readonly noun: string; readonly name: string | undefined },
  log: EventLog,
  { output, limit }: Pick<EventsOptions, "output" | "limit">,
): Promise<ExitCode> {
  const stop = AbortSignal.any([cli.interrupts.first, cli.io.closed]);
  const hinted = new Set<string>();
  let hint = new AbortController();
  await using _listening = await log.onEvent?.(
    connected,
    (changed) => {
      if (name !== undefined && changed !== name) return;
      hinted.add(changed);
      hint.abort();
    },
    name,
  );
  using contact = keepContact(cli, connected);
  let printed = new Set<string>();
  let isFullRead = true;
  while (!stop.aborted) {
    const names = [...hinted];
    hinted.clear();
    hint = new AbortController();
    const changed = isFullRead ? undefined : names;
    const question = () => {
      const query = { name, limit, follow: true, changed: isFullRead ? undefined : changed };
      // A notification may have been lost before the answer, so the next read is a full one.
      isFullRead = true;
      return log.read(connected, query);
    };
    const answer = await contact.ask(`events of ${noun}`, question, stop);
    if (answer === undefined) break;
    const { events, isOver } = answer;
    printEvents(
      cli,
      log,
      events.filter((event) => !printed.has(log.keyOf(event))),
      output,
    );
    const keys = events.map((event) => log.keyOf(event));
    // A full read has all existing events, so older keys can be forgotten.
    printed = new Set(changed === undefined ? keys : [...printed, ...keys]);
    if (isOver) return EXIT.ok;
    const heard = hint.signal;
    await cli.pause(log.pollMs, AbortSignal.any([stop, heard]));
    isFullRead = !heard.aborted;
  }
  return cli.interrupts.first.aborted ? EXIT.interrupted : EXIT.ok;
}

function printEvents({ io }: CommandLine, log: EventLog, events: readonly object[], output: Format): void {
  const style = io.outStyle();
  if (output === "table") io.out(events.map((event) => log.line(event, style)));
  else io.out(events.map((event) => toJson(log.record(event))));
}
