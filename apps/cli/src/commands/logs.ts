import type { CommandLine } from "../kinds/resources.ts";
import { describeFault, findFault } from "@muster/faults";
import type { LogChunk, LogPlace } from "../adapters/messages.ts";
import { CommandError } from "../command-error.ts";
import { EXIT, type ExitCode } from "../domain/decide-exit.ts";
import { listSome } from "../domain/list-some.ts";
import { findNearestName } from "@muster/documents";
import { isFinished } from "../domain/work.ts";
import type { WorkCalls } from "../kinds/kind.ts";
import { isAborted } from "../is-aborted.ts";
import { keepContact, type ServiceContact } from "./service-contact.ts";
import { askAbout, readWorkTarget } from "./find-work.ts";

/** `-f` waits this long after an empty answer. */
const POLL_MS = 500;

type Sink = (bytes: Uint8Array | undefined) => Promise<void>;

/** `muster logs NAME [COMPONENT]`: prints the log of a component. With replicas or all components, each line begins with the component's name. */
export async function printLogs(
  cli: CommandLine,
  target: string,
  component: string | undefined,
  options: { readonly follow: boolean; readonly container?: string | undefined },
): Promise<ExitCode> {
  const { kind, name } = readWorkTarget(cli, target, "logs");
  await using connected = await cli.connect();
  const calls = kind.calls(connected.link);
  const work = await askAbout(cli, connected, { resource: {}, text: target, name }, () => calls.get(name));
  const names = work.components.map((each) => each.name);
  const chosen = component === undefined ? names : withReplicas(component, names);
  if (component !== undefined && chosen.length === 0) {
    const near = findNearestName(component, names);
    throw new CommandError(EXIT.usage, `${kind.noun} ${name} has no component ${component}`, {
      hint: [
        ...(near === undefined ? [] : [`did you mean "${near}"?`]),
        `it has ${listSome(names, MEMBERS_SHOWN, ",")}`,
      ].join(" "),
    });
  }
  const stop = AbortSignal.any([cli.interrupts.first, cli.io.closed]);
  const lacking: Lack[] = [];
  using kept = keepContact(cli, connected);
  const read = (each: string, sink: Sink): Promise<void> =>
    readLog(
      {
        cli,
        calls,
        contact: kept,
        name,
        component: each,
        alone: component !== undefined && chosen.length === 1,
        follow: options.follow,
        container: options.container,
        over: isFinished(work),
        stop,
        lacks: (lack) => lacking.push(lack),
      },
      sink,
    );

  if (component !== undefined && names.includes(component)) {
    await read(component, async (bytes) => {
      if (bytes !== undefined) await cli.io.write(bytes);
    });
  } else if (options.follow) {
    await Promise.all(chosen.map((each) => read(each, linesWithPrefix(cli, each, chosen))));
  } else {
    for (const each of chosen) await read(each, linesWithPrefix(cli, each, chosen));
  }
  const lacks = describeLacks(lacking);
  if (lacks.length > 0) cli.io.err(lacks);
  return cli.interrupts.first.aborted ? EXIT.interrupted : EXIT.ok;
}

/**
 * Returns the component of this name, or its replicas without a gap: `server` means server-0, server-1 and so on; `server-5` after a gap is a component of its
 * own.
 */
function withReplicas(component: string, names: readonly string[]): readonly string[] {
  if (names.includes(component)) return [component];
  const replicas: string[] = [];
  while (names.includes(`${component}-${replicas.length}`)) replicas.push(`${component}-${replicas.length}`);
  return replicas;
}

type Lack = { readonly component: string; readonly kind: "no log" | "nothing written"; readonly why: string };

const NAMES_SHOWN = 3;

/** The maximum number of names in a message: a large gang may have hundreds of members. */
const MEMBERS_SHOWN = 20;

/** Groups components without output by the reason, because a large gang may have hundreds of members. */
function describeLacks(lacking: readonly Lack[]): string[] {
  const kinds = [
    { kind: "no log", one: "has no log", many: "have no log" },
    { kind: "nothing written", one: "has written nothing", many: "have written nothing" },
  ] as const;
  return kinds.flatMap(({ kind, one, many }) => {
    const those = lacking.filter((lack) => lack.kind === kind);
    const [first, ...rest] = those;
    if (first === undefined) return [];
    if (rest.length === 0) return [`note: ${first.component} ${one}${first.why}`];
    const names = those.map(({ component }) => component);
    return [`note: ${those.length} components ${many}: ${listSome(names, NAMES_SHOWN, ",")}`];
  });
}

const WAITS = "`-f` waits until it has one";

type LogSource = {
  readonly cli: CommandLine;
  readonly calls: WorkCalls;
  readonly contact: ServiceContact;
  readonly name: string;
  readonly component: string;
  /** True if the command names only this component; a missing log is then an error. */
  readonly alone: boolean;
  /** The work is over, so no further log can start. */
  readonly over: boolean;
  readonly follow: boolean;
  /** Undefined selects the main container. */
  readonly container: string | undefined;
  readonly stop: AbortSignal;
  readonly lacks: (lack: Lack) => void;
};

async function readLog(source: LogSource, sink: Sink): Promise<void> {
  const { cli, component, follow, stop } = source;
  let from: LogPlace = { offset: 0, run: "" };
  let written = 0;
  for (;;) {
    const chunk = await readChunk(source, from);
    if (chunk === undefined) break;
    if (chunk.truncated && written === 0) cli.io.err([`note: the beginning of the log of ${component} was not kept`]);
    if (from.run !== "" && chunk.next.run !== from.run) {
      await sink(undefined);
      cli.io.err([`note: ${component} has ended and runs again; its log continues with that of pod ${chunk.pod}`]);
    }
    if (chunk.bytes.length > 0) await sink(chunk.bytes);
    from = chunk.next;
    written += chunk.bytes.length;
    if (chunk.complete || (!follow && chunk.bytes.length === 0)) {
      if (written === 0) source.lacks({ component, kind: "nothing written", why: chunk.complete ? "" : " yet" });
      break;
    }
    if (chunk.bytes.length === 0) await cli.pause(POLL_MS, stop);
  }
  await sink(undefined);
}

/** Reads the next part of the log, and waits while the component may still start; undefined if it has no log, or after an abort. */
async function readChunk(source: LogSource, from: LogPlace): Promise<LogChunk | undefined> {
  const { cli, calls, contact, name, component, follow, container, stop } = source;
  const question = (): Promise<LogChunk> => calls.log(name, component, from, { signal: stop, follow, container });
  while (!stop.aborted) {
    try {
      return follow ? await contact.ask(`log of ${component}`, question, stop) : await question();
    } catch (error) {
      if (isAborted(stop)) break;
      // A component that has not started has no log yet; after the end of the work, its log never appears.
      const fault = findFault(error);
      if (fault?.code !== "not_found") throw error;
      const work = follow ? await contact.ask(`state of ${component}`, () => calls.get(name), stop) : undefined;
      if (!follow || (work !== undefined && isFinished(work))) {
        const why = `: ${describeFault(fault)}`;
        if (source.alone)
          throw new CommandError(EXIT.refused, `${component} has no log${why}`, {
            cause: error,
            ...(!follow && !source.over && { hint: WAITS }),
          });
        source.lacks({ component, kind: "no log", why });
        break;
      }
      await cli.pause(POLL_MS, stop);
    }
  }
  return undefined;
}

/** Prints whole lines after the component's name, and buffers an incomplete line. */
function linesWithPrefix(cli: CommandLine, name: string, names: readonly string[]): Sink {
  const width = Math.max(...names.map((each) => each.length));
  const prefix = `${name.padEnd(width)} | `;
  const decoder = new TextDecoder();
  let rest = "";
  return async (bytes) => {
    const lines = (rest + decoder.decode(bytes, { stream: bytes !== undefined })).split("\n");
    rest = bytes === undefined ? "" : (lines.pop() ?? "");
    if (bytes === undefined && lines.at(-1) === "") lines.pop();
    if (lines.length > 0) await cli.io.write(lines.map((line) => `${prefix}${line}\n`).join(""));
  };
}
