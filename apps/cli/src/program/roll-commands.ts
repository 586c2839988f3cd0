import { CommandError } from "../command-error.ts";
import { getItems } from "../commands/get.ts";
import { changeRoll, showRollStatus, startRoll } from "../commands/rolls.ts";
import { EXIT } from "../domain/decide-exit.ts";
import { REPLICA_SET } from "../kinds/replica-set.ts";
import { findResource, nameOfKind, splitTarget } from "../kinds/resources.ts";
import { ROLL } from "../kinds/roll.ts";
import { argument, command, excluding, option, required, withDefault, type CommandRow } from "./command-row.ts";
import { durationArgument } from "./parse-values.ts";
import { replicaCount } from "./set-commands.ts";
import { OUTPUT, timeoutOption } from "./shared-options.ts";

const ROLL_ARGUMENT = argument("<roll>", "name of the rolling update, or of one of its sets");

const FOLLOWED = {
  follow: option("--follow", "print its progress until it is over"),
  timeoutMs: timeoutOption("with --follow: end with 1 when it takes longer"),
  output: OUTPUT,
};

const START = command({
  name: "start",
  isDefault: true,
  description: "Begin a rolling update; the same as `roll` alone.",
  arguments: [argument("<set>", "name of the set that has the pods now")],
  options: {
    file: option("-f, --filename <file>", "YAML file of the new set: another name, the same podId"),
    to: excluding(option("--to <set>", "a new set that exists, as after a canary"), ["filename"]),
    minimum: required(option("--minimum <n>", "so many replicas stay ready, in both sets together", replicaCount)),
    replicas: option("--replicas <n>", "of the new set; as many as its file says, or both sets have", replicaCount),
    canary: excluding(
      option("--canary <n>", "so many replicas of the new set, and the old set stays with the rest", replicaCount),
      ["replicas", "leaveOld"],
    ),
    leaveOld: option("--leave-old", "the old set stays, with what is left"),
    delayMs: option("--delay <duration>", "between two steps, such as 30s", durationArgument),
    ...FOLLOWED,
  },
  examples: [
    "muster roll web -f web-2.yaml --minimum 2",
    "muster roll web -f web-2.yaml --minimum 2 --delay 30s --follow",
    "muster roll web -f web-2.yaml --canary 1 --minimum 2",
    "muster roll web --to web-2 --replicas 3 --minimum 2",
  ],
  run: (cli, [set], { file, to, canary, replicas, leaveOld, delayMs = 0, ...rest }) => {
    const target = file === undefined ? to && { set: nameOfKind(REPLICA_SET, to) } : { file };
    if (target === undefined || target === "")
      throw new CommandError(EXIT.usage, "what to roll to is missing", {
        hint: `muster roll ${set} -f FILE --minimum ${rest.minimum}, or --to NAME of a set that exists`,
      });
    return startRoll(cli, {
      ...rest,
      oldSet: nameOfKind(REPLICA_SET, set),
      to: target,
      replicas: canary ?? replicas,
      leaveOld: canary !== undefined || leaveOld,
      delayMs,
    });
  },
});

const STATUS = command({
  name: "status",
  description: "Follow a rolling update until it is over.",
  arguments: [ROLL_ARGUMENT],
  options: {
    follow: withDefault(option("--no-follow", "only show its state"), true),
    timeoutMs: timeoutOption("end with 1 when it takes longer, such as 10m"),
    output: OUTPUT,
  },
  examples: ["muster roll status web-2", "muster roll status web --timeout 10m"],
  run: (cli, [name], { follow, ...options }) =>
    follow ? showRollStatus(cli, rollNameOf(name), options) : getItems(cli, ROLL, rollNameOf(name), options.output),
});

const GET = command({
  name: "get",
  alias: "list",
  description: "List open rolling updates, or show one of them; the same as `get rolls`.",
  arguments: [argument("[roll]", ROLL_ARGUMENT.description)],
  options: { output: OUTPUT },
  examples: ["muster roll get", "muster roll get web-2 -o json"],
  run: (cli, [name], { output }) => getItems(cli, ROLL, name === undefined ? name : rollNameOf(name), output),
});

const MINIMUM = option(
  "--minimum <n>",
  "so many replicas stay ready from now on; as before, if left out",
  replicaCount,
);

const CHANGES = [
  { verb: "pause", change: "PAUSE", description: "Stop a rolling update where it is.", own: {} },
  { verb: "resume", change: "RESUME", description: "Resume a rolling update that is paused.", own: {} },
  {
    verb: "undo",
    change: "UNDO",
    description: "Go back to the old set; of one that does already, only the minimum can be changed.",
    own: { minimum: MINIMUM },
  },
  { verb: "redo", change: "REDO", description: "Go forward again, after undo.", own: { minimum: MINIMUM } },
] as const;

/** `muster roll` and its subcommands; `rollout` is the word of kubectl. */
export const ROLLS: CommandRow = {
  name: "roll",
  alias: "rollout",
  description: "Move from one replica set to another, a few pods at a time, and keep a minimum ready.",
  text: `Begin one: muster roll OLD -f FILE --minimum N; \`muster roll start --help\` has
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
      command({
        name: verb,
        description,
        arguments: [ROLL_ARGUMENT],
        options: { ...own, ...FOLLOWED },
        examples: [`muster roll ${verb} web-2`],
        run: (cli, [name], options) => changeRoll(cli, rollNameOf(name), { change, minimum: undefined, ...options }),
      }),
    ),
  ],
  refused: [
    ["history", "`muster audit NAME` shows what was done to a set"],
    ["restart", "`muster apply -f FILE --replace` recreates pods, `muster roll NAME -f FILE` keeps a minimum ready"],
  ],
};

/** `roll/NAME`, or `rs/NAME` of one of its sets. */
function rollNameOf(text: string): string {
  const isRoll = text.includes("/") && findResource([ROLL], splitTarget(text).word) !== undefined;
  return nameOfKind(isRoll ? ROLL : REPLICA_SET, text);
}
