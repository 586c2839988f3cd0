import { parseDuration } from "@muster/faults";
import { InvalidArgumentError, Option, type Command } from "commander";
import type { Cli } from "../cli.ts";
import { CommandError } from "../command-error.ts";
import { events } from "../commands/events.ts";
import { cancelWork, explain, getPools } from "../commands/get.ts";
import { logs } from "../commands/logs.ts";
import { leaseIdOf } from "../commands/lease-questions.ts";
import { EVENTS_DEFAULT, showHistory } from "../commands/lease-history.ts";
import { nameOf, resourceArgument, type Resource } from "../commands/resource-argument.ts";
import { run } from "../commands/run.ts";
import { EXIT } from "../domain/decide-exit.ts";
import { readWish, type Wish } from "../domain/decide-wait.ts";
import { ROLL_CONDITIONS, SET_CONDITIONS } from "../domain/decide-set-wait.ts";
import { isLeaseWord, LEASE_NOUN } from "../domain/lease-document.ts";
import { durationArgument, outputOption, type Answer, type OutputOption } from "./command-options.ts";
import { resourceOf } from "./resources.ts";

/** How one is named where no kind stands before. */
const TARGET = "name of the session; of a job job/NAME, or by its kind: tfjob/NAME";

/** Those that submit sessions and jobs, and show what became of them. */
export function addWorkCommands(program: Command, cli: Cli, answer: Answer): void {
  addRun(program, cli, answer);
  addQueries(program, cli, answer);
  addLogs(program, cli, answer);
  addReasons(program, cli, answer);
  addWait(program, cli, answer);
}

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
submitted unless every file is right. Replica sets are applied: muster apply.
Ctrl-C cancels what was submitted and
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
    .description("List sessions, jobs, replica sets, rolling updates, leases, pools or reservations, or show one.")
    .addArgument(
      resourceArgument("what to list", [
        ...cli.kinds.map(({ plural }) => plural),
        ...["replica-sets", "rs", "rolls", "leases", "pools", "reservations"],
        ...nouns,
        ...["replica-set", "roll", LEASE_NOUN, "pool", "reservation"],
      ]),
    )
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
      answer((resource: Resource, second: string | undefined, { output }: OutputOption) =>
        resourceOf(cli, resource.word).get(cli, nameOf(resource, second), output),
      ),
    );
  program
    .command("describe")
    .description("Tell all that is known of a session, job, replica set or lease.")
    .addArgument(resourceArgument("what to describe", [...nouns, "replica-set", "rs", LEASE_NOUN]))
    .argument("[name]", "its name, unless it is `job/NAME`")
    .addOption(outputOption())
    .addHelpText(
      "after",
      `\nExamples:\n  muster describe session http-benchmark-x7k2p\n  muster describe job training\n  muster describe job/training\n  muster describe rs web`,
    )
    .action(
      answer((resource: Resource, second: string | undefined, { output }: OutputOption) => {
        const name = nameOf(resource, second);
        if (name === undefined) throw new CommandError(EXIT.usage, `the name of the ${resource.word} is missing`);
        return resourceOf(cli, resource.word).describe(cli, name, output);
      }),
    );
  program
    .command("pools")
    .description("List the pools and their machines; the same as `get pools`.")
    .addOption(outputOption())
    .addHelpText("after", `\nExamples:\n  muster pools`)
    .action(answer(({ output }: OutputOption) => getPools(cli, undefined, output)));
  program
    .command("leases")
    .description("List the leases; the same as `get leases`.")
    .addOption(outputOption())
    .addHelpText("after", `\nExamples:\n  muster leases`)
    .action(answer(({ output }: OutputOption) => resourceOf(cli, LEASE_NOUN).get(cli, undefined, output)));
  program
    .command("cancel")
    .description("End a session or job. One that is over already stays as it is.")
    .argument("<name>", "its name; with its kind, as in job/NAME, where several have it")
    .addOption(outputOption())
    .addHelpText("after", `\nExamples:\n  muster cancel http-benchmark-x7k2p\n  muster cancel job/training`)
    .action(answer((name: string, { output }: OutputOption) => cancelWork(cli, name, output)));
}

type LogsOptions = { readonly follow?: true; readonly container?: string };

function addLogs(program: Command, cli: Cli, answer: Answer): void {
  program
    .command("logs")
    .description("Print what the components of a session or job wrote, while it runs and after it is over.")
    .argument("<name>", TARGET)
    .argument(
      "[component]",
      "only this component; of one with replicas all of them; without it all, each line after its component's name",
    )
    .option("-f, --follow", "go on until the components have ended")
    .option("-c, --container <name>", "of another container than the main one, such as an init container")
    .addHelpText(
      "after",
      `\nExamples:\n  muster logs http-benchmark-x7k2p driver\n  muster logs http-benchmark-x7k2p server\n  muster logs -f http-benchmark-x7k2p\n  muster logs job/training worker-0\n  muster logs job/training worker-0 -c prepare`,
    )
    .action(
      answer((name: string, component: string | undefined, { follow, container }: LogsOptions) =>
        logs(cli, name, component, { follow: follow === true, container }),
      ),
    );
}

function addReasons(program: Command, cli: Cli, answer: Answer): void {
  program
    .command("explain")
    .description("Say why something is where it is: a stable word, numbers, and who or what it waits for.")
    .argument("<name>", `${TARGET}; replica-set/NAME; lease/ID; or another owner of machines`)
    .addOption(outputOption())
    .addHelpText(
      "after",
      `\nExamples:\n  muster explain http-benchmark-x7k2p\n  muster explain http-benchmark-x7k2p -o json\n  muster explain job/training\n  muster explain replica-set/web\n  muster explain lease/4711-1`,
    )
    .action(answer((name: string, { output }: OutputOption) => explain(cli, name, output)));
  program
    .command("events")
    .description("List what happened to sessions, jobs or a lease, oldest first.")
    .argument("[name]", `${TARGET}; lease/ID; jobs: of all jobs; without it of all sessions`)
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
        name !== undefined && isLeaseWord(wordOf(name))
          ? showHistory(cli, { id: leaseIdOf(name), limit: EVENTS_DEFAULT, follow: follow === true, output })
          : events(cli, name, { follow: follow === true, output }),
      ),
    );
}

function addWait(program: Command, cli: Cli, answer: Answer): void {
  type Options = OutputOption & { for: Wish; timeout: number };
  program
    .command("wait")
    .description("Wait until a session, job, replica set, roll or lease has a condition, or is gone; as kubectl wait.")
    .argument("<name>", `${TARGET}; replica-set/NAME, roll/NAME, lease/ID`)
    .addOption(
      new Option("--for <wish>", "condition=TYPE, condition=TYPE=false, or delete")
        .argParser(wishArgument)
        .makeOptionMandatory(),
    )
    .addOption(
      new Option("--timeout <duration>", "how long, such as 5m; 0s only looks")
        .argParser(waitArgument)
        .default(WAIT_MS, "30s"),
    )
    .addOption(outputOption())
    .addHelpText(
      "after",
      `
Ends with 0 once it is so. Ends with 1 when it can no longer become so, as when
a job has failed that was to succeed, or when the time is over; says then what
it is, and why. With -o json the work is printed as it was last seen.

Of a job a condition is one of its status, such as Running, Succeeded, Failed.
Of a session it is a state, such as RUN, DONE, ERROR, true from when the
session came to it. Of a replica set it is ${SET_CONDITIONS.slice(0, 3).join(", ")},
${SET_CONDITIONS.slice(3).join(", ")}; of a roll ${ROLL_CONDITIONS.join(", ")}.
Of a lease it is its phase; delete: nothing of it is there any more. One that
crashed ends like any other, with 0: standard error says that it crashed.
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
      answer((name: string, { for: wish, timeout, output }: Options) =>
        resourceOf(cli, wordOf(name)).wait(cli, name, { wish, timeoutMs: timeout, output }),
      ),
    );
}

/** What stands before the slash; empty where there is none. */
function wordOf(text: string): string {
  return text.slice(0, Math.max(0, text.indexOf("/")));
}

/** As long as kubectl waits when nothing is said. */
const WAIT_MS = 30_000;

function wishArgument(text: string): Wish {
  const wish = readWish(text);
  if (wish === undefined) throw new InvalidArgumentError("It is condition=TYPE, condition=TYPE=false, or delete.");
  return wish;
}

function waitArgument(text: string): number {
  const ms = parseDuration(text);
  if (ms === undefined) throw new InvalidArgumentError("A duration with its unit is needed, such as 5m.");
  return ms;
}
