import { faultOf } from "@muster/faults";
import type { Cli, Connected } from "../cli.ts";
import { buildEventLine, buildEventRecord, buildEventTable, orderEvents } from "../domain/build-events.ts";
import { EXIT, type ExitCode } from "../domain/decide-exit.ts";
import { isFinished, type Work, type WorkEvent } from "../domain/work.ts";
import type { WorkCalls } from "../kinds/kind.ts";
import type { Target } from "../kinds/kinds.ts";
import { askOfName } from "./find-work.ts";
import { keepContact } from "./keep-contact.ts";
import { print, type Format } from "./output.ts";
import { targetOf } from "./target.ts";

export type EventsOptions = { readonly follow: boolean; readonly output: Format };

/** Hints may be lost, so everything is read again this often. */
const LOOK_EVERY_MS = 10_000;

/** `muster events [NAME]`: what happened, oldest first; with `--follow` also what happens from now on. */
export async function events(cli: Cli, target: string | undefined, options: EventsOptions): Promise<ExitCode> {
  const wanted = targetOf(cli, target ?? cli.kinds[0].plural);
  await using connected = await cli.connect();
  if (options.follow) return await followEvents(cli, connected, wanted, options.output);
  const found = await askOfName(cli, connected, target, () => read(wanted.kind.calls(connected.link), wanted.name));
  const all = orderEvents(found);
  print(cli.io, options.output, {
    table: (style) => (all.length === 0 ? ["no events"] : buildEventTable(all, style)),
    data: () => all.map(buildEventRecord),
  });
  return EXIT.ok;
}

async function read(calls: WorkCalls, name: string | undefined): Promise<Work[]> {
  return name === undefined ? calls.list() : [await withEvents(calls, await calls.get(name))];
}

/** Of one everything is told; of all of them only what their states say, because the rest is a question for each. */
async function withEvents(calls: WorkCalls, work: Work): Promise<Work> {
  return calls.events === undefined ? work : { ...work, events: await calls.events(work) };
}

/** Until interrupted; for one until it is over. Prints each event once, as a line, or as a line of JSON. */
async function followEvents(cli: Cli, connected: Connected, { kind, name }: Target, output: Format): Promise<ExitCode> {
  const calls = kind.calls(connected.link);
  const stop = AbortSignal.any([cli.interrupts.first, cli.io.closed]);
  const hinted = new Set<string>();
  let hint = new AbortController();
  await using _listening = await calls.onEvent((changed) => {
    if (name !== undefined && changed !== name) return;
    hinted.add(changed);
    hint.abort();
  }, name);
  using contact = keepContact(cli, connected);
  const printed = new Map<string, Set<string>>();
  let everything = true;
  while (!stop.aborted) {
    const names = [...hinted];
    hinted.clear();
    hint = new AbortController();
    const question = async () => {
      const all = everything;
      // Until there is an answer hints may have been missed.
      everything = true;
      return { all, found: all ? await read(calls, name) : await readThese(calls, names, name) };
    };
    const answer = await contact.ask("events", question, stop);
    if (answer === undefined) break;
    const { all, found } = answer;
    if (all) forgetOthers(printed, found);
    printNew(cli, found, printed, output);
    if (name !== undefined && found.some(isFinished)) return EXIT.ok;
    const heard = hint.signal;
    await cli.pause(LOOK_EVERY_MS, AbortSignal.any([stop, heard]));
    everything = !heard.aborted;
  }
  return cli.interrupts.first.aborted ? EXIT.interrupted : EXIT.ok;
}

/** Those that still exist. */
async function readThese(calls: WorkCalls, names: readonly string[], only: string | undefined): Promise<Work[]> {
  const found: Work[] = [];
  for (const name of names) {
    try {
      const work = await calls.get(name);
      found.push(name === only ? await withEvents(calls, work) : work);
    } catch (error) {
      if (faultOf(error)?.code !== "not_found") throw error;
    }
  }
  return found;
}

/** Events that come late take their place among the others, so each is known by all that it says. */
function printNew(cli: Cli, found: readonly Work[], printed: Map<string, Set<string>>, output: Format): void {
  const fresh = found.map((work) => {
    const known = printed.get(work.uid) ?? new Set();
    printed.set(work.uid, known);
    const events = work.events.filter((event) => !known.has(keyOf(event)));
    for (const event of events) known.add(keyOf(event));
    return { ...work, events };
  });
  const lines = orderEvents(fresh);
  const style = cli.io.outStyle();
  if (output === "table") cli.io.out(lines.map((named) => buildEventLine(named, style)));
  else cli.io.out(lines.map((named) => JSON.stringify(buildEventRecord(named))));
}

function keyOf({ phase, atMs, reason, description }: WorkEvent): string {
  return JSON.stringify([phase, atMs, reason, description]);
}

function forgetOthers(printed: Map<string, Set<string>>, found: readonly Work[]): void {
  const present = new Set(found.map(({ uid }) => uid));
  for (const uid of printed.keys()) if (!present.has(uid)) printed.delete(uid);
}
