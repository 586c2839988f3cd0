import { Option, type Command } from "commander";
import { CommandError } from "../command-error.ts";
import { getItems } from "../commands/get.ts";
import { changeRoll, showRollStatus, startRoll } from "../commands/rolls.ts";
import { EXIT } from "../domain/decide-exit.ts";
import { REPLICA_SET } from "../kinds/replica-set.ts";
import { findResource, nameOfKind, splitTarget, type CommandLine } from "../kinds/resources.ts";
import { ROLL } from "../kinds/roll.ts";
import { countArgument } from "./add-set-commands.ts";
import { durationArgument, outputOption, type Answer, type OutputOption, examples } from "./command-options.ts";

const ROLL_ARGUMENT = "name of the rolling update, or of one of its sets";

type Follow = OutputOption & { follow?: true; timeout?: number };

/** `muster roll` and its subcommands; `rollout` is the word of kubectl. */
export function addRollCommands(program: Command, cli: CommandLine, answer: Answer): void {
  const roll = program
    .command("roll")
    .alias("rollout")
    .description("Move from one replica set to another, a few pods at a time, and keep a minimum ready.")
    .addHelpText(
      "after",
      `
Begin one: muster roll OLD -f FILE --minimum N; \`muster roll start --help\` has
all options of that. Its name is that of its new set.

Examples:
  muster roll web -f web-2.yaml --minimum 2 --follow
  muster roll web -f web-2.yaml --canary 1 --minimum 2
  muster roll status web-2
  muster roll pause web-2
  muster roll resume web-2
  muster roll undo web-2 --follow
  muster roll get`,
    );
  addStart(roll, cli, answer);
  addStatus(roll, cli, answer);
  addChanges(roll, cli, answer);
  addKubectls(roll);
}

function addStart(roll: Command, cli: CommandLine, answer: Answer): void {
  type Options = Follow & {
    filename?: string;
    to?: string;
    minimum: number;
    replicas?: number;
    canary?: number;
    leaveOld?: true;
    delay?: number;
  };
  roll
    .command("start", { isDefault: true })
    .description("Begin a rolling update; the same as `roll` alone.")
    .argument("<set>", "name of the set that has the pods now")
    .option("-f, --filename <file>", "YAML file of the new set: another name, the same podId")
    .addOption(new Option("--to <set>", "a new set that exists, as after a canary").conflicts("filename"))
    .addOption(
      new Option("--minimum <n>", "so many replicas stay ready, in both sets together")
        .argParser(countArgument)
        .makeOptionMandatory(),
    )
    .option("--replicas <n>", "of the new set; as many as its file says, or both sets have", countArgument)
    .addOption(
      new Option("--canary <n>", "so many replicas of the new set, and the old set stays with the rest")
        .argParser(countArgument)
        .conflicts(["replicas", "leaveOld"]),
    )
    .option("--leave-old", "the old set stays, with what is left")
    .option("--delay <duration>", "between two steps, such as 30s", durationArgument)
    .option("--follow", "print its progress until it is over")
    .option("--timeout <duration>", "with --follow: end with 1 when it takes longer", durationArgument)
    .addOption(outputOption())
    .addHelpText(
      "after",
      `
Examples:
  muster roll web -f web-2.yaml --minimum 2
  muster roll web -f web-2.yaml --minimum 2 --delay 30s --follow
  muster roll web -f web-2.yaml --canary 1 --minimum 2
  muster roll web --to web-2 --replicas 3 --minimum 2`,
    )
    .action(
      answer((set: string, { filename, to, canary, replicas, leaveOld, delay = 0, ...rest }: Options) => {
        const target = filename === undefined ? to && { set: nameOfKind(REPLICA_SET, to) } : { file: filename };
        if (target === undefined || target === "")
          throw new CommandError(EXIT.usage, "what to roll to is missing", {
            hint: `muster roll ${set} -f FILE --minimum ${rest.minimum}, or --to NAME of a set that exists`,
          });
        return startRoll(cli, {
          ...followOf(rest),
          oldSet: nameOfKind(REPLICA_SET, set),
          to: target,
          replicas: canary ?? replicas,
          minimum: rest.minimum,
          leaveOld: canary !== undefined || leaveOld === true,
          delayMs: delay,
        });
      }),
    );
}

function addStatus(roll: Command, cli: CommandLine, answer: Answer): void {
  roll
    .command("status")
    .description("Follow a rolling update until it is over.")
    .argument("<roll>", ROLL_ARGUMENT)
    .option("--no-follow", "only show its state")
    .option("--timeout <duration>", "end with 1 when it takes longer, such as 10m", durationArgument)
    .addOption(outputOption())
    .addHelpText("after", examples("muster roll status web-2", "muster roll status web --timeout 10m"))
    .action(
      answer((name: string, { follow, timeout, output }: OutputOption & { follow: boolean; timeout?: number }) =>
        follow
          ? showRollStatus(cli, rollNameOf(name), { timeoutMs: timeout, output })
          : getItems(cli, ROLL, rollNameOf(name), output),
      ),
    );
  roll
    .command("get")
    .alias("list")
    .description("List open rolling updates, or show one of them; the same as `get rolls`.")
    .argument("[roll]", ROLL_ARGUMENT)
    .addOption(outputOption())
    .addHelpText("after", examples("muster roll get", "muster roll get web-2 -o json"))
    .action(
      answer((name: string | undefined, { output }: OutputOption) =>
        getItems(cli, ROLL, name === undefined ? name : rollNameOf(name), output),
      ),
    );
}

function addChanges(roll: Command, cli: CommandLine, answer: Answer): void {
  const verbs = [
    ["pause", "PAUSE", "Stop a rolling update where it is."],
    ["resume", "RESUME", "Resume a rolling update that is paused."],
    ["undo", "UNDO", "Go back to the old set; of one that does already, only the minimum can be changed."],
    ["redo", "REDO", "Go forward again, after undo."],
  ] as const;
  for (const [verb, change, description] of verbs) {
    const command = roll.command(verb).description(description).argument("<roll>", ROLL_ARGUMENT);
    if (change === "UNDO" || change === "REDO")
      command.option("--minimum <n>", "so many replicas stay ready from now on; as before, if left out", countArgument);
    command
      .option("--follow", "print its progress until it is over")
      .option("--timeout <duration>", "with --follow: end with 1 when it takes longer", durationArgument)
      .addOption(outputOption())
      .addHelpText("after", examples(`muster roll ${verb} web-2`))
      .action(
        answer((name: string, { minimum, ...options }: Follow & { minimum?: number }) =>
          changeRoll(cli, rollNameOf(name), { change, minimum, ...followOf(options) }),
        ),
      );
  }
}

/** `roll/NAME`, or `rs/NAME` of one of its sets. */
function rollNameOf(text: string): string {
  const isRoll = text.includes("/") && findResource([ROLL], splitTarget(text).word) !== undefined;
  return nameOfKind(isRoll ? ROLL : REPLICA_SET, text);
}

function followOf({ follow, timeout, output }: Follow) {
  return { follow: follow === true, timeoutMs: timeout, output };
}

/** Words of kubectl, and the command for each here. */
function addKubectls(roll: Command): void {
  const answers = [
    ["history", "`muster audit NAME` shows what was done to a set"],
    ["restart", "`muster apply -f FILE --replace` recreates pods, `muster roll NAME -f FILE` keeps a minimum ready"],
  ] as const;
  for (const [word, hint] of answers) refuseWord(roll, word, hint);
}

/** A hidden command that names the one to use. */
export function refuseWord(parent: Command, word: string, hint: string): void {
  parent
    .command(word, { hidden: true })
    .argument("[words...]")
    .allowUnknownOption()
    .action(() => {
      throw new CommandError(EXIT.usage, `unknown command '${word}'`, { hint });
    });
}
