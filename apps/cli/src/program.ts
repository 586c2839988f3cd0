import { Argument, Command, InvalidArgumentError, Option } from "commander";
import type { Cli } from "./cli.ts";
import { CommandError } from "./command-error.ts";
import { complete, completion, SHELLS, type Shell } from "./commands/completion.ts";
import { dropDeadLetters, listDeadLetters, replayDeadLetters, showDeadLetter } from "./commands/dead-letters.ts";
import { doctor } from "./commands/doctor.ts";
import { events } from "./commands/events.ts";
import { cancelWork, describeWork, explain, getPools, getReservations, getWork } from "./commands/get.ts";
import { logs } from "./commands/logs.ts";
import { dumpNodes, listNodes, terminateNode } from "./commands/nodes.ts";
import { FORMATS, print, type Format } from "./commands/output.ts";
import { nameOf, resourceArgument, type Resource } from "./commands/resource-argument.ts";
import { run } from "./commands/run.ts";
import { schema } from "./commands/schema.ts";
import { EXIT, type ExitCode } from "./domain/decide-exit.ts";
import { parseDuration } from "./domain/duration.ts";
import { nearestName } from "./domain/nearest-name.ts";
import { shortenWords } from "./domain/shorten.ts";
import { findKind } from "./kinds/kinds.ts";
import { VERSION } from "./version.ts";

const EXIT_CODES = `
Exit codes:
  0    done
  1    the work failed: a session is not DONE, a job has not succeeded, a check
       of doctor failed
  2    the command line or a file is wrong
  3    the NATS server or a service cannot be reached
  4    a service refused the request
  130  interrupted

Environment:
  MUSTER_NATS_URL    the NATS server; without it the local stack of
                     \`npm start -- --keep\`, then nats://127.0.0.1:4222
  MUSTER_NATS_TOKEN  its token
  MUSTER_LOCAL_FILE  where the local stack says how to reach it; default
                     .muster/local.json in the repository
  NO_COLOR           not empty: no colours`;

/** How one is named where no kind stands before. */
const TARGET = "name of the session; of a job job/NAME, or by its kind: tfjob/NAME";

export type Program = {
  /** Runs the command that the arguments name. Rejects with CommanderError when they name none. */
  parse(args: readonly string[]): Promise<ExitCode>;
};

/** The whole command line. Every action answers with an exit code. */
export function buildProgram(
  makeCli: (natsUrl: () => string | undefined) => Cli,
  columns: number | undefined,
): Program {
  let exitCode: ExitCode = EXIT.ok;
  const program = new Command("muster")
    .description("Runs work that needs several machines at once, and shows what became of it.")
    .option("--nats-url <url>", "the NATS server; overrides MUSTER_NATS_URL")
    .version(VERSION, "-V, --version", "print the version")
    .helpCommand("help [command]", "show help for a command")
    .showHelpAfterError("hint: add --help for the options and examples of a command")
    .configureHelp({ helpWidth: Math.min(columns ?? 80, 120) })
    .exitOverride()
    .addHelpText("after", EXIT_CODES);
  const cli = makeCli(() => program.opts<{ natsUrl?: string }>().natsUrl);
  program.configureOutput({
    writeOut: (text) => cli.io.out([text.trimEnd()]),
    writeErr: (text) => cli.io.err([text.trimEnd()]),
    outputError: (text, write) => write(shortenWords(text)),
  });
  const answer =
    <Args extends unknown[]>(action: (...args: Args) => Promise<ExitCode>) =>
    async (...args: Args): Promise<void> => {
      exitCode = await action(...args);
    };
  addRun(program, cli, answer);
  addQueries(program, cli, answer);
  addLogs(program, cli, answer);
  addReasons(program, cli, answer);
  addNodes(program, cli, answer);
  addDoctor(program, cli, answer);
  addDeadLetters(program, cli, answer);
  addEditorAndShell(program, cli, answer);
  return {
    parse: async (args) => {
      await program.parseAsync(args, { from: "user" });
      return exitCode;
    },
  };
}

type Answer = <Args extends unknown[]>(
  action: (...args: Args) => Promise<ExitCode>,
) => (...args: Args) => Promise<void>;

type OutputOption = { readonly output: Format };

function addRun(program: Command, cli: Cli, answer: Answer): void {
  type Options = OutputOption & { detach?: true; dryRun?: true; timeout?: number };
  program
    .command("run")
    .description("Submit the sessions and jobs of YAML files and follow them until they are over.")
    .argument("<file...>", "YAML files of one or more sessions or jobs; - is standard input")
    .option("-d, --detach", "submit only, and leave them to themselves")
    .option("--dry-run", "check the files and print what would be submitted")
    .option("--timeout <duration>", "leave after this time, such as 10m; what was submitted goes on", durationArgument)
    .addOption(outputOption())
    .addHelpText(
      "after",
      `
Progress goes to standard error, the result to standard output. Nothing is
submitted unless every file is right. Ctrl-C cancels what was submitted and
waits for its end; Ctrl-C again leaves at once.
Documents are of kind Session, Job, or one of Kubeflow's: TFJob, PyTorchJob,
MPIJob, JAXJob.

Examples:
  muster run examples/http-benchmark.yaml
  muster run -o json examples/http-benchmark.yaml | jq '.[0].result'
  muster run examples/training-job.yaml
  muster run --detach a.yaml b.yaml
  sed s/v1/v2/ bench.yaml | muster run -`,
    )
    .action(
      answer((files: string[], { detach, dryRun, timeout, output }: Options) =>
        run(cli, files, { detach: detach === true, dryRun: dryRun === true, timeoutMs: timeout, output }),
      ),
    );
}

function addQueries(program: Command, cli: Cli, answer: Answer): void {
  const nouns = cli.kinds.map(({ noun }) => noun);
  program
    .command("get")
    .description("List sessions, jobs, pools or reservations, or show one of them.")
    .addArgument(
      resourceArgument("what to list", [
        ...cli.kinds.map(({ plural }) => plural),
        ...["pools", "reservations"],
        ...nouns,
        ...["pool", "reservation"],
      ]),
    )
    .argument(
      "[name]",
      "only this one, as in `session NAME` or `session/NAME`; a reservation is named by its owner: session/NAME, or NAME",
    )
    .addOption(outputOption())
    .addHelpText(
      "after",
      `\n\`jobs\` are those of all kinds.\n\nExamples:\n  muster get sessions\n  muster get jobs\n  muster get session http-benchmark-x7k2p -o yaml\n  muster get job/training\n  muster get reservations -o json`,
    )
    .action(
      answer((resource: Resource, second: string | undefined, { output }: OutputOption) => {
        const name = nameOf(resource, second);
        const kind = findKind(cli.kinds, resource.word);
        if (kind !== undefined) return getWork(cli, { kind, name }, output);
        return resource.word.startsWith("pool") ? getPools(cli, name, output) : getReservations(cli, name, output);
      }),
    );
  program
    .command("describe")
    .description("Tell all that is known of a session or job: its phases, components, warnings and result.")
    .addArgument(resourceArgument("what to describe", nouns))
    .argument("[name]", "its name, unless it is `job/NAME`")
    .addOption(outputOption())
    .addHelpText(
      "after",
      `\nExamples:\n  muster describe session http-benchmark-x7k2p\n  muster describe job training\n  muster describe job/training`,
    )
    .action(
      answer((resource: Resource, second: string | undefined, { output }: OutputOption) => {
        const name = nameOf(resource, second);
        if (name === undefined) throw new CommandError(EXIT.usage, `the name of the ${resource.word} is missing`);
        return describeWork(cli, findKind(cli.kinds, resource.word) ?? cli.kinds[0], name, output);
      }),
    );
  program
    .command("pools")
    .description("List the pools and their machines; the same as `get pools`.")
    .addOption(outputOption())
    .addHelpText("after", `\nExamples:\n  muster pools`)
    .action(answer(({ output }: OutputOption) => getPools(cli, undefined, output)));
  program
    .command("cancel")
    .description("End a session or job. One that is over already stays as it is.")
    .argument("<name>", "its name; with its kind, as in job/NAME, where several have it")
    .addOption(outputOption())
    .addHelpText("after", `\nExamples:\n  muster cancel http-benchmark-x7k2p\n  muster cancel job/training`)
    .action(answer((name: string, { output }: OutputOption) => cancelWork(cli, name, output)));
}

function addLogs(program: Command, cli: Cli, answer: Answer): void {
  program
    .command("logs")
    .description("Print what the components of a session or job wrote, while it runs and after it is over.")
    .argument("<name>", TARGET)
    .argument("[component]", "only this component; without it all, each line after its component's name")
    .option("-f, --follow", "go on until the components have ended")
    .addHelpText(
      "after",
      `\nExamples:\n  muster logs http-benchmark-x7k2p driver\n  muster logs -f http-benchmark-x7k2p\n  muster logs job/training worker-0`,
    )
    .action(
      answer((name: string, component: string | undefined, { follow }: { follow?: true }) =>
        logs(cli, name, component, { follow: follow === true }),
      ),
    );
}

function addReasons(program: Command, cli: Cli, answer: Answer): void {
  program
    .command("explain")
    .description("Say why work is where it is: a stable word, numbers, and who holds the machines that it waits for.")
    .argument("<name>", `${TARGET}; or another owner of machines: replica-set/NAME, lease/NAME`)
    .addOption(outputOption())
    .addHelpText(
      "after",
      `\nExamples:\n  muster explain http-benchmark-x7k2p\n  muster explain http-benchmark-x7k2p -o json\n  muster explain job/training`,
    )
    .action(answer((name: string, { output }: OutputOption) => explain(cli, name, output)));
  program
    .command("events")
    .description("List what happened to sessions or jobs, oldest first.")
    .argument("[name]", `${TARGET}; jobs: of all jobs; without it of all sessions`)
    .option(
      "-f, --follow",
      "go on with what happens; ends with the work, or with Ctrl-C. With -o json a line for each event",
    )
    .addOption(outputOption())
    .addHelpText(
      "after",
      `\nExamples:\n  muster events\n  muster events -f http-benchmark-x7k2p\n  muster events job/training\n  muster events -f -o json | jq .phase`,
    )
    .action(
      answer((name: string | undefined, { follow, output }: OutputOption & { follow?: true }) =>
        events(cli, name, { follow: follow === true, output }),
      ),
    );
}

function addNodes(program: Command, cli: Cli, answer: Answer): void {
  const nodes = program
    .command("nodes")
    .description("Nodes that are made when work needs them: list them, look into their scaler, end one.")
    .addHelpText(
      "after",
      `
Options of \`nodes\` alone and of \`nodes list\`:
  -p, --pool <pool>      only those of this pool
  -a, --all              also those whose instance is gone already
  -o, --output <format>  form of the output: table, json or yaml

Examples:
  muster nodes
  muster nodes -p elastic -o json
  muster nodes --all
  muster nodes dump
  muster nodes terminate elastic-7f3k2
  muster nodes terminate elastic-7f3k2 --yes`,
    );
  nodes
    .command("list", { isDefault: true })
    .description("List them, and who they are for; the same as `nodes` alone.")
    .option("-p, --pool <pool>", "only those of this pool")
    .option("-a, --all", "also those whose instance is gone already")
    .addOption(outputOption())
    .addHelpText("after", `\nExamples:\n  muster nodes list -p elastic\n  muster nodes list --all -o json`)
    // A misspelt command is taken for an argument of this one, which has none.
    .allowExcessArguments()
    .action(
      answer(({ pool, all, output }: OutputOption & { pool?: string; all?: true }, command: Command) => {
        const [word] = command.args;
        if (word !== undefined) refuseWord(nodes, word);
        return listNodes(cli, { pool, all: all === true, format: output });
      }),
    );
  nodes
    .command("dump")
    .description("Show what the scaler does: its loops, what is short, pools, and which node is for whom.")
    .addOption(outputOption())
    .addHelpText("after", `\nExamples:\n  muster nodes dump\n  muster nodes dump -o json | jq '.troubles'`)
    .action(answer(({ output }: OutputOption) => dumpNodes(cli, output)));
  nodes
    .command("terminate")
    .description("End a node: it is drained first. Asks before that on a terminal.")
    .argument("<node>", "its name")
    .option("-y, --yes", "do not ask")
    .addOption(outputOption())
    .addHelpText(
      "after",
      `\nExamples:\n  muster nodes terminate elastic-7f3k2\n  muster nodes terminate elastic-7f3k2 --yes`,
    )
    .action(
      answer((name: string, { yes, output }: OutputOption & { yes?: true }) =>
        terminateNode(cli, name, { sure: yes === true, format: output }),
      ),
    );
}

/** As commander refuses a command that it does not know. */
function refuseWord(parent: Command, word: string): never {
  const near = nearestName(
    word,
    parent.commands.map((command) => command.name()),
  );
  return parent.error(`error: unknown command '${word}'${near === undefined ? "" : `\n(Did you mean ${near}?)`}`);
}

function addDeadLetters(program: Command, cli: Cli, answer: Answer): void {
  const letters = program
    .command("dead-letters")
    .description("Messages that no service could handle, and why; send them again, or take them away.")
    .addHelpText(
      "after",
      `\nExamples:\n  muster dead-letters list\n  muster dead-letters show 12\n  muster dead-letters replay 12 13\n  muster dead-letters drop 14`,
    );
  letters
    .command("list")
    .description("List them, oldest first.")
    .option("--area <area>", "only those of this area: session")
    .addOption(outputOption())
    .action(answer(({ area, output }: OutputOption & { area?: string }) => listDeadLetters(cli, area, output)));
  letters
    .command("show")
    .description("Show one, with the message itself.")
    .argument("<id>", "its id", letterArgument)
    .addOption(outputOption())
    .action(answer((id: number, { output }: OutputOption) => showDeadLetter(cli, id, output)));
  letters
    .command("replay")
    .description("Send messages again to where they were first sent, once the cause is mended.")
    .argument("<id...>", "their ids", lettersArgument)
    .action(answer((ids: number[]) => replayDeadLetters(cli, ids)));
  letters
    .command("drop")
    .description("Take them away for good.")
    .argument("<id...>", "their ids", lettersArgument)
    .action(answer((ids: number[]) => dropDeadLetters(cli, ids)));
}

function addEditorAndShell(program: Command, cli: Cli, answer: Answer): void {
  program
    .command("schema")
    .description("Print the JSON Schema of documents, for editors and checks.")
    .addArgument(
      new Argument("[kind]", "of which kind")
        .choices(cli.kinds.filter((kind) => kind.schema !== undefined).map(({ noun }) => noun))
        .default(cli.kinds[0].noun),
    )
    .addHelpText(
      "after",
      `
In an editor that knows yaml-language-server, as the first line of a file:
  # yaml-language-server: $schema=/path/to/session.schema.json

Examples:
  muster schema > session.schema.json
  muster schema job > job.schema.json`,
    )
    .action(answer((noun: string) => Promise.resolve(schema(cli, findKind(cli.kinds, noun) ?? cli.kinds[0]))));
  program
    .command("completion")
    .description("Print the script that completes commands and names in a shell.")
    .addArgument(new Argument("<shell>", "which shell").choices(SHELLS))
    .addHelpText(
      "after",
      `
Examples:
  source <(muster completion bash)
  muster completion zsh > "\${fpath[1]}/_muster"
  muster completion fish > ~/.config/fish/completions/muster.fish`,
    )
    .action(answer((shell: Shell) => Promise.resolve(completion(cli, shell))));
  program
    .command("__complete", { hidden: true })
    .argument("[words...]")
    .action(answer((words: string[]) => complete(cli, program, words)));
}

function addDoctor(program: Command, cli: Cli, answer: Answer): void {
  program
    .command("doctor")
    .description("Check everything that work needs, and say what to do about what is missing.")
    .addOption(outputOption())
    .addHelpText("after", `\nExamples:\n  muster doctor\n  muster doctor -o json`)
    .action(answer(({ output }: OutputOption) => doctor(cli, output)));
  program
    .command("version")
    .description("Print the version of this command and of Node.")
    .addOption(outputOption())
    .addHelpText("after", `\nExamples:\n  muster version -o json`)
    .action(
      answer(({ output }: OutputOption) => {
        const versions = { muster: VERSION, node: process.versions.node };
        print(cli.io, output, {
          table: () => [`muster ${versions.muster}`, `node ${versions.node}`],
          data: () => versions,
        });
        return Promise.resolve(EXIT.ok);
      }),
    );
}

function outputOption(): Option {
  return new Option("-o, --output <format>", "form of the output").choices(FORMATS).default("table");
}

function durationArgument(text: string): number {
  const ms = parseDuration(text);
  if (ms === undefined || ms === 0) throw new InvalidArgumentError("A duration with its unit is needed, such as 10m.");
  return ms;
}

function letterArgument(text: string): number {
  if (!/^[1-9]\d{0,15}$/.test(text)) throw new InvalidArgumentError("The id of a letter is a whole number.");
  return Number(text);
}

function lettersArgument(text: string, before: number[] | undefined): number[] {
  return [...(before ?? []), letterArgument(text)];
}
