import { unlessMissing } from "@muster/faults";
import { farmCalls, type RollChange, type RollRequest } from "../adapters/farm-calls.ts";
import type { Cli, Connected } from "../cli.ts";
import { CommandError } from "../command-error.ts";
import { buildRecord } from "../domain/build-record.ts";
import { adviseRoll, buildRollLine, describeCounts, describeRoll } from "../domain/build-set-views.ts";
import { EXIT, type ExitCode } from "../domain/decide-exit.ts";
import { describeTimeoutOf, type WaitVerdict } from "../domain/decide-wait.ts";
import { decideRolled, decideRollEnd } from "../domain/decide-set-wait.ts";
import type { SetDocument } from "../domain/set-document.ts";
import { isSettled, SET_NOUN } from "../domain/replica-set.ts";
import type { ReplicaSet, Roll } from "../adapters/farm-messages.ts";
import { askOfSet } from "../kinds/farm-refusals.ts";
import { readOne } from "../kinds/documents.ts";
import { LEASE_DOCUMENTS } from "../kinds/lease.ts";
import { SET_DOCUMENTS } from "../kinds/replica-set.ts";
import type { CommandLine } from "../kinds/resources.ts";
import { findRoll } from "../kinds/roll.ts";
import { APPLY_SETS, READY } from "./apply-sets.ts";
import { followGoal } from "./follow.ts";
import { print, printLine, type Format } from "./output.ts";
import { readFiles } from "./read-files.ts";

/** For pods that a roll did not need to be ready: longer than a healthy pod takes. */
const MAX_SETTLING_MS = 60_000;

export type FollowOptions = {
  readonly follow: boolean;
  readonly timeoutMs: number | undefined;
  readonly output: Format;
};

export type StartRoll = FollowOptions &
  Omit<RollRequest, "newSet" | "spec"> & {
    /** The file of the new set, or the name of one that exists. */
    readonly to: { readonly file: string } | { readonly set: string };
  };

/** `muster roll OLD -f FILE --minimum N`: moves from one set to another, and keeps a minimum ready. */
export async function startRoll(cli: CommandLine, options: StartRoll): Promise<ExitCode> {
  const { to, replicas, follow, timeoutMs, output, ...rest } = options;
  const document = "file" in to ? await readOneSet(cli, to.file) : undefined;
  const newSet = document?.name ?? ("set" in to ? to.set : "");
  await using connected = await cli.connect();
  const old = await askOfSet(connected, rest.oldSet, (farms) => farms.get(rest.oldSet));
  if (document !== undefined) refuseOtherPodId(old, document.name, document.spec.podId);
  const request = { ...rest, newSet, spec: document?.spec, replicas: replicas ?? document?.spec.replicas };
  const roll = await askOfSet(connected, rest.oldSet, (farms) => farms.roll(request));
  if (follow) {
    cli.io.err([describeRoll(roll)]);
    return await followRoll(cli, connected, roll, { timeoutMs, output });
  }
  print(cli.io, output, {
    table: () => [`roll/${roll.id} started: ${describeRoll(roll)}`, `\`muster roll status ${roll.id}\` follows it`],
    data: () => buildRecord(roll),
  });
  return EXIT.ok;
}

/** The one set of a file. Throws CommandError for any problem in the file. */
async function readOneSet(cli: CommandLine, file: string): Promise<SetDocument> {
  const [only, ...others] = await readFiles(cli, [file], {
    read: (document) => readOne(cli.resources, SET_DOCUMENTS, document, LEASE_DOCUMENTS.words),
    titleOf: APPLY_SETS.titleOf,
  });
  if (only === undefined || others.length > 0)
    throw new CommandError(EXIT.usage, `${file} has ${others.length + 1} documents; one is needed`);
  return only.value;
}

/** Compares pod ids as documents have them: one that is left out is the name of the set. */
function refuseOtherPodId({ name, spec }: ReplicaSet, newSet: string, podId: string): void {
  const desired = podId === "" ? newSet : podId;
  if (desired === spec.podId) return;
  throw new CommandError(
    EXIT.usage,
    `${newSet} has pod id "${desired}", and ${name} has "${spec.podId}": only pods of one pod id give way to each other on a node`,
    { hint: `write \`podId: ${spec.podId}\` into the spec of ${newSet}` },
  );
}

/** `muster roll status NAME` */
export async function showRollStatus(
  cli: Cli,
  name: string,
  options: Pick<FollowOptions, "timeoutMs" | "output">,
): Promise<ExitCode> {
  await using connected = await cli.connect();
  return await followRoll(cli, connected, await findRoll(connected, name), options);
}

type ChangeRoll = FollowOptions & { readonly change: RollChange; readonly minimum: number | undefined };

/** `muster roll pause`, `resume`, `undo` and `redo`. */
export async function changeRoll(
  cli: Cli,
  name: string,
  { change, minimum, follow, timeoutMs, output }: ChangeRoll,
): Promise<ExitCode> {
  await using connected = await cli.connect();
  const { id } = await findRoll(connected, name);
  const roll = await askOfSet(connected, name, (farms) => farms.changeRoll(id, change, minimum));
  if (follow) return await followRoll(cli, connected, roll, { timeoutMs, output });
  const said = {
    PAUSE: `is paused: both sets stay as they are until \`muster roll resume ${id}\``,
    RESUME: "continues",
    UNDO: `goes back: ${describeRoll(roll)}`,
    REDO: `goes forward again: ${describeRoll(roll)}`,
  }[change];
  printLine(cli.io, output, `roll/${id} ${said}`, () => buildRecord(roll));
  return EXIT.ok;
}

/** Prints its progress until it is over. */
async function followRoll(
  cli: Cli,
  connected: Connected,
  start: Roll,
  { timeoutMs, output }: Pick<FollowOptions, "timeoutMs" | "output">,
): Promise<ExitCode> {
  const farms = farmCalls(connected.link);
  const continues = (roll: Roll): string =>
    `roll ${roll.id} continues; \`muster roll pause ${roll.id}\` stops it, ${adviseRoll(roll)}`;
  const { last, verdict } = await followGoal(
    cli,
    connected,
    { decide: () => "open", next: () => farms.getRoll(start.id) },
    start,
    { goal: { kind: "delete" }, timeoutMs, line: buildRollLine, left: continues },
  );
  if (verdict === "interrupted") return EXIT.interrupted;
  if (verdict === "open")
    throw new CommandError(EXIT.failed, describeTimeoutOf(timeoutMs, buildRollLine(last)), { hint: continues(last) });
  const ended = await unlessMissing(farms.get(last.newSet));
  const isComplete = decideRollEnd(start, last, ended) === "complete";
  const rolled = isComplete && ended !== undefined ? await untilRolled(cli, connected, ended, timeoutMs) : undefined;
  const set = rolled?.set ?? ended;
  if (isComplete || output !== "table") {
    const line = `roll/${last.id} complete: ${last.newSet}${set === undefined ? "" : ` has ${describeCounts(set)}`}`;
    printLine(cli.io, output, line, () => buildRecord({ ...last, outcome: isComplete ? "complete" : "undone" }));
  }
  if (rolled?.isReady === false)
    throw new CommandError(
      EXIT.failed,
      `roll ${last.id} is complete, and not all pods of ${last.newSet} are ready for good`,
      {
        hint: `\`muster explain ${SET_NOUN}/${last.newSet}\` says why; \`muster wait ${SET_NOUN}/${last.newSet} --for=condition=Ready\` waits on`,
      },
    );
  if (isComplete) return EXIT.ok;
  throw new CommandError(
    EXIT.failed,
    `roll ${start.id} did not complete: it was undone, gave way to another roll of one of its sets, or a set was deleted`,
    {
      hint: `\`muster audit ${last.oldSet}\` and \`muster audit ${last.newSet}\` show what was done`,
    },
  );
}

/** The set once its pods are ready, or will not be; a roll does not wait for the last ones. */
async function untilRolled(
  cli: Cli,
  connected: Connected,
  set: ReplicaSet,
  timeoutMs: number | undefined,
): Promise<{ readonly set: ReplicaSet; readonly isReady: boolean }> {
  let sinceMs: number | undefined;
  const decide = (seen: ReplicaSet): WaitVerdict => {
    sinceMs = isSettled(seen) ? (sinceMs ?? cli.now()) : undefined;
    return decideRolled(seen, cli.now() - (sinceMs ?? cli.now()));
  };
  const { last, verdict } = await followGoal(
    cli,
    connected,
    { decide, uidOf: ({ uid }) => uid, next: () => farmCalls(connected.link).get(set.name) },
    set,
    { goal: READY, timeoutMs: Math.min(timeoutMs ?? Infinity, MAX_SETTLING_MS + 1000 * set.spec.minReadySeconds) },
  );
  return { set: last, isReady: verdict === "met" };
}
