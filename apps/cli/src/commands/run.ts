import { findResource, type CommandLine } from "../kinds/resources.ts";
import { inSpan } from "@muster/tracing";
import { SpanStatusCode } from "@opentelemetry/api";
import { findFault, formatDuration } from "@muster/faults";
import type { PlacedDocument, DocumentProblem } from "../adapters/parse-documents.ts";
import type { ConnectedCli } from "../cli.ts";
import { CommandError } from "../command-error.ts";
import { escapeControls } from "../domain/build-table.ts";
import { buildSummary } from "../domain/build-result.ts";
import { buildWorkRecord } from "../domain/build-views.ts";
import { EXIT, type ExitCode } from "../domain/decide-exit.ts";
import { GENERATED_LENGTH } from "../domain/read-name.ts";
import { isFinished, type Work } from "../domain/work.ts";
import type { CheckResult, WorkKind, ServiceLink, WorkCalls } from "../kinds/kind.ts";
import { readWork, type ReadWork } from "../kinds/documents.ts";
import { explainError } from "../explain-error.ts";
import { followItem } from "./follow.ts";
import { keepContact } from "./service-contact.ts";
import { printForms, toYaml, type Format } from "./output.ts";
import { makeProgressView, type ProgressView } from "./progress-view.ts";
import { readFiles, refuseProblems } from "./read-files.ts";
import { showFailedLogs } from "./show-failed-logs.ts";
import { buildShortTarget } from "./find-work.ts";
import { watchScaling } from "./watch-scaling.ts";

export type RunOptions = {
  readonly detach: boolean;
  readonly dryRun: boolean;
  readonly timeoutMs: number | undefined;
  readonly output: Format;
};

type Named = PlacedDocument<ReadWork> & { readonly name: string };

/** Each attempt takes up to ten seconds, which is enough to replace a service. */
const SUBMIT_ATTEMPTS = 3;

/** `muster run FILE...`: submits the work of the files, and follows it until it is over. */
export async function runFiles(cli: CommandLine, files: readonly string[], options: RunOptions): Promise<ExitCode> {
  const documents = await readFiles(cli, files, {
    read: (document) => readWork(cli.resources, document),
    titleOf: ({ kind, draft: { name } }) => ("exact" in name ? `${kind.noun} ${name.exact}` : undefined),
  });
  if (options.dryRun) {
    await checkDry(cli, documents);
    const plain = documents.map(({ value }) => value.draft.document);
    if (options.output === "json") printForms(cli.io, "json", { table: () => [], data: () => plain });
    else cli.io.out([plain.map(toYaml).join("\n---\n")]);
    return EXIT.ok;
  }
  const named = documents.map((placed) => ({ ...placed, name: nameOf(cli, placed) }));
  return inSpan("@muster/cli", "muster run", { attributes: { "muster.submitted": named.length } }, async (span) => {
    const code = await submitAndFollow(cli, named, options);
    if (code !== EXIT.ok) span.setStatus({ code: SpanStatusCode.ERROR, message: `exit code ${code}` });
    return code;
  });
}

function nameOf(cli: CommandLine, { value }: PlacedDocument<ReadWork>): string {
  const { name } = value.draft;
  return "exact" in name ? name.exact : name.prefix + cli.randomLetters(GENERATED_LENGTH);
}

/** Returns undefined if the service checks nothing. */
type Check = (named: Named) => Promise<CheckResult | undefined> | undefined;

/** Runs the checks of the services. Throws CommandError if they would refuse anything; resolves with their warnings. */
async function checkAll(
  cli: CommandLine,
  { link }: ConnectedCli,
  named: readonly Named[],
  check: Check = ({ value, name }) => value.draft.check?.(link, name),
): Promise<string[]> {
  const problems: DocumentProblem[] = [];
  const warned: string[] = [];
  let taken: string | undefined;
  for (const each of named) {
    const { value, name, placeOf } = each;
    const found = await check(each);
    if (found === undefined) continue;
    for (const { field, reason } of found.problems)
      problems.push({ ...placeOf(field), message: `${field}: ${reason}` });
    if (found.problems.some(({ field }) => field === "metadata.name"))
      taken ??= await adviseOnTakenName(link, value.kind, name);
    warned.push(...found.warnings.map((message) => `warning: ${value.kind.noun} ${name}: ${escapeControls(message)}`));
  }
  refuseProblems(cli, problems, taken);
  return warned;
}

/** Returns the advice about a name that is in use; undefined where the name is free or the answer is unknown. */
async function adviseOnTakenName(link: ServiceLink, kind: WorkKind, name: string): Promise<string | undefined> {
  try {
    const work = await kind.calls(link).get(name);
    const state = isFinished(work)
      ? `is over, and still exists: ${kind.goneBy(name)}`
      : `is not over: \`muster cancel ${kind.noun}/${name}\` ends it`;
    return `nothing was submitted; choose another name, or free this one. ${kind.noun}/${name} ${state}`;
  } catch (error) {
    if (findFault(error) === undefined) throw error;
    return undefined;
  }
}

/** A dry run succeeds without services, and prints a note. */
async function checkDry(cli: CommandLine, documents: readonly PlacedDocument<ReadWork>[]): Promise<void> {
  const named = documents.map((placed) => ({ ...placed, name: nameOf(cli, placed) }));
  const away = new Set<string>();
  try {
    await using connected = await cli.connect();
    const check: Check = async ({ value: { kind, draft }, name }) => {
      if (away.has(kind.controller)) return undefined;
      try {
        return await (draft.plan ?? draft.check)?.(connected.link, name);
      } catch (error) {
        if (!isAway(error)) throw error;
        away.add(kind.controller);
        return undefined;
      }
    };
    cli.io.err(await checkAll(cli, connected, named, check));
  } catch (error) {
    if (!isAway(error)) throw error;
    for (const { value } of named) away.add(value.kind.controller);
  }
  cli.io.err([...away].map((each) => `note: only the files were checked, because the ${each} does not answer`));
}

function isAway(error: unknown): boolean {
  return error instanceof CommandError ? error.exitCode === EXIT.unreachable : findFault(error) !== undefined;
}

async function submitAndFollow(cli: CommandLine, named: readonly Named[], options: RunOptions): Promise<ExitCode> {
  // The connection outlives the first Ctrl-C, which cancels the work over it.
  await using connected = await cli.connect(cli.interrupts.second);
  await checkAll(cli, connected, named);
  const { submitted, refused } = await submitAll(cli, connected, named);
  if (options.detach && !cli.interrupts.first.aborted) {
    printForms(cli.io, options.output, {
      table: () =>
        submitted.map(({ kind, name }) => `${kind} ${name} submitted; \`muster get ${kind} ${name}\` shows it`),
      data: () => submitted.map(buildWorkRecord),
    });
    return refused ?? EXIT.ok;
  }
  const ended = await followAll(cli, connected, submitted, options);
  const logged = ended.all.map((work) => ({
    work,
    calls: callsOf(cli, connected, work),
    target: buildShortTarget(cli, work),
  }));
  await showFailedLogs(cli, logged);
  printForms(cli.io, options.output, {
    table: (style) => ended.all.filter(isFinished).flatMap((work) => buildSummary(work, cli.now(), style)),
    data: () => ended.all.map(buildWorkRecord),
  });
  if (cli.interrupts.first.aborted) return EXIT.interrupted;
  const done = ended.all.every(({ outcome }) => outcome === "success");
  return refused ?? ended.lost ?? (done ? EXIT.ok : EXIT.failed);
}

/** Submits the work one by one. Reports a refusal and continues; the first refusal decides the exit code. */
async function submitAll(
  cli: CommandLine,
  connected: ConnectedCli,
  named: readonly Named[],
): Promise<{ submitted: Work[]; refused: ExitCode | undefined }> {
  const submitted: Work[] = [];
  let refused: ExitCode | undefined;
  for (const each of named) {
    if (cli.interrupts.first.aborted) break;
    try {
      const work = await submit(cli, connected, each);
      submitted.push(work);
      cli.io.err(work.warnings.map(({ message }) => `warning: ${titleOf(work)}: ${escapeControls(message)}`));
    } catch (error) {
      refused = refused ?? report(cli, `submitting ${each.value.kind.noun} ${each.name}`, error);
    }
  }
  return { submitted, refused };
}

/** Repeats unanswered attempts. An unanswered attempt may have taken effect; the next attempt finds its work by the request id. */
async function submit(
  cli: CommandLine,
  { link }: ConnectedCli,
  { value: { kind, draft }, name }: Named,
): Promise<Work> {
  const requestId = cli.randomId();
  for (let attempt = 1; ; attempt++) {
    try {
      return await draft.submit(link, { requestId, name });
    } catch (error) {
      const code = findFault(error)?.code;
      const unanswered = code === "deadline_exceeded" || code === "unavailable";
      if (!unanswered || attempt === SUBMIT_ATTEMPTS || cli.interrupts.first.aborted) throw error;
      cli.io.err([`submitting ${kind.noun} ${name} again: no answer`]);
    }
  }
}

/** Returns the calls for the work, in the namespace that its document may name. */
function callsOf(cli: CommandLine, { link }: ConnectedCli, { kind, namespace = link.namespace }: Work): WorkCalls {
  return (findResource(cli.resources, kind)?.work ?? cli.resources[0].work).calls({ ...link, namespace });
}

/** The title includes the kind (`session x`), because two kinds may use one name. */
function titleOf({ kind, name }: Work): string {
  return `${kind} ${name}`;
}

/** Follows all work. The first interrupt cancels it and waits for its end; the second interrupt and the timeout stop following without ending it. */
async function followAll(
  cli: CommandLine,
  connected: ConnectedCli,
  submitted: readonly Work[],
  options: RunOptions,
): Promise<{ all: Work[]; lost: ExitCode | undefined }> {
  const { interrupts } = cli;
  const timeout = new AbortController();
  const enough = new AbortController();
  const gone = new AbortController();
  const leave = AbortSignal.any([interrupts.second, timeout.signal, gone.signal]);
  const newest = new Map(submitted.map((work) => [titleOf(work), work]));
  const asked = new Map<string, Asked>();
  let lost: ExitCode | undefined;
  using view = makeProgressView(cli.io, cli.now);
  using contact = keepContact(cli, connected, (lines) => view.print(lines));
  for (const work of submitted) view.update(work);

  const cancelling = whenAborted(interrupts.first, enough.signal, () =>
    cancelAll({ cli, connected, view, newest: [...newest.values()], asked }),
  );
  if (options.timeoutMs !== undefined) void cli.pause(options.timeoutMs, enough.signal).then(() => timeout.abort());
  const changed = (work: Work): void => {
    newest.set(titleOf(work), work);
    view.update(work);
  };
  const watching = watchScaling(
    { cli, link: connected.link, view },
    () => newest.values(),
    AbortSignal.any([leave, enough.signal]),
  );
  await Promise.all(
    submitted.map(async (work) => {
      try {
        const { after: next } = callsOf(cli, connected, work);
        await followItem({ next, contact, title: titleOf(work), changed, isEnough: isFinished }, work, leave);
      } catch (error) {
        lost = lost ?? report(cli, `following ${titleOf(work)}`, error, view);
        // If the connection is lost for one item, it is lost for all items.
        if (error instanceof CommandError) gone.abort();
      }
    }),
  );
  enough.abort();
  await watching;
  if (!leave.aborted) await cancelling;
  const all = [...newest.values()];
  if (leave.aborted)
    reportLeftWork({ cli, view, all, asked, timeoutMs: timeout.signal.aborted ? options.timeoutMs : undefined });
  return { all, lost };
}

type Asked = "asked" | "answered";

type Cancelling = {
  readonly cli: CommandLine;
  readonly connected: ConnectedCli;
  readonly view: ProgressView;
  readonly newest: readonly Work[];
  /** Maps titles of work to whether a service has answered its cancellation. */
  readonly asked: Map<string, Asked>;
};

async function cancelAll({ cli, connected, view, newest, asked }: Cancelling): Promise<void> {
  const open = newest.filter((work) => !isFinished(work));
  if (open.length === 0) return;
  const names = open.map((work) => buildShortTarget(cli, work)).join(", ");
  view.print([`cancelling ${names} and waiting for the end; Ctrl-C again leaves immediately`]);
  await Promise.all(
    open.map(async (work) => {
      const title = titleOf(work);
      try {
        asked.set(title, "asked");
        await callsOf(cli, connected, work).cancel(work.name);
        asked.set(title, "answered");
      } catch (error) {
        // A request that the second Ctrl-C aborted may have arrived.
        if (cli.interrupts.second.aborted) return;
        asked.delete(title);
        report(cli, `cancelling ${title}`, error, view);
      }
    }),
  );
}

function reportLeftWork(left: {
  readonly cli: CommandLine;
  readonly view: ProgressView;
  readonly all: readonly Work[];
  readonly asked: ReadonlyMap<string, Asked>;
  readonly timeoutMs: number | undefined;
}): void {
  const why = left.timeoutMs === undefined ? "" : ` after ${formatDuration(left.timeoutMs)}`;
  const lines = left.all
    .filter((work) => !isFinished(work))
    .map((work) => {
      const title = titleOf(work);
      const cancel = `\`muster cancel ${buildShortTarget(left.cli, work)}\``;
      const shows = `\`muster get ${title}\` shows it`;
      const asked = work.cancelRequested ? "answered" : left.asked.get(title);
      if (asked === "answered") return `left${why}: ${title} is being cancelled; ${shows}`;
      return asked === "asked"
        ? `left${why}: no service confirmed that ${title} is being cancelled; ${shows}, ${cancel} requests it again`
        : `left${why}: ${title} continues; ${shows}, ${cancel} ends it`;
    });
  left.view.print(lines);
}

/** Reports the failure of one of several items, and returns its exit code. Rethrows a defect. */
function report(cli: CommandLine, doing: string, error: unknown, view?: ProgressView): ExitCode {
  const fault = findFault(error);
  if (fault === undefined && !(error instanceof CommandError)) throw error;
  const { exitCode, lines } = explainError(error, cli.resources, doing);
  if (view === undefined) cli.io.err(lines);
  else view.print(lines);
  return exitCode;
}

/** Acts when the first signal is aborted, unless the second was aborted before. Resolves when the action is done or no longer needed. */
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
