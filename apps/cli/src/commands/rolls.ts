import { unlessMissing, formatDuration } from "@muster/faults";
import { farmCalls, type FarmCalls, type RollChange, type RollRequest } from "../adapters/farm-calls.ts";
import type { Cli, Connected } from "../cli.ts";
import { CommandError } from "../command-error.ts";
import { buildRecord } from "../domain/build-record.ts";
import { adviseRoll, buildRollLine, buildRollTable, describeCounts, describeRoll } from "../domain/build-set-views.ts";
import { EXIT, type ExitCode } from "../domain/decide-exit.ts";
import type { Wish } from "../domain/decide-wait.ts";
import { decideRolled, decideRollEnd, decideRollWait, ROLL_CONDITIONS } from "../domain/decide-set-wait.ts";
import { nearestName } from "@muster/documents";
import { isSettled, SET_NOUN, type ReplicaSet, type Roll } from "../domain/replica-set.ts";
import { readOneSet } from "./apply.ts";
import { askOfSet } from "./farm-questions.ts";
import { print, type Format } from "./output.ts";
import { lookUntil } from "./look-until.ts";
import { waitFor, type Waited, type WaitOptions } from "./wait.ts";

const NEAR_LENGTH_MIN = 3;
/** For pods that a roll did not need to be ready: longer than one takes that is well. */
const ROLLED_PATIENCE_MS = 60_000;

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
export async function startRoll(cli: Cli, options: StartRoll): Promise<ExitCode> {
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

/** Told by the words of the document: left out, the pod id is the set's own name. */
function refuseOtherPodId({ name, spec }: ReplicaSet, newSet: string, podId: string): void {
  const wanted = podId === "" ? newSet : podId;
  if (wanted === spec.podId) return;
  throw new CommandError(
    EXIT.usage,
    `${newSet} has pod id "${wanted}", and ${name} has "${spec.podId}": only pods of one pod id give way to each other on a node`,
    { hint: `write \`podId: ${spec.podId}\` into the spec of ${newSet}` },
  );
}

/** `muster roll status NAME` and, with `follow` false, `muster roll get NAME`. */
export async function showRoll(
  cli: Cli,
  name: string | undefined,
  { follow, timeoutMs, output }: FollowOptions,
): Promise<ExitCode> {
  await using connected = await cli.connect();
  if (name !== undefined && follow) {
    const roll = await findRoll(connected, name);
    return await followRoll(cli, connected, roll, { timeoutMs, output });
  }
  const rolls = name === undefined ? await farmCalls(connected.link).rolls() : [await findRoll(connected, name)];
  const records = rolls.map(buildRecord);
  print(cli.io, output, {
    table: (style) => (rolls.length === 0 ? ["no rolling updates"] : buildRollTable(rolls, cli.now(), style)),
    data: () => (name === undefined ? records : records[0]),
  });
  return EXIT.ok;
}

/** `muster roll pause`, `resume`, `undo` and `redo`. */
export async function changeRoll(
  cli: Cli,
  name: string,
  {
    change,
    minimum,
    follow,
    timeoutMs,
    output,
  }: FollowOptions & { readonly change: RollChange; readonly minimum: number | undefined },
): Promise<ExitCode> {
  await using connected = await cli.connect();
  const { id } = await findRoll(connected, name);
  const roll = await askOfSet(connected, name, (farms) => farms.changeRoll(id, change, minimum));
  if (follow) return await followRoll(cli, connected, roll, { timeoutMs, output });
  const said = {
    PAUSE: `is paused: both sets stay as they are until \`muster roll resume ${id}\``,
    RESUME: "goes on",
    UNDO: `goes back: ${describeRoll(roll)}`,
    REDO: `goes forward again: ${describeRoll(roll)}`,
  }[change];
  print(cli.io, output, { table: () => [`roll/${id} ${said}`], data: () => buildRecord(roll) });
  return EXIT.ok;
}

/** By its own name, which is that of its new set, or by either of its sets. Throws CommandError where there is none. */
async function findRoll({ link }: Connected, name: string): Promise<Roll> {
  const farms = farmCalls(link);
  const rolls = await farms.rolls();
  const found =
    rolls.find(({ id }) => id === name) ?? rolls.find(({ oldSet, newSet }) => oldSet === name || newSet === name);
  if (found !== undefined) return found;
  throw new CommandError(EXIT.refused, `there is no rolling update of ${name}`, {
    hint: await hintForNone(farms, name, rolls),
  });
}

async function hintForNone(farms: FarmCalls, name: string, rolls: readonly Roll[]): Promise<string> {
  const over = `none goes on; \`muster audit ${name}\` shows those that are over`;
  // Of one that was undone the set is gone, and its trail is not.
  if ((await unlessMissing(farms.get(name))) !== undefined || (await farms.audit(name, 1)).length > 0) return over;
  const names = rolls.flatMap(({ id, oldSet, newSet }) => [id, oldSet, newSet]);
  // Of two letters every name is near.
  const near = name.length < NEAR_LENGTH_MIN ? undefined : nearestName(name, names);
  return near === undefined ? "`muster get rolls` shows those that go on" : `did you mean "${near}"?`;
}

/** Tells how it goes on until it is over. */
async function followRoll(
  cli: Cli,
  connected: Connected,
  start: Roll,
  { timeoutMs, output }: { readonly timeoutMs: number | undefined; readonly output: Format },
): Promise<ExitCode> {
  const farms = farmCalls(connected.link);
  let said = "";
  const say = (roll: Roll): boolean => {
    const line = buildRollLine(roll);
    if (line !== said) cli.io.err([line]);
    said = line;
    return false;
  };
  const look = (): Promise<Roll> => farms.getRoll(start.id);
  const { last, end } = await lookUntil(cli, connected, { start, look, isEnough: say, timeoutMs });
  if (end !== "gone") {
    const goesOn = `roll ${last.id} goes on; \`muster roll pause ${last.id}\` stops it, ${adviseRoll(last)}`;
    if (end === "interrupted") {
      cli.io.err([`left: ${goesOn}`]);
      return EXIT.interrupted;
    }
    const message = `timed out after ${formatDuration(timeoutMs ?? 0)}: ${buildRollLine(last)}`;
    throw new CommandError(EXIT.failed, message, { hint: goesOn });
  }
  const ended = await unlessMissing(farms.get(last.newSet));
  const isComplete = decideRollEnd(start, last, ended) === "complete";
  const rolled = isComplete && ended !== undefined ? await untilRolled(cli, connected, ended, timeoutMs) : undefined;
  const set = rolled?.set ?? ended;
  if (isComplete || output !== "table") {
    const data = { ...last, outcome: isComplete ? "complete" : "undone" };
    print(cli.io, output, {
      table: () => [
        `roll/${last.id} complete: ${last.newSet}${set === undefined ? "" : ` has ${describeCounts(set)}`}`,
      ],
      data: () => buildRecord(data),
    });
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
    `roll ${start.id} did not come to its end: it was undone, gave way to another roll of one of its sets, or a set was deleted`,
    {
      hint: `\`muster audit ${last.oldSet}\` and \`muster audit ${last.newSet}\` tell what was done`,
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
  let isReady = false;
  const { last } = await lookUntil(cli, connected, {
    start: set,
    look: () => farmCalls(connected.link).get(set.name),
    isEnough: (seen) => {
      sinceMs = isSettled(seen) ? (sinceMs ?? cli.now()) : undefined;
      const verdict = decideRolled(seen, cli.now() - (sinceMs ?? cli.now()));
      isReady = verdict === "met";
      return seen.uid !== set.uid || verdict !== "open";
    },
    timeoutMs: Math.min(timeoutMs ?? Infinity, ROLLED_PATIENCE_MS + 1000 * set.spec.minReadySeconds),
  });
  return { set: last, isReady };
}

/** `muster wait roll/NAME --for WISH`; one that is over is complete, and deleted. */
export function waitForRoll(cli: Cli, name: string, options: WaitOptions): Promise<ExitCode> {
  const waited: Waited<Roll> = {
    noun: "roll",
    conditions: ROLL_CONDITIONS,
    nameOf: (roll) => roll?.id ?? name,
    find: (connected) => findRoll(connected, name),
    look: ({ link }, { id }) => ({ look: () => farmCalls(link).getRoll(id) }),
    decide: decideRollWait,
    isMetByDeletion: ({ link }, start, last, wish) => isMetByEnd(farmCalls(link), { start, last, wish }),
    record: buildRecord,
    describe: buildRollLine,
    explained: ({ newSet }) => `${SET_NOUN}/${newSet}`,
  };
  return waitFor(cli, waited, options);
}

async function isMetByEnd(
  farms: FarmCalls,
  { start, last, wish }: { readonly start: Roll; readonly last: Roll; readonly wish: Wish },
): Promise<boolean> {
  if (wish.for === "delete") return true;
  if (wish.type.toLowerCase() !== "complete" || !wish.is) return !wish.is;
  return decideRollEnd(start, last, await unlessMissing(farms.get(last.newSet))) === "complete";
}
