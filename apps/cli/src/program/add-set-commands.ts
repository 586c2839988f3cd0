import { InvalidArgumentError, Option, type Command } from "commander";
import { CommandError } from "../command-error.ts";
import { apply } from "../commands/apply.ts";
import { auditSet, enableSet, holdSet, scaleSet, transferSet } from "../commands/replica-sets.ts";
import { EXIT } from "../domain/decide-exit.ts";
import { MAX_SET_REPLICAS } from "../domain/set-document.ts";
import { REPLICA_SET } from "../kinds/replica-set.ts";
import { findResource, namedResource, nameOfKind, type CommandLine } from "../kinds/resources.ts";
import { engineKeyOption, keyFileOption } from "./add-key-commands.ts";
import { durationArgument, outputOption, type Answer, type OutputOption, examples } from "./command-options.ts";

/** The name of a set, also in the forms of kubectl. */
const NAME = [
  "name of the replica set, also as rs/NAME",
  "the name, where the kind stands before it: rs NAME",
] as const;
const DELETE_WAIT_MS = 300_000;
const MAX_AUDITS = 500;

/** Commands that create and change replica sets. */
export function addSetCommands(program: Command, cli: CommandLine, answer: Answer): void {
  addApply(program, cli, answer);
  addScale(program, cli, answer);
  addTransfer(program, cli, answer);
  addEnable(program, cli, answer);
  addDelete(program, cli, answer);
  addAudit(program, cli, answer);
}

function addApply(program: Command, cli: CommandLine, answer: Answer): void {
  type Options = OutputOption & {
    filename: string[];
    replace?: true;
    dryRun?: true;
    wait?: true;
    timeout?: number;
    keyFile?: string;
    engineKey?: string;
  };
  program
    .command("apply")
    .description("Make what YAML files of kind PinnedReplicaSet or Lease say, or make it what they say.")
    .argument("[file...]", "YAML files; - is standard input")
    .addOption(filesOption())
    .option("--replace", "recreate pods when the template has changed, five at a time; `roll` keeps a minimum ready")
    .option("--dry-run", "check the files, with the cluster, and do nothing")
    .addOption(engineKeyOption())
    .option("--wait", "wait until all replicas are ready, and all leases active")
    .option("--timeout <duration>", "end with 1 when that takes longer, such as 5m", durationArgument)
    .addOption(keyFileOption())
    .addOption(outputOption())
    .addHelpText(
      "after",
      `
Says of each set whether it was created, changed or is unchanged. Leases are
signed with your key (muster keys); they need a name, and never change: muster
lease renew and end. Nothing is done unless every file is right. Sessions and
jobs are run: muster run.

Examples:
  muster apply -f examples/pinned-replica-set.yaml
  muster apply -f web.yaml --wait --timeout 5m
  muster apply -f web.yaml --dry-run
  muster apply -f lease.yaml --wait
  sed s/v1/v2/ web.yaml | muster apply --replace -f -`,
    )
    .action(
      answer((files: string[], { filename, replace, dryRun, engineKey, wait, timeout, keyFile, output }: Options) => {
        const all = [...files, ...filename];
        if (all.length === 0)
          throw new CommandError(EXIT.usage, "no file is named", { hint: "muster apply -f FILE; - is standard input" });
        const flags = { replace: replace === true, dryRun: dryRun === true, wait: wait === true };
        return apply(cli, all, { ...flags, engineKey, timeoutMs: timeout, keyFile, output });
      }),
    );
}

function filesOption(): Option {
  return new Option("-f, --filename <file>", "a YAML file; may be given again; - is standard input")
    .argParser((file: string, before: string[]) => [...before, file])
    .default([], "none");
}

function addScale(program: Command, cli: CommandLine, answer: Answer): void {
  type Options = OutputOption & { replicas: number; currentReplicas?: number };
  program
    .command("scale")
    .description("Set how many replicas a replica set should have.")
    .argument("<set>", NAME[0])
    .argument("[name]", NAME[1])
    .addOption(new Option("--replicas <n>", "so many").argParser(countArgument).makeOptionMandatory())
    .option("--current-replicas <n>", "only if it should have so many now", countArgument)
    .addOption(outputOption())
    .addHelpText(
      "after",
      examples("muster scale web --replicas 5", "muster scale rs/web --replicas 5 --current-replicas 3"),
    )
    .action(
      answer((set: string, name: string | undefined, { replicas, currentReplicas, output }: Options) =>
        scaleSet(cli, {
          name: nameOfKind(REPLICA_SET, set, name),
          replicas,
          expected: currentReplicas,
          format: output,
        }),
      ),
    );
}

function addTransfer(program: Command, cli: CommandLine, answer: Answer): void {
  type Options = OutputOption & { from?: string; to?: string; hold?: true; release?: true; because: string };
  program
    .command("transfer")
    .description("Move a replica to another node, or hold a replica set's moves back.")
    .argument("<set>", NAME[0])
    .argument("[name]", NAME[1])
    .option("--from <node>", "leave this node, though it is eligible; the old pod goes once the new one is ready")
    .option("--to <node>", "for this node; without it the farm chooses one")
    .addOption(new Option("--hold", "no transfer begins any more").conflicts(["from", "to", "release"]))
    .addOption(new Option("--release", "transfers may begin again").conflicts(["from", "to"]))
    .option("--because <why>", "why they are held, for others", "its nodes are under maintenance")
    .addOption(outputOption())
    .addHelpText(
      "after",
      `
Examples:
  muster transfer web --from node-3
  muster transfer web --from node-3 --to node-7
  muster transfer web --hold --because "node-3 is being repaired"
  muster transfer web --release`,
    )
    .action(
      answer((set: string, second: string | undefined, { from, to = "", hold, release, because, output }: Options) => {
        const changed = { name: nameOfKind(REPLICA_SET, set, second), format: output };
        if (hold === true) return holdSet(cli, { ...changed, hold: { by: cli.caller(), because } });
        if (release === true) return holdSet(cli, { ...changed, hold: undefined });
        if (from !== undefined) return transferSet(cli, { ...changed, from, to });
        throw new CommandError(EXIT.usage, "one of --from NODE, --hold and --release is needed", {
          hint: `\`muster describe rs ${changed.name}\` shows the nodes that it is on`,
        });
      }),
    );
}

function addEnable(program: Command, cli: CommandLine, answer: Answer): void {
  const verbs = [
    ["enable", true, "Enable a replica set that was disabled."],
    ["disable", false, "Stop a replica set from creating, replacing or removing pods; those that run stay."],
  ] as const;
  for (const [verb, enabled, description] of verbs) {
    program
      .command(verb)
      .description(description)
      .argument("<set>", NAME[0])
      .argument("[name]", NAME[1])
      .addOption(outputOption())
      .addHelpText("after", examples(`muster ${verb} web`))
      .action(
        answer((set: string, name: string | undefined, { output }: OutputOption) =>
          enableSet(cli, { name: nameOfKind(REPLICA_SET, set, name), enabled, format: output }),
        ),
      );
  }
}

function addDelete(program: Command, cli: CommandLine, answer: Answer): void {
  type Options = OutputOption & { force?: true; orphan?: true; cascade?: string; wait?: true; timeout: number };
  program
    .command("delete")
    .description(
      "Delete a replica set, or a session that is over. A set that has replicas goes only with --force or --orphan.",
    )
    .argument("<name>", `${NAME[0]}; session/NAME`)
    .argument("[name]", NAME[1])
    .option("--force", "also one that has replicas: its pods are deleted with it")
    .option("--orphan", "its pods stay, without an owner")
    .addOption(new Option("--cascade <how>", "as kubectl says it").choices(["background", "orphan"]).hideHelp())
    .option("--wait", "wait until it and its pods are gone")
    .addOption(
      new Option("--timeout <duration>", "end with 1 when that takes longer")
        .argParser(durationArgument)
        .default(DELETE_WAIT_MS, "5m"),
    )
    .addOption(outputOption())
    .addHelpText(
      "after",
      examples(
        "muster scale web --replicas 0 && muster delete web --wait",
        "muster delete web --force",
        "muster delete rs/web --orphan",
        "muster delete session/http-benchmark-x7k2p",
      ),
    )
    .action(
      answer(
        (first: string, second: string | undefined, { force, orphan, cascade, wait, timeout, output }: Options) => {
          const kind = second === undefined ? findResource(cli.resources, first) : undefined;
          if (kind !== undefined && kind !== REPLICA_SET)
            throw new CommandError(EXIT.usage, `the name of the ${kind.noun} is missing`);
          const { resource, name } = namedResource(cli.resources, [first, second], REPLICA_SET);
          if (resource.delete === undefined)
            throw new CommandError(
              EXIT.usage,
              `"${resource.noun}" is no ${REPLICA_SET.noun}; did you mean ${REPLICA_SET.noun}/${name}?`,
            );
          const keepPods = orphan === true || cascade === "orphan";
          const flags = { force: force === true, keepPods, wait: wait === true, timeoutMs: timeout };
          return resource.delete(cli, name, { ...flags, output });
        },
      ),
    );
}

function addAudit(program: Command, cli: CommandLine, answer: Answer): void {
  type Options = OutputOption & { limit: number };
  program
    .command("audit")
    .description("List what was done to a replica set, oldest first: by whom it was changed, and where its pods went.")
    .argument("<set>", NAME[0])
    .argument("[name]", NAME[1])
    .addOption(new Option("--limit <n>", "the newest of them").argParser(auditsArgument).default(100))
    .addOption(outputOption())
    .addHelpText("after", examples("muster audit web", "muster audit web -o json | jq '.[].event'"))
    .action(
      answer((set: string, name: string | undefined, { limit, output }: Options) =>
        auditSet(cli, { name: nameOfKind(REPLICA_SET, set, name), limit, format: output }),
      ),
    );
}

/** Replicas: a whole number. */
export function countArgument(text: string): number {
  if (!/^\d{1,4}$/.test(text) || Number(text) > MAX_SET_REPLICAS)
    throw new InvalidArgumentError(`A whole number from 0 to ${MAX_SET_REPLICAS} is needed.`);
  return Number(text);
}

function auditsArgument(text: string): number {
  if (!/^[1-9]\d{0,2}$/.test(text) || Number(text) > MAX_AUDITS)
    throw new InvalidArgumentError(`A whole number from 1 to ${MAX_AUDITS} is needed.`);
  return Number(text);
}
