import { unlessMissing, formatDuration } from "@muster/faults";
import type { Cli, Connected } from "../cli.ts";
import { CommandError } from "../command-error.ts";
import { buildRecord } from "../domain/build-record.ts";
import {
  buildAuditTable,
  buildSetDescription,
  buildSetTable,
  describeCounts,
  describeMove,
  withPhase,
} from "../domain/build-set-views.ts";
import { plain } from "../domain/build-table.ts";
import { EXIT, type ExitCode } from "../domain/decide-exit.ts";
import { decideSetWait, SET_CONDITIONS } from "../domain/decide-set-wait.ts";
import { buildSetExplanation, explainSet } from "../domain/explain-set.ts";
import { phaseOfSet, SET_NOUN, UNREADABLE, type ExplainedSet, type ReplicaSet } from "../domain/replica-set.ts";
import { farmCalls, type FarmCalls } from "../adapters/farm-calls.ts";
import { askOfSet } from "./farm-questions.ts";
import { print, type Format } from "./output.ts";
import { lookUntil } from "./look-until.ts";
import { findUnlessDeleted, waitFor, type Waited, type WaitOptions } from "./wait.ts";

/** `muster get replica-sets [NAME]` */
export async function getSets(cli: Cli, name: string | undefined, format: Format): Promise<ExitCode> {
  await using connected = await cli.connect();
  const sets =
    name === undefined
      ? await farmCalls(connected.link).list()
      : [await askOfSet(connected, name, (farms) => farms.get(name))];
  const unreadable = name === undefined ? await farmCalls(connected.link).unreadable() : [];
  const records = [
    ...sets.map(recordOf),
    ...unreadable.map((each) => ({ kind: SET_NOUN, phase: UNREADABLE, ...each })),
  ];
  print(cli.io, format, {
    table: (style) => (records.length === 0 ? ["no replica sets"] : buildSetTable(sets, unreadable, cli.now(), style)),
    data: () => (name === undefined ? records : records[0]),
  });
  return EXIT.ok;
}

/** `muster describe replica-set NAME` */
export async function describeSet(cli: Cli, name: string, format: Format): Promise<ExitCode> {
  await using connected = await cli.connect();
  const set = await askOfSet(connected, name, (farms) => farms.get(name));
  print(cli.io, format, { table: (style) => buildSetDescription(set, style), data: () => recordOf(set) });
  return EXIT.ok;
}

/** `muster explain replica-set/NAME`; undefined where there is no such set, so that the ledger may know the name. */
export async function explainReplicaSet(
  cli: Cli,
  connected: Connected,
  name: string,
  format: Format,
): Promise<ExitCode | undefined> {
  const explained = await unlessMissing(farmCalls(connected.link).explain(name));
  if (explained === undefined) return undefined;
  print(cli.io, format, {
    table: (style) => buildSetExplanation(explained, cli.now(), style),
    data: () => explanationRecord(explained, cli.now()),
  });
  return EXIT.ok;
}

function explanationRecord({ set, roll, ...nodes }: ExplainedSet, nowMs: number): Record<string, unknown> {
  const explanation = explainSet({ set, roll, ...nodes }, nowMs);
  return {
    [SET_NOUN]: set.name,
    phase: phaseOfSet(set),
    ...explanation,
    owner: set.farm,
    set: recordOf(set),
    roll: roll && buildRecord(roll),
    ...nodes,
  };
}

type Changed = { readonly name: string; readonly format: Format };

/** Asks for one change, and says what came of it. */
async function changeSet(
  cli: Cli,
  { name, format }: Changed,
  change: (farms: FarmCalls) => Promise<ReplicaSet>,
  describe: (set: ReplicaSet) => string,
): Promise<ExitCode> {
  await using connected = await cli.connect();
  const set = await askOfSet(connected, name, change);
  print(cli.io, format, { table: () => [`${SET_NOUN}/${name} ${describe(set)}`], data: () => recordOf(set) });
  return EXIT.ok;
}

/** `muster scale NAME --replicas N` */
export function scaleSet(
  cli: Cli,
  { replicas, expected, ...changed }: Changed & { readonly replicas: number; readonly expected: number | undefined },
): Promise<ExitCode> {
  const ask = (farms: FarmCalls): Promise<ReplicaSet> => farms.scale(changed.name, replicas, expected);
  return changeSet(cli, changed, ask, (set) => `scaled: ${describeCounts(set)}`);
}

/** `muster enable NAME` and `muster disable NAME` */
export function enableSet(
  cli: Cli,
  { enabled, ...changed }: Changed & { readonly enabled: boolean },
): Promise<ExitCode> {
  const ask = (farms: FarmCalls): Promise<ReplicaSet> => farms.enable(changed.name, enabled);
  return changeSet(cli, changed, ask, (set) =>
    enabled ? `enabled: ${describeCounts(set)}` : `disabled: its ${set.replicas.length} pods stay as they are`,
  );
}

/** `muster transfer NAME --from NODE` */
export function transferSet(
  cli: Cli,
  { from, to, ...changed }: Changed & { readonly from: string; readonly to: string },
): Promise<ExitCode> {
  const ask = (farms: FarmCalls): Promise<ReplicaSet> => farms.transfer(changed.name, from, to);
  return changeSet(cli, changed, ask, ({ name, transfer }) =>
    transfer === undefined
      ? `has left ${from}`
      : `${describeMove(transfer)}; \`muster wait ${SET_NOUN}/${name} --for=condition=Transferring=false\` waits for the end`,
  );
}

/** `muster transfer NAME --hold` and `--release` */
export function holdSet(
  cli: Cli,
  { hold, ...changed }: Changed & { readonly hold: { readonly by: string; readonly because: string } | undefined },
): Promise<ExitCode> {
  const ask = (farms: FarmCalls): Promise<ReplicaSet> => farms.hold(changed.name, hold);
  return changeSet(cli, changed, ask, ({ name, transfer }) => {
    if (hold === undefined) return "may leave nodes again";
    const open = transfer === undefined ? "" : "; the transfer that is under way goes on";
    return `leaves no node until \`muster transfer ${name} --release\`${open}`;
  });
}

/** `muster delete NAME`; with `wait` until it is gone. */
export async function deleteSet(
  cli: Cli,
  options: Changed & {
    readonly force: boolean;
    readonly keepPods: boolean;
    readonly wait: boolean;
    readonly timeoutMs: number;
  },
): Promise<ExitCode> {
  const { name, format, force, keepPods, wait, timeoutMs } = options;
  await using connected = await cli.connect();
  const set = await askOfSet(connected, name, (farms) => farms.delete(name, { force: force || keepPods, keepPods }));
  if (set === undefined) {
    const said = `the record of ${SET_NOUN}/${name}, which could not be read, is gone; its pods follow within minutes`;
    print(cli.io, format, { table: () => [said], data: () => ({ kind: SET_NOUN, name, phase: UNREADABLE }) });
    return EXIT.ok;
  }
  const pods = set.deletion?.keepPods === true ? ", and its pods stay" : "";
  if (!wait) {
    const said = `${SET_NOUN}/${name} is being deleted${pods}`;
    print(cli.io, format, { table: () => [said], data: () => recordOf(set) });
    return EXIT.ok;
  }
  const look = (): Promise<ReplicaSet> => farmCalls(connected.link).get(name);
  const isEnough = ({ uid }: ReplicaSet): boolean => uid !== set.uid;
  const { last, end } = await lookUntil(cli, connected, { start: set, look, isEnough, timeoutMs });
  if (end === "interrupted") return EXIT.interrupted;
  if (end === "timeout") throw timedOut(last, "deletion", timeoutMs);
  print(cli.io, format, { table: () => [`${SET_NOUN}/${name} deleted${pods}`], data: () => recordOf(last) });
  return EXIT.ok;
}

/** `muster audit NAME` */
export async function auditSet(
  cli: Cli,
  { name, limit, format }: Changed & { readonly limit: number },
): Promise<ExitCode> {
  await using connected = await cli.connect();
  const audits = await askOfSet(connected, name, (farms) => farms.audit(name, limit));
  if (audits.length === 0) {
    // Of a set that was deleted the trail is still there; that there is none may be a slip in the name.
    await askOfSet(connected, name, (farms) => farms.get(name));
  }
  print(cli.io, format, {
    table: (style) => (audits.length === 0 ? [`nothing is audited of ${name} yet`] : buildAuditTable(audits, style)),
    data: () => audits.map(({ details, ...audit }) => ({ ...buildRecord(audit), details })),
  });
  return EXIT.ok;
}

/** `muster wait replica-set/NAME --for WISH` */
export function waitForSet(cli: Cli, name: string, options: WaitOptions): Promise<ExitCode> {
  const waited: Waited<ReplicaSet> = {
    noun: SET_NOUN,
    conditions: SET_CONDITIONS,
    nameOf: () => name,
    find: (connected, wish) => askOfSet(connected, name, (farms) => findUnlessDeleted(wish, farms.get(name))),
    look: ({ link }) => ({ look: () => farmCalls(link).get(name) }),
    isAnother: ({ uid }, start) => uid !== start.uid,
    decide: decideSetWait,
    record: recordOf,
    describe: describeSetState,
    explained: () => `${SET_NOUN}/${name}`,
  };
  return waitFor(cli, waited, options);
}

/** Waits until the set has all replicas, and they are ready; throws CommandError when that takes too long. */
export async function followSet(
  cli: Cli,
  connected: Connected,
  start: ReplicaSet,
  timeoutMs: number | undefined,
): Promise<ExitCode> {
  let said = "";
  const wish = { for: "condition", type: "Ready", is: true } as const;
  const say = (set: ReplicaSet): void => {
    const line = `${SET_NOUN}/${set.name} ${phaseOfSet(set)}: ${describeCounts(set)}${set.trouble === undefined ? "" : ` (${plain(set.trouble.message)})`}`;
    if (line !== said) cli.io.err([line]);
    said = line;
  };
  say(start);
  const { last, end } = await lookUntil(cli, connected, {
    start,
    look: () => farmCalls(connected.link).get(start.name),
    isEnough: (set) => {
      say(set);
      return decideSetWait(set, wish) !== "open";
    },
    timeoutMs,
  });
  if (end === "interrupted") {
    cli.io.err([
      `left: ${SET_NOUN} ${start.name} goes on; \`muster explain ${SET_NOUN}/${start.name}\` says how far it is`,
    ]);
    return EXIT.interrupted;
  }
  if (end === "timeout") throw timedOut(last, "all replicas to be ready", timeoutMs ?? 0);
  if (end === "gone" || last.deletion !== undefined)
    throw new CommandError(EXIT.failed, `${SET_NOUN} ${start.name} was deleted before its replicas were ready`);
  return EXIT.ok;
}

function timedOut(set: ReplicaSet, what: string, timeoutMs: number): CommandError {
  const now = describeSetState(set);
  return new CommandError(EXIT.failed, `timed out after ${formatDuration(timeoutMs)} waiting for ${what}: ${now}`, {
    hint: `\`muster explain ${SET_NOUN}/${set.name}\` says why`,
  });
}

function describeSetState(set: ReplicaSet): string {
  return `${SET_NOUN} ${set.name} is ${phaseOfSet(set)}: ${describeCounts(set)}`;
}

/** What others have written, such as the template, keeps its names. */
export function recordOf(set: ReplicaSet): Record<string, unknown> {
  const { spec, ...rest } = withPhase(set);
  return { ...buildRecord(rest), spec };
}
