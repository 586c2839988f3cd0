import { findFault } from "@muster/faults";
import { makeFarmCalls, type FarmCalls } from "../adapters/farm-calls.ts";
import type { PlacedDocument, DocumentProblem } from "../adapters/parse-documents.ts";
import type { ReplicaSet } from "../adapters/farm-messages.ts";
import type { Cli, ConnectedCli } from "../cli.ts";
import { CommandError } from "../command-error.ts";
import { describeCounts, describeSetState, buildSetRecord } from "../domain/build-set-views.ts";
import { escapeControls } from "../domain/build-table.ts";
import { EXIT, type ExitCode } from "../domain/decide-exit.ts";
import { decideSetWait } from "../domain/decide-set-wait.ts";
import { describeTimeout } from "../domain/decide-wait.ts";
import { getSetPhase, SET_NOUN } from "../domain/replica-set.ts";
import { buildSetDocument, type SetDocument } from "../domain/set-document.ts";
import { askAboutSet, toDocumentField } from "../kinds/farm-refusals.ts";
import type { ApplyOperations, ApplyOptions, ApplyResult } from "../kinds/resource.ts";
import { followGoal } from "./follow.ts";

type Applied = Awaited<ReturnType<FarmCalls["apply"]>>;

/** `muster apply` of replica sets: the farms check all of them in a dry run before they get the first one. */
export const APPLY_SETS: ApplyOperations<SetDocument> = {
  titleOf: ({ name }) => `${SET_NOUN} ${name}`,
  prepare: (cli, documents, options) =>
    Promise.resolve(async (connected) => {
      const { sets, problems } = await checkAll(makeFarmCalls(connected.link), documents, options.replace);
      return { problems, send: () => applySets(cli, connected, { sets: documents, checked: sets }, options) };
    }),
};

async function applySets(
  cli: Cli,
  connected: ConnectedCli,
  { sets, checked }: { readonly sets: readonly PlacedDocument<SetDocument>[]; readonly checked: readonly Applied[] },
  options: ApplyOptions,
): Promise<ApplyResult> {
  const applied: Applied[] = [];
  const done = (each: Applied): void => {
    applied.push(each);
    const dry = options.dryRun ? " (dry run: nothing was done)" : "";
    if (options.output === "table") cli.io.out([`${SET_NOUN}/${each.set.name} ${each.outcome}${dry}`]);
  };
  if (options.dryRun) for (const each of checked) done(each);
  else
    for (const { value } of sets)
      done(
        await askAboutSet(connected, value.name, (asked) =>
          asked.apply(value, { replace: options.replace, dryRun: false }),
        ),
      );
  const code = options.wait && !options.dryRun ? await followAll(cli, connected, applied, options) : EXIT.ok;
  const records = options.dryRun
    ? sets.map(({ value }) => buildSetDocument(value))
    : applied.map(({ set, outcome }) => ({ outcome, ...buildSetRecord(set) }));
  return { code, records };
}

/** Returns the changes that the farms would make, and every problem that they would report, with its place. */
async function checkAll(
  farms: FarmCalls,
  documents: readonly PlacedDocument<SetDocument>[],
  replace: boolean,
): Promise<{ readonly sets: readonly Applied[]; readonly problems: readonly DocumentProblem[] }> {
  const problems: DocumentProblem[] = [];
  const checked: Applied[] = [];
  for (const { value, placeOf } of documents) {
    try {
      checked.push(await farms.apply(value, { replace, dryRun: true }));
    } catch (error) {
      const fault = findFault(error);
      if (fault?.code !== "invalid_request") throw error;
      const field = toDocumentField(fault.field);
      problems.push({ ...placeOf(field), message: `${field}: ${adviceOn(field, fault.reason, value)}` });
    }
  }
  return { sets: checked, problems };
}

function adviceOn(field: string, reason: string, { name }: SetDocument): string {
  return field === "spec.template" && reason.includes("`replace`")
    ? `${reason}. \`muster roll ${name} -f FILE --minimum N\`, with another name in the file, rolls it; \`muster apply --replace\` does not keep a minimum`
    : reason;
}

async function followAll(
  cli: Cli,
  connected: ConnectedCli,
  applied: readonly Applied[],
  { timeoutMs, output }: ApplyOptions,
): Promise<ExitCode> {
  for (const { set } of applied) {
    const code = await followSet(cli, connected, set, timeoutMs);
    if (code !== EXIT.ok) return code;
    if (output === "table") cli.io.out([`${SET_NOUN}/${set.name} ready`]);
  }
  return EXIT.ok;
}

const SETS = {
  decide: decideSetWait,
  next: ({ link }: ConnectedCli, { name }: ReplicaSet) => makeFarmCalls(link).get(name),
};
export const READY = { kind: "condition", type: "Ready", isTrue: true } as const;

export function buildSetTimeout(set: ReplicaSet, what: string, timeoutMs: number): CommandError {
  return new CommandError(EXIT.failed, describeTimeout(timeoutMs, what, describeSetState(set)), {
    hint: `\`muster explain ${SET_NOUN}/${set.name}\` shows why`,
  });
}

/** Waits until the set has all replicas and they are ready. Throws CommandError on timeout. */
async function followSet(
  cli: Cli,
  connected: ConnectedCli,
  start: ReplicaSet,
  timeoutMs: number | undefined,
): Promise<ExitCode> {
  const target = `${SET_NOUN}/${start.name}`;
  const { last, verdict } = await followGoal(cli, connected, SETS, start, {
    ...{ goal: READY, timeoutMs },
    line: (set) => {
      const trouble = set.trouble === undefined ? "" : ` (${escapeControls(set.trouble.message)})`;
      return `${target} ${getSetPhase(set)}: ${describeCounts(set)}${trouble}`;
    },
    left: () => `${SET_NOUN} ${start.name} continues; \`muster explain ${target}\` shows its progress`,
  });
  if (verdict === "interrupted") return EXIT.interrupted;
  if (verdict === "open") throw buildSetTimeout(last, "all replicas to be ready", timeoutMs ?? 0);
  if (verdict !== "met" || last.deletion !== undefined)
    throw new CommandError(EXIT.failed, `${SET_NOUN} ${start.name} was deleted before its replicas were ready`);
  return EXIT.ok;
}
