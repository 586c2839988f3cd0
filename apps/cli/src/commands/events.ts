import { faultOf } from "@muster/faults";
import type { Cli, Connected } from "../cli.ts";
import { buildEventLine, buildEventRecord, buildEventTable, orderEvents } from "../domain/build-events.ts";
import { EXIT, type ExitCode } from "../domain/decide-exit.ts";
import { isFinished, type Session } from "../domain/session.ts";
import { keepContact } from "./keep-contact.ts";
import { print, type Format } from "./output.ts";

export type EventsOptions = { readonly follow: boolean; readonly output: Format };

/** Hints may be lost, so everything is read again this often. */
const LOOK_EVERY_MS = 10_000;

/** `muster events [SESSION]`: what happened, oldest first; with `--follow` also what happens from now on. */
export async function events(cli: Cli, name: string | undefined, options: EventsOptions): Promise<ExitCode> {
  await using connected = await cli.connect();
  if (options.follow) return await followEvents(cli, connected, name, options.output);
  const all = orderEvents(await read(connected, name));
  print(cli.io, options.output, {
    table: (style) => (all.length === 0 ? ["no events"] : buildEventTable(all, style)),
    data: () => all.map(buildEventRecord),
  });
  return EXIT.ok;
}

function read({ services }: Connected, name: string | undefined): Promise<Session[]> {
  return name === undefined ? services.sessions() : services.session(name).then((session) => [session]);
}

/** Until interrupted; for one session until it is over. Prints each event once, as a line, or as a line of JSON. */
async function followEvents(
  cli: Cli,
  connected: Connected,
  name: string | undefined,
  output: Format,
): Promise<ExitCode> {
  const stop = AbortSignal.any([cli.interrupts.first, cli.io.closed]);
  const hinted = new Set<string>();
  let hint = new AbortController();
  await using _listening = await connected.onSessionEvent((session) => {
    if (name !== undefined && session !== name) return;
    hinted.add(session);
    hint.abort();
  });
  using contact = keepContact(cli, connected);
  const printed = new Map<string, number>();
  let everything = true;
  while (!stop.aborted) {
    const names = [...hinted];
    hinted.clear();
    hint = new AbortController();
    const question = async () => {
      const all = everything;
      // Until there is an answer hints may have been missed.
      everything = true;
      return { all, sessions: all ? await read(connected, name) : await readThese(connected, names) };
    };
    const answer = await contact.ask("events", question, stop);
    if (answer === undefined) break;
    const { all, sessions } = answer;
    if (all) forgetOthers(printed, sessions);
    printNew(cli, sessions, printed, output);
    if (name !== undefined && sessions.some(isFinished)) return EXIT.ok;
    const heard = hint.signal;
    await cli.pause(LOOK_EVERY_MS, AbortSignal.any([stop, heard]));
    everything = !heard.aborted;
  }
  return cli.interrupts.first.aborted ? EXIT.interrupted : EXIT.ok;
}

/** Those of the sessions that still exist. */
async function readThese({ services }: Connected, names: readonly string[]): Promise<Session[]> {
  const found: Session[] = [];
  for (const name of names) {
    try {
      found.push(await services.session(name));
    } catch (error) {
      if (faultOf(error)?.code !== "not_found") throw error;
    }
  }
  return found;
}

function printNew(cli: Cli, sessions: readonly Session[], printed: Map<string, number>, output: Format): void {
  const fresh = sessions.map((session) => ({
    ...session,
    events: session.events.slice(printed.get(session.uid) ?? 0),
  }));
  for (const { uid, events: all } of sessions) printed.set(uid, all.length);
  const lines = orderEvents(fresh);
  const style = cli.io.outStyle();
  if (output === "table") cli.io.out(lines.map((named) => buildEventLine(named, style)));
  else cli.io.out(lines.map((named) => JSON.stringify(buildEventRecord(named))));
}

function forgetOthers(printed: Map<string, number>, sessions: readonly Session[]): void {
  const present = new Set(sessions.map(({ uid }) => uid));
  for (const uid of printed.keys()) if (!present.has(uid)) printed.delete(uid);
}
