import { inSpan } from "@muster/tracing";
import { SpanStatusCode } from "@opentelemetry/api";
import { faultOf } from "@muster/faults";
import {
  describePlace,
  describeProblem,
  FILE_BYTES_MAX,
  parseDocuments,
  type Place,
  type Problem,
} from "../adapters/parse-documents.ts";
import type { MusterServices } from "../adapters/muster-services.ts";
import type { Cli, Connected } from "../cli.ts";
import { CommandError } from "../command-error.ts";
import { buildSummary } from "../domain/build-result.ts";
import { buildSessionRecord } from "../domain/build-views.ts";
import { EXIT, type ExitCode } from "../domain/decide-exit.ts";
import { formatDuration } from "../domain/duration.ts";
import { GENERATED_LENGTH } from "../domain/read-session-document.ts";
import { buildDocument, type SessionDocument, type SessionSpec } from "../domain/session-document.ts";
import { isFinished, phaseOf, type Session } from "../domain/session.ts";
import { explainError } from "../explain-error.ts";
import { follow } from "./follow.ts";
import { keepContact } from "./keep-contact.ts";
import { print, toYaml, type Format } from "./output.ts";
import { progressView, type ProgressView } from "./progress-view.ts";
import { showFailedLogs } from "./show-failed-logs.ts";

export type RunOptions = {
  readonly detach: boolean;
  readonly dryRun: boolean;
  readonly timeoutMs: number | undefined;
  readonly output: Format;
};

type Named = { readonly name: string; readonly spec: SessionSpec };

/** Problems of a file that are shown; the first ones usually explain the rest. */
const PROBLEMS_MAX = 50;
/** Each takes up to ten seconds: long enough for a service to be replaced. */
const SUBMIT_ATTEMPTS = 3;

/** `muster run FILE...`: submits the sessions of the files and follows them until they are over. */
export async function run(cli: Cli, files: readonly string[], options: RunOptions): Promise<ExitCode> {
  const documents = await readDocuments(cli, files);
  if (options.dryRun) {
    const plain = documents.map(buildDocument);
    if (options.output === "json") print(cli.io, "json", { table: () => [], data: () => plain });
    else cli.io.out([plain.map(toYaml).join("\n---\n")]);
    return EXIT.ok;
  }
  const named = documents.map(({ name, spec }) => ({
    name: "exact" in name ? name.exact : name.prefix + cli.randomLetters(GENERATED_LENGTH),
    spec,
  }));
  return inSpan("@muster/cli", "muster run", { attributes: { "muster.sessions": named.length } }, async (span) => {
    const code = await submitAndFollow(cli, named, options);
    if (code !== EXIT.ok) span.setStatus({ code: SpanStatusCode.ERROR, message: `exit code ${code}` });
    return code;
  });
}

async function readDocuments(cli: Cli, files: readonly string[]): Promise<SessionDocument[]> {
  const documents: SessionDocument[] = [];
  const problems: Problem[] = [];
  const firstOf = new Map<string, Place>();
  for (const file of files) {
    const parsed = parseDocuments(file === "-" ? "stdin" : file, await cli.io.read(file, FILE_BYTES_MAX));
    problems.push(...parsed.problems);
    for (const { document, place } of parsed.documents) {
      documents.push(document);
      if (!("exact" in document.name)) continue;
      const name = document.name.exact;
      const first = firstOf.get(name);
      if (first === undefined) firstOf.set(name, place);
      else problems.push({ ...place, message: `session ${name} is given twice, first at ${describePlace(first)}` });
    }
  }
  if (problems.length === 0) return documents;
  const more = problems.length - PROBLEMS_MAX;
  cli.io.err(problems.slice(0, PROBLEMS_MAX).map((problem) => `error: ${describeProblem(problem)}`));
  if (more > 0) cli.io.err([`error: ${more} more problems`]);
  throw new CommandError(EXIT.usage, `${problems.length === 1 ? "one problem" : `${problems.length} problems`} found`, {
    hint: "nothing was submitted; examples/ has files that are right",
  });
}

async function submitAndFollow(cli: Cli, named: readonly Named[], options: RunOptions): Promise<ExitCode> {
  // The first Ctrl-C cancels the sessions, and that takes more questions.
  await using connected = await cli.connect(cli.interrupts.second);
  const { services } = connected;
  const { submitted, refused } = await submitAll(cli, services, named);
  if (options.detach && !cli.interrupts.first.aborted) {
    print(cli.io, options.output, {
      table: () => submitted.map(({ name }) => `session ${name} submitted; \`muster get session ${name}\` shows it`),
      data: () => submitted.map(buildSessionRecord),
    });
    return refused ?? EXIT.ok;
  }
  const ended = await followAll(cli, connected, submitted, options);
  await showFailedLogs(cli, services, ended.sessions);
  print(cli.io, options.output, {
    table: (style) => ended.sessions.filter(isFinished).flatMap((session) => buildSummary(session, cli.now(), style)),
    data: () => ended.sessions.map(buildSessionRecord),
  });
  if (cli.interrupts.first.aborted) return EXIT.interrupted;
  const done = ended.sessions.every((session) => phaseOf(session) === "DONE");
  return refused ?? ended.lost ?? (done ? EXIT.ok : EXIT.failed);
}

/** Submits one after another. A refusal is reported and does not keep the others back; the first one decides the exit code. */
async function submitAll(
  cli: Cli,
  services: MusterServices,
  named: readonly Named[],
): Promise<{ submitted: Session[]; refused: ExitCode | undefined }> {
  const submitted: Session[] = [];
  let refused: ExitCode | undefined;
  for (const { name, spec } of named) {
    if (cli.interrupts.first.aborted) break;
    try {
      submitted.push(await submit(cli, services, { name, spec }));
    } catch (error) {
      refused = refused ?? report(cli, `submitting session ${name}`, error);
    }
  }
  return { submitted, refused };
}

/** An attempt that nobody answered may have taken effect; the request id makes the next one find the session that it made. */
async function submit(cli: Cli, services: MusterServices, { name, spec }: Named): Promise<Session> {
  const requestId = cli.randomId();
  for (let attempt = 1; ; attempt++) {
    try {
      return await services.submit({ requestId, name, spec });
    } catch (error) {
      const code = faultOf(error)?.code;
      const unanswered = code === "deadline_exceeded" || code === "unavailable";
      if (!unanswered || attempt === SUBMIT_ATTEMPTS || cli.interrupts.first.aborted) throw error;
      cli.io.err([`submitting session ${name} again: nobody has answered`]);
    }
  }
}

/** Follows all sessions. The first interrupt cancels them and goes on until they are over; the second, and the time limit, leave them. */
async function followAll(
  cli: Cli,
  connected: Connected,
  submitted: readonly Session[],
  options: RunOptions,
): Promise<{ sessions: Session[]; lost: ExitCode | undefined }> {
  const { interrupts } = cli;
  const { services } = connected;
  const timeout = new AbortController();
  const enough = new AbortController();
  const gone = new AbortController();
  const leave = AbortSignal.any([interrupts.second, timeout.signal, gone.signal]);
  const newest = new Map(submitted.map((session) => [session.name, session]));
  const asked = new Map<string, Asked>();
  let lost: ExitCode | undefined;
  using view = progressView(cli.io, cli.now);
  using contact = keepContact(cli, connected, (lines) => view.say(lines));
  for (const session of submitted) view.update(session);

  const cancelling = whenAborted(interrupts.first, enough.signal, () =>
    cancelAll({ cli, services, view, newest: [...newest.values()], asked }),
  );
  if (options.timeoutMs !== undefined) void cli.pause(options.timeoutMs, enough.signal).then(() => timeout.abort());
  const changed = (session: Session): void => {
    newest.set(session.name, session);
    view.update(session);
  };
  await Promise.all(
    submitted.map(async (session) => {
      try {
        await follow({ services, contact, changed }, session, leave);
      } catch (error) {
        lost = lost ?? report(cli, `following session ${session.name}`, error, view);
        // Contact that is lost is lost for all of them.
        if (error instanceof CommandError) gone.abort();
      }
    }),
  );
  enough.abort();
  if (!leave.aborted) await cancelling;
  const sessions = [...newest.values()];
  if (leave.aborted)
    sayLeft({ view, sessions, asked, timeoutMs: timeout.signal.aborted ? options.timeoutMs : undefined });
  return { sessions, lost };
}

type Asked = "asked" | "answered";

type Cancelling = {
  readonly cli: Cli;
  readonly services: MusterServices;
  readonly view: ProgressView;
  readonly newest: readonly Session[];
  /** Names of the sessions whose cancellation was asked for, and whether that was answered. */
  readonly asked: Map<string, Asked>;
};

async function cancelAll({ cli, services, view, newest, asked }: Cancelling): Promise<void> {
  const open = newest.filter((session) => !isFinished(session));
  if (open.length === 0) return;
  const names = open.map(({ name }) => name).join(", ");
  view.say([`cancelling ${names} and waiting for the end; Ctrl-C again leaves at once`]);
  await Promise.all(
    open.map(async ({ name }) => {
      try {
        asked.set(name, "asked");
        await services.cancel(name);
        asked.set(name, "answered");
      } catch (error) {
        // What the second Ctrl-C has cut off may well have arrived.
        if (cli.interrupts.second.aborted) return;
        asked.delete(name);
        report(cli, `cancelling session ${name}`, error, view);
      }
    }),
  );
}

function sayLeft(left: {
  readonly view: ProgressView;
  readonly sessions: readonly Session[];
  readonly asked: ReadonlyMap<string, Asked>;
  readonly timeoutMs: number | undefined;
}): void {
  const why = left.timeoutMs === undefined ? "" : ` after ${formatDuration(left.timeoutMs)}`;
  const lines = left.sessions
    .filter((session) => !isFinished(session))
    .map(({ name, cancelRequested }) => {
      const shows = `\`muster get session ${name}\` shows it`;
      const asked = cancelRequested ? "answered" : left.asked.get(name);
      if (asked === "answered") return `left${why}: session ${name} is being cancelled; ${shows}`;
      return asked === "asked"
        ? `left${why}: nobody has answered whether session ${name} is cancelled; ${shows}, \`muster cancel ${name}\` asks again`
        : `left${why}: session ${name} goes on; ${shows}, \`muster cancel ${name}\` ends it`;
    });
  left.view.say(lines);
}

/** Says what went wrong with one session of several, and which exit code it makes. A defect goes on. */
function report(cli: Cli, doing: string, error: unknown, view?: ProgressView): ExitCode {
  const fault = faultOf(error);
  if (fault === undefined && !(error instanceof CommandError)) throw error;
  const { exitCode, lines } = explainError(error, doing);
  if (view === undefined) cli.io.err(lines);
  else view.say(lines);
  return exitCode;
}

/** Does something when the first signal is aborted, unless the second one is aborted before. Resolves when that is done or no longer needed. */
async function whenAborted(signal: AbortSignal, unless: AbortSignal, act: () => Promise<void>): Promise<void> {
  const first = await new Promise<boolean>((resolve) => {
    const yes = (): void => resolve(true);
    const no = (): void => resolve(false);
    if (signal.aborted) resolve(true);
    signal.addEventListener("abort", yes, { once: true });
    unless.addEventListener("abort", no, { once: true });
  });
  if (first) await act();
}
