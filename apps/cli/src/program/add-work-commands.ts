import { parseDuration } from "@muster/faults";
import { InvalidArgumentError, Option, type Command } from "commander";
import { CommandError } from "../command-error.ts";
import { showEvents } from "../commands/events.ts";
import { explain } from "../commands/explain.ts";
import { cancelWork, describeItem, getItems } from "../commands/get.ts";
import { logs } from "../commands/logs.ts";
import { run } from "../commands/run.ts";
import { waitFor } from "../commands/wait.ts";
import { EXIT } from "../domain/decide-exit.ts";
import { readGoal, type Goal } from "../domain/decide-wait.ts";
import { ROLL_CONDITIONS, SET_CONDITIONS } from "../domain/decide-set-wait.ts";
import { LEASE } from "../kinds/lease.ts";
import { POOL } from "../kinds/pool.ts";
import { namedResource, type CommandLine } from "../kinds/resources.ts";
import { durationArgument, outputOption, type Answer, type OutputOption, examples } from "./command-options.ts";
import { nameAfter, resourceArgument, wordsOf, type ResourceArgument } from "./resource-argument.ts";

/** A name without a kind. */
const TARGET = "name of the session; of a job job/NAME, or by its kind: tfjob/NAME";

/** Commands that submit sessions and jobs, and show their state. */
export function addWorkCommands(program: Command, cli: CommandLine, answer: Answer): void {
  addRun(program, cli, answer);
  addQueries(program, cli, answer);
  addLogs(program, cli, answer);
  addReasons(program, cli, answer);
  addWait(program, cli, answer);
}

function addRun(program: Command, cli: CommandLine, answer: Answer): void {
  type Options = OutputOption & { detach?: true; dryRun?: true; timeout?: number };
  program
    .command("run")
    .description("Submit the sessions and jobs of YAML files and follow them until they are over.")
    .argument("<file...>", "YAML files of one or more sessions or jobs; - is standard input")
    .option("-d, --detach", "submit only, and do not follow them")
    .option("--dry-run", "check the files and print what would be submitted")
    .option(
      "--timeout <duration>",
      "leave after this time, such as 10m; the submitted work continues",
      durationArgument,
    )
    .addOption(outputOption())
    .addHelpText(
      "after",
      `
Progress goes to standard error, the result to standard output. Nothing is
submitted unless every file is right. Replica sets are applied: muster apply.
Ctrl-C cancels the submitted work and waits for its end; Ctrl-C again leaves
immediately.
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

function addQueries(program: Command, cli: CommandLine, answer: Answer): void {
  const described = cli.resources.filter(({ describe }) => describe !== undefined);
  const describedWords = described.flatMap(({ noun, shortName }) =>
    shortName === undefined ? [noun] : [noun, shortName],
  );
  program
    .command("get")
    .description("List sessions, jobs, replica sets, rolling updates, leases, pools or reservations, or show one.")
    .addArgument(resourceArgument("what to list", cli.resources, wordsOf(cli.resources)))
    .argument(
      "[name]",
      "only this one, as in `session NAME` or `session/NAME`; a reservation is named by its owner: session/NAME, or NAME",
    )
    .addOption(outputOption())
    .addHelpText(
      "after",
      `\n\`jobs\` are those of all kinds.\n\nExamples:\n  muster get sessions\n  muster get jobs\n  muster get session http-benchmark-x7k2p -o yaml\n  muster get job/training\n  muster get rs\n  muster get leases\n  muster get replica-set web -o yaml\n  muster get reservations -o json`,
    )
    .action(
      answer((argument: ResourceArgument, second: string | undefined, { output }: OutputOption) =>
        getItems(cli, argument.resource, nameAfter(argument, second), output),
      ),
    );
  program
    .command("describe")
    .description("Show all that is known of a session, job, replica set or lease.")
    .addArgument(resourceArgument("what to describe", described, describedWords))
    .argument("[name]", "its name, unless it is `job/NAME`")
    .addOption(outputOption())
    .addHelpText(
      "after",
      examples(
        "muster describe session http-benchmark-x7k2p",
        "muster describe job training",
        "muster describe job/training",
        "muster describe rs web",
      ),
    )
    .action(
      answer((argument: ResourceArgument, second: string | undefined, { output }: OutputOption) => {
        const name = nameAfter(argument, second);
        if (name === undefined) throw new CommandError(EXIT.usage, `the name of the ${argument.word} is missing`);
        return describeItem(cli, argument.resource, name, output);
      }),
    );
  program
    .command("pools")
    .description("List the pools and their machines; the same as `get pools`.")
    .addOption(outputOption())
    .addHelpText("after", examples("muster pools"))
    .action(answer(({ output }: OutputOption) => getItems(cli, POOL, undefined, output)));
  program
    .command("leases")
    .description("List the leases; the same as `get leases`.")
    .addOption(outputOption())
    .addHelpText("after", examples("muster leases"))
    .action(answer(({ output }: OutputOption) => getItems(cli, LEASE, undefined, output)));
  program
    .command("cancel")
    .description("End a session or job. One that is over already stays as it is.")
    .argument("<name>", "its name; with its kind, as in job/NAME, where several have it")
    .addOption(outputOption())
    .addHelpText("after", examples("muster cancel http-benchmark-x7k2p", "muster cancel job/training"))
    .action(answer((name: string, { output }: OutputOption) => cancelWork(cli, name, output)));
}

type LogsOptions = { readonly follow?: true; readonly container?: string };

function addLogs(program: Command, cli: CommandLine, answer: Answer): void {
  program
    .command("logs")
    .description("Print what the components of a session or job wrote, while it runs and after it is over.")
    .argument("<name>", TARGET)
    .argument(
      "[component]",
      "only this component; of one with replicas all of them; without it all, each line after its component's name",
    )
    .option("-f, --follow", "continue until the components have ended")
    .option("-c, --container <name>", "of another container than the main one, such as an init container")
    .addHelpText(
      "after",
      examples(
        "muster logs http-benchmark-x7k2p driver",
        "muster logs http-benchmark-x7k2p server",
        "muster logs -f http-benchmark-x7k2p",
        "muster logs job/training worker-0",
        "muster logs job/training worker-0 -c prepare",
      ),
    )
    .action(
      answer((name: string, component: string | undefined, { follow, container }: LogsOptions) =>
        logs(cli, name, component, { follow: follow === true, container }),
      ),
    );
}

function addReasons(program: Command, cli: CommandLine, answer: Answer): void {
  program
    .command("explain")
    .description("Show why an item is in its phase: a stable word, numbers, and who or what it waits for.")
    .argument("<name>", `${TARGET}; replica-set/NAME; lease/ID; or another owner of machines`)
    .addOption(outputOption())
    .addHelpText(
      "after",
      examples(
        "muster explain http-benchmark-x7k2p",
        "muster explain http-benchmark-x7k2p -o json",
        "muster explain job/training",
        "muster explain replica-set/web",
        "muster explain lease/4711-1",
      ),
    )
    .action(answer((name: string, { output }: OutputOption) => explain(cli, name, output)));
  program
    .command("events")
    .description("List what happened to sessions, jobs or a lease, oldest first.")
    .argument("[name]", `${TARGET}; lease/ID; jobs: of all jobs; without it of all sessions`)
    .option(
      "-f, --follow",
      "also print later events; ends with the work, or with Ctrl-C. With -o json a line for each event",
    )
    .addOption(outputOption())
    .addHelpText(
      "after",
      examples(
        "muster events",
        "muster events -f http-benchmark-x7k2p",
        "muster events job/training",
        "muster events -f -o json | jq .phase",
      ),
    )
    .action(
      answer((name: string | undefined, { follow, output }: OutputOption & { follow?: true }) =>
        showEvents(cli, name, { follow: follow === true, output }),
      ),
    );
}

function addWait(program: Command, cli: CommandLine, answer: Answer): void {
  type Options = OutputOption & { for: Goal; timeout: number };
  program
    .command("wait")
    .description("Wait until a session, job, replica set, roll or lease has a condition, or is gone; as kubectl wait.")
    .argument("<name>", `${TARGET}; replica-set/NAME, roll/NAME, lease/ID`)
    .addOption(
      new Option("--for <condition>", "condition=TYPE, condition=TYPE=false, or delete")
        .argParser(wishArgument)
        .makeOptionMandatory(),
    )
    .addOption(
      new Option("--timeout <duration>", "how long, such as 5m; 0s only checks")
        .argParser(waitArgument)
        .default(WAIT_MS, "30s"),
    )
    .addOption(outputOption())
    .addHelpText(
      "after",
      `
Ends with 0 once the condition is met. Ends with 1 when it can no longer be met,
as when a job has failed that was to succeed, or when the time is over; prints
the state then, and the reason. With -o json the last state is printed.

Of a job a condition is one of its status, such as Running, Succeeded, Failed.
Of a session it is a state, such as RUN, DONE, ERROR, true from when the
session came to it. Of a replica set it is ${SET_CONDITIONS.slice(0, 3).join(", ")},
${SET_CONDITIONS.slice(3).join(", ")}; of a roll ${ROLL_CONDITIONS.join(", ")}.
Of a lease it is its phase; delete: all of it is taken down. One that crashed
ends like any other, with 0: standard error states that it crashed.
Capital and small letters are the same.

Examples:
  muster wait job/training --for=condition=Succeeded --timeout 1h
  muster wait http-benchmark-x7k2p --for=condition=DONE -o json
  muster wait job/training --for=condition=Running=false
  muster wait tfjob/mnist --for=delete
  muster wait replica-set/web --for=condition=Ready --timeout 5m
  muster wait lease/4711-1 --for=condition=ACTIVE`,
    )
    .action(
      answer((text: string, { for: goal, timeout, output }: Options) => {
        const { resource, name } = namedResource(cli.resources, [text]);
        const { waiting, noun } = resource;
        if (waiting === undefined) throw new CommandError(EXIT.usage, `a ${noun} has no condition to wait for`);
        return waitFor(cli, { ...resource, waiting }, name, { goal, timeoutMs: timeout, output });
      }),
    );
}

/** The default of kubectl wait. */
const WAIT_MS = 30_000;

function wishArgument(text: string): Goal {
  const goal = readGoal(text);
  if (goal === undefined) throw new InvalidArgumentError("It is condition=TYPE, condition=TYPE=false, or delete.");
  return goal;
}

function waitArgument(text: string): number {
  const ms = parseDuration(text);
  if (ms === undefined) throw new InvalidArgumentError("A duration with its unit is needed, such as 5m.");
  return ms;
}
