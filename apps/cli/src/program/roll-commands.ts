import { unlessMissing } from "@muster/faults";
import { makeFarmCalls, type RollChange } from "../adapters/farm-calls.ts";
import type { ReplicaSet, RolloutRecord } from "../adapters/farm-messages.ts";
import type { Cli, ConnectedCli } from "../cli.ts";
import { CommandError } from "../command-error.ts";
import { APPLY_SETS, READY } from "../commands/apply-sets.ts";
import { followGoal } from "../commands/follow.ts";
import { getItems } from "../commands/get.ts";
import { type Format, printForms, printLine } from "../commands/output.ts";
import { readFiles } from "../commands/read-files.ts";
import { buildRecord } from "../domain/build-record.ts";
import { adviseRoll, buildRollLine, describeCounts, describeRoll } from "../domain/build-set-views.ts";
import { EXIT, type ExitCode } from "../domain/decide-exit.ts";
import { decideRolled, decideRollEnd } from "../domain/decide-set-wait.ts";
import { describeTimeoutOf, type WaitVerdict } from "../domain/decide-wait.ts";
import { isSettled, SET_NOUN } from "../domain/replica-set.ts";
import type { SetDocument } from "../domain/set-document.ts";
import { readOne } from "../kinds/documents.ts";
import { askAboutSet } from "../kinds/farm-refusals.ts";
import { LEASE_DOCUMENTS } from "../kinds/lease.ts";
import { REPLICA_SET, SET_DOCUMENTS } from "../kinds/replica-set.ts";
import { type CommandLine, findResource, getKindName, splitTarget } from "../kinds/resources.ts";
import { findRoll, ROLL } from "../kinds/roll.ts";
import { argument, defineCommand, type CommandRow, excluding, option, required, withDefault } from "./command-row.ts";
import { parseDurationArgument } from "./parse-values.ts";
import { replicaCount } from "./set-commands.ts";
import { OUTPUT, defineTimeoutOption } from "./shared-options.ts";

/** Waits this long for pods that a roll did not need to be ready: longer than a healthy pod takes. */
const MAX_SETTLING_MS = 60_000;

const ROLL_ARGUMENT = argument("<roll>", "name of the rolling update, or of one of its sets");

const FOLLOWED = {
  follow: option("--follow", "print its progress until it is over"),
  timeoutMs: defineTimeoutOption("with --follow: exit with 1 when it takes longer"),
  output: OUTPUT,
};

const START = defineCommand({
  name: "start",
  isDefault: true,
  description: "Start a rolling update; the same as `roll` alone.",
  arguments: [argument("<set>", "name of the replica set that has the pods now")],
  options: {
    file: option("-f, --filename <file>", "YAML file of the new set: another name, the same podId"),
    to: excluding(option("--to <set>", "an existing set as the new set, such as after a canary"), ["filename"]),
    minimum: required(
      option("--minimum <n>", "keep at least this many replicas ready, in both sets together", replicaCount),
    ),
    replicas: option(
      "--replicas <n>",
      "replicas of the new set; default: as in its file, or the sum of both sets",
      replicaCount,
    ),
    canary: excluding(
      option("--canary <n>", "move only this many replicas to the new set; the old set keeps the rest", replicaCount),
      ["replicas", "leaveOld"],
    ),
    leaveOld: option("--leave-old", "keep the old set with its remaining replicas"),
    delayMs: option("--delay <duration>", "wait between two steps, such as 30s", parseDurationArgument),
    ...FOLLOWED,
  },
  examples: [
    "muster roll web -f web-2.yaml --minimum 2",
    "muster roll web -f web-2.yaml --minimum 2 --delay 30s --follow",
    "muster roll web -f web-2.yaml --canary 1 --minimum 2",
    "muster roll web --to web-2 --replicas 3 --minimum 2",
  ],
  run: async (cli, [set], { file, to = "", minimum, canary, replicas, leaveOld, delayMs = 0, follow, ...rest }) => {
    if (file === undefined && to === "")
      throw new CommandError(EXIT.usage, "the new set is missing", {
        hint: `muster roll ${set} -f FILE --minimum ${minimum}, or --to NAME of an existing set`,
      });
    const given = file === undefined ? getKindName(REPLICA_SET, to) : "";
    const oldSet = getKindName(REPLICA_SET, set);
    const document = file === undefined ? undefined : await readOneSet(cli, file);
    const newSet = document?.name ?? given;
    await using connected = await cli.connect();
    const old = await askAboutSet(connected, oldSet, (farms) => farms.get(oldSet));
    if (document !== undefined) refuseOtherPodId(old, document.name, document.spec.podId);
    const numbers = { replicas: canary ?? replicas ?? document?.spec.replicas, minimum, delayMs };
    const leaves = canary !== undefined || leaveOld;
    const request = { oldSet, newSet, spec: document?.spec, ...numbers, leaveOld: leaves };
    const roll = await askAboutSet(connected, oldSet, (farms) => farms.roll(request));
    if (follow) {
      cli.io.err([describeRoll(roll)]);
      return await followRoll(cli, connected, roll, rest);
    }
    printForms(cli.io, rest.output, {
      table: () => [`roll/${roll.id} started: ${describeRoll(roll)}`, `\`muster roll status ${roll.id}\` follows it`],
      data: () => buildRecord(roll),
    });
    return EXIT.ok;
  },
});

const STATUS = defineCommand({
  name: "status",
  description: "Follow a rolling update until it is over.",
  arguments: [ROLL_ARGUMENT],
  options: {
    follow: withDefault(option("--no-follow", "only show its state"), true),
    timeoutMs: defineTimeoutOption("exit with 1 when it takes longer, such as 10m"),
    output: OUTPUT,
  },
  examples: ["muster roll status web-2", "muster roll status web --timeout 10m"],
  run: async (cli, [text], { follow, ...options }) => {
    const name = rollNameOf(text);
    if (!follow) return getItems(cli, ROLL, name, options);
    await using connected = await cli.connect();
    return await followRoll(cli, connected, await findRoll(connected, name), options);
  },
});

const GET = defineCommand({
  name: "get",
  alias: "list",
  description: "List open rolling updates, or show one of them; the same as `get rolls`.",
  arguments: [argument("[roll]", ROLL_ARGUMENT.description)],
  options: { output: OUTPUT },
  examples: ["muster roll get", "muster roll get web-2 -o json"],
  run: (cli, [name], options) => getItems(cli, ROLL, name === undefined ? name : rollNameOf(name), options),
});

const MINIMUM = option(
  "--minimum <n>",
  "keep at least this many replicas ready from now on; default: unchanged",
  replicaCount,
);

const CHANGES = [
  { verb: "pause", change: "PAUSE", description: "Stop a rolling update where it is.", own: {} },
  { verb: "resume", change: "RESUME", description: "Resume a rolling update that is paused.", own: {} },
  {
    verb: "undo",
    change: "UNDO",
    description: "Move the replicas back to the old set. During an undo, it only changes the minimum.",
    own: { minimum: MINIMUM },
  },
  {
    verb: "redo",
    change: "REDO",
    description: "Move the replicas to the new set again, after undo.",
    own: { minimum: MINIMUM },
  },
] as const;

/** `muster roll` and its subcommands; kubectl's word is `rollout`. */
export const ROLLS: CommandRow = {
  name: "roll",
  alias: "rollout",
  description: "Move replicas from one set to another, a few pods at a time, and keep a minimum ready.",
  text: `Start one: muster roll OLD -f FILE --minimum N; \`muster roll start --help\` has
all options of that. Its name is that of its new set.`,
  examples: [
    "muster roll web -f web-2.yaml --minimum 2 --follow",
    "muster roll web -f web-2.yaml --canary 1 --minimum 2",
    "muster roll status web-2",
    "muster roll pause web-2",
    "muster roll resume web-2",
    "muster roll undo web-2 --follow",
    "muster roll get",
  ],
  commands: [
    START,
    STATUS,
    GET,
    ...CHANGES.map(({ verb, change, description, own }) =>
      defineCommand({
        name: verb,
        description,
        arguments: [ROLL_ARGUMENT],
        options: { ...own, ...FOLLOWED },
        examples: [`muster roll ${verb} web-2`],
        run: async (cli, [text], { follow, ...options }) => {
          const name = rollNameOf(text);
          await using connected = await cli.connect();
          const { id } = await findRoll(connected, name);
          const minimum = "minimum" in options ? options.minimum : undefined;
          const roll = await askAboutSet(connected, name, (farms) => farms.changeRoll(id, change, minimum));
          if (follow) return await followRoll(cli, connected, roll, options);
          printLine(cli.io, options.output, `roll/${id} ${describeChange(change, roll)}`, () => buildRecord(roll));
          return EXIT.ok;
        },
      }),
    ),
  ],
  refused: [
    ["history", "`muster audit NAME` lists the changes of a set"],
    ["restart", "`muster apply -f FILE --replace` recreates pods, `muster roll NAME -f FILE` keeps a minimum ready"],
  ],
};

/** Accepts `roll/NAME`, or `rs/NAME` of one of its sets. */
function rollNameOf(text: string): string {
  const isRoll = text.includes("/") && findResource([ROLL], splitTarget(text).word) !== undefined;
  return getKindName(isRoll ? ROLL : REPLICA_SET, text);
}

/** Reads the only set of a file. Throws CommandError for any problem in the file. */
async function readOneSet(cli: CommandLine, file: string): Promise<SetDocument> {
  const [only, ...others] = await readFiles(cli, [file], {
    read: (document) => readOne(cli.resources, SET_DOCUMENTS, document, LEASE_DOCUMENTS.words),
    titleOf: APPLY_SETS.titleOf,
  });
  if (only === undefined || others.length > 0)
    throw new CommandError(EXIT.usage, `${file} has ${others.length + 1} documents; one is needed`);
  return only.value;
}

/** Compares pod ids as in documents: a missing one is the name of the set. */
function refuseOtherPodId({ name, spec }: ReplicaSet, newSet: string, podId: string): void {
  const desired = podId === "" ? newSet : podId;
  if (desired === spec.podId) return;
  throw new CommandError(
    EXIT.usage,
    `${newSet} has pod id "${desired}", and ${name} has "${spec.podId}": only pods of one pod id replace each other on a node`,
    { hint: `write \`podId: ${spec.podId}\` into the spec of ${newSet}` },
  );
}

function describeChange(change: RollChange, roll: RolloutRecord): string {
  switch (change) {
    case "PAUSE":
      return `is paused: both sets stay unchanged until \`muster roll resume ${roll.id}\``;
    case "RESUME":
      return "continues";
    case "UNDO":
      return `moves back to the old set: ${describeRoll(roll)}`;
    case "REDO":
      return `moves to the new set again: ${describeRoll(roll)}`;
  }
}

/** Prints the progress of a roll until it is over. */
async function followRoll(
  cli: Cli,
  connected: ConnectedCli,
  start: RolloutRecord,
  { timeoutMs, output }: { readonly timeoutMs: number | undefined; readonly output: Format },
): Promise<ExitCode> {
  const farms = makeFarmCalls(connected.link);
  const continues = (roll: RolloutRecord): string =>
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
    throw new CommandError(EXIT.failed, `roll ${last.id} is complete, but not all pods of ${last.newSet} are ready`, {
      hint: `\`muster explain ${SET_NOUN}/${last.newSet}\` shows why; \`muster wait ${SET_NOUN}/${last.newSet} --for=condition=Ready\` waits longer`,
    });
  if (isComplete) return EXIT.ok;
  throw new CommandError(
    EXIT.failed,
    `roll ${start.id} did not complete: it was undone, another roll of one of its sets replaced it, or a set was deleted`,
    {
      hint: `\`muster audit ${last.oldSet}\` and \`muster audit ${last.newSet}\` list the changes`,
    },
  );
}

/** Waits until the pods of the set are ready, or cannot become ready; a roll itself does not wait for the last ones. */
async function untilRolled(
  cli: Cli,
  connected: ConnectedCli,
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
    { decide, uidOf: ({ uid }) => uid, next: () => makeFarmCalls(connected.link).get(set.name) },
    set,
    { goal: READY, timeoutMs: Math.min(timeoutMs ?? Infinity, MAX_SETTLING_MS + 1000 * set.spec.minReadySeconds) },
  );
  return { set: last, isReady: verdict === "met" };
}
