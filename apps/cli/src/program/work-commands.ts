import { findFault, parseDuration, unlessMissing } from "@muster/faults";
import { InvalidArgumentError } from "commander";
import { CommandError } from "../command-error.ts";
import { showEvents } from "../commands/events.ts";
import { askAbout, askResource, findKindOfName, readWorkTarget } from "../commands/find-work.ts";
import { getItems } from "../commands/get.ts";
import { printLogs } from "../commands/logs.ts";
import { printForms, printLine } from "../commands/output.ts";
import { runFiles } from "../commands/run.ts";
import { showReservation } from "../commands/show-reservation.ts";
import { waitFor } from "../commands/wait.ts";
import { buildWorkRecord } from "../domain/build-views.ts";
import { EXIT } from "../domain/decide-exit.ts";
import { ROLL_CONDITIONS, SET_CONDITIONS } from "../domain/decide-set-wait.ts";
import { readGoal, type WaitGoal } from "../domain/decide-wait.ts";
import { readOwner } from "../domain/owner.ts";
import { LEASE } from "../kinds/lease.ts";
import { POOL } from "../kinds/pool.ts";
import { QUEUE } from "../kinds/queue.ts";
import type { ResourceRow } from "../kinds/resource.ts";
import { findResource, findNamedResource, splitTarget, type Resources } from "../kinds/resources.ts";
import { argument, defineCommand, option, required, withDefault, type CommandRow } from "./command-row.ts";
import { findNameAfter, makeResourceArgument, listWords } from "./resource-argument.ts";
import { parseSelectorArgument } from "./parse-values.ts";
import { OUTPUT, defineTimeoutOption } from "./shared-options.ts";

/** The description of a target without a kind. */
const TARGET = "name of a session; a job as job/NAME, or by its kind, such as tfjob/NAME";
/** The default timeout, as in kubectl wait. */
const WAIT_MS = 30_000;

const RUN = defineCommand({
  name: "run",
  description: "Submit the sessions and jobs of YAML files and follow them until they are over.",
  arguments: [argument("<file...>", "YAML files of one or more sessions or jobs; - is standard input")],
  options: {
    detach: option("-d, --detach", "submit only, and do not follow them"),
    dryRun: option("--dry-run", "check the files and print what would be submitted"),
    timeoutMs: defineTimeoutOption("stop following after this time, such as 10m; the submitted work continues"),
    output: OUTPUT,
  },
  text: `Progress goes to standard error, the result to standard output. Nothing is
submitted unless every file is valid. For replica sets, use muster apply.
Ctrl-C cancels the submitted work and waits for its end; Ctrl-C again leaves
immediately.
Documents are of kind Session, Job, or one of Kubeflow's: TFJob, PyTorchJob,
MPIJob, JAXJob.`,
  examples: [
    "muster run examples/http-benchmark.yaml",
    "muster run -o json examples/http-benchmark.yaml | jq '.[0].result'",
    "muster run examples/training-job.yaml",
    "muster run --detach a.yaml b.yaml",
    "sed s/v1/v2/ bench.yaml | muster run -",
  ],
  run: (cli, [files], options) => runFiles(cli, files, options),
});

function getCommand(resources: Resources): CommandRow {
  return defineCommand({
    name: "get",
    description:
      "List sessions, jobs, replica sets, rolling updates, leases, pools, queues or reservations, or show one.",
    arguments: [
      makeResourceArgument("what to list", resources, listWords(resources)),
      argument(
        "[name]",
        "only this one, as in `session NAME` or `session/NAME`; a reservation is named by its owner: session/NAME, or NAME",
      ),
    ],
    options: {
      selector: option(
        "-l, --selector <labels>",
        "only jobs or replica sets whose labels match",
        parseSelectorArgument,
      ),
      output: OUTPUT,
    },
    text: "`jobs` are those of all kinds.\nA selector has the form of kubectl: `a=b,c!=d,e in (f,g),!h`.",
    examples: [
      "muster get sessions",
      "muster get jobs",
      "muster get session http-benchmark-x7k2p -o yaml",
      "muster get job/training",
      "muster get jobs -l 'team=a,tier in (x,y)'",
      "muster get rs",
      "muster get leases",
      "muster get replica-set web -o yaml",
      "muster get queues",
      "muster get queue team-a",
      "muster get reservations -o json",
    ],
    run: (cli, [first, second], options) => getItems(cli, first.resource, findNameAfter(first, second), options),
  });
}

function describeCommand(resources: Resources): CommandRow {
  const described = resources.filter(({ describe }) => describe !== undefined);
  const words = described.flatMap(({ noun, shortName }) => (shortName === undefined ? [noun] : [noun, shortName]));
  return defineCommand({
    name: "describe",
    description: "Show the details of a session, job, replica set, lease or queue.",
    arguments: [
      makeResourceArgument("what to describe", described, words),
      argument("[name]", "the name, after a kind without a name"),
    ],
    options: { output: OUTPUT },
    examples: [
      "muster describe session http-benchmark-x7k2p",
      "muster describe job training",
      "muster describe job/training",
      "muster describe rs web",
      "muster describe queue team-a",
    ],
    run: async (cli, [first, second], { output }) => {
      const { resource, word } = first;
      const name = findNameAfter(first, second);
      if (name === undefined) throw new CommandError(EXIT.usage, `the name of the ${word} is missing`);
      await using connected = await cli.connect();
      const item = await askResource(
        connected,
        resource,
        name,
        () => resource.getWhole?.(connected, name) ?? resource.get(connected, name),
      );
      printForms(cli.io, output, {
        table: (style) => resource.describe?.(item, { nowMs: cli.now(), style }) ?? [],
        data: () => resource.record(item),
      });
      return EXIT.ok;
    },
  });
}

const LISTS = [
  listCommand(POOL, "List the pools and their machines; the same as `get pools`."),
  listCommand(
    QUEUE,
    "List the queues as trees, with used, owned and borrowed amounts; the same as `get queues`.",
    `Cells such as 10/8 (+2) mean used/quota, and (+borrowed). USE shows the fullest
resource: # is owned, + borrowed, . unused.`,
  ),
  listCommand(LEASE, "List the leases; the same as `get leases`."),
];

function listCommand(resource: ResourceRow, description: string, text?: string): CommandRow {
  return defineCommand({
    name: resource.plural,
    description,
    options: { output: OUTPUT },
    ...(text !== undefined && { text }),
    examples: [`muster ${resource.plural}`, `muster ${resource.plural} -o json`],
    run: (cli, _, options) => getItems(cli, resource, undefined, options),
  });
}

const CANCEL = defineCommand({
  name: "cancel",
  description: "End a session or job. A finished one stays unchanged.",
  arguments: [argument("<name>", "the name, or KIND/NAME if several kinds have an item of this name")],
  options: { output: OUTPUT },
  examples: ["muster cancel http-benchmark-x7k2p", "muster cancel job/training"],
  run: async (cli, [target], { output }) => {
    const { kind: meant, name } = readWorkTarget(cli, target, "cancel");
    await using connected = await cli.connect();
    const kind = target.includes("/") ? meant : await findKindOfName(cli, connected, name);
    const work = await kind.calls(connected.link).cancel(name);
    const how =
      work.finishedAtMs === undefined
        ? `is being cancelled; \`muster describe ${kind.noun} ${name}\` shows its progress`
        : "was already over; nothing changed";
    printLine(cli.io, output, `${kind.noun} ${name} ${how}`, () => buildWorkRecord(work));
    return EXIT.ok;
  },
});

/** A name without a kind is first looked up as a session, as with `cancel`. */
const SUSPENSIONS = (
  [
    ["suspend", true, "End the pods of a job and release its machines, until it is resumed."],
    ["resume", false, "Let a suspended job request its machines again."],
  ] as const
).map(([verb, suspended, description]) =>
  defineCommand({
    name: verb,
    description,
    arguments: [argument("<name>", "its name, or job/NAME")],
    options: { output: OUTPUT },
    examples: [`muster ${verb} training`, `muster ${verb} job/training`],
    run: async (cli, [target], { output }) => {
      const { kind: meant, name } = readWorkTarget(cli, target);
      await using connected = await cli.connect();
      const kind = target.includes("/") ? meant : await findKindOfName(cli, connected, name);
      const { suspend } = kind.calls(connected.link);
      if (suspend === undefined)
        throw new CommandError(EXIT.usage, `a ${kind.noun} cannot be suspended: it would lose its progress`, {
          hint: `\`muster cancel ${name}\` ends it; submit it again later`,
        });
      const work = await suspend(name, suspended);
      const how = `\`muster describe ${kind.noun} ${name}\` shows its progress`;
      printLine(cli.io, output, `${kind.noun} ${name} is ${verb}${suspended ? "ed" : "d"}; ${how}`, () =>
        buildWorkRecord(work),
      );
      return EXIT.ok;
    },
  }),
);

const LOGS = defineCommand({
  name: "logs",
  description: "Print the logs of the components of a session or job, while it runs and after its end.",
  arguments: [
    argument("<name>", TARGET),
    argument(
      "[component]",
      "only this component, or all its replicas; default: all, each line after its component's name",
    ),
  ],
  options: {
    follow: option("-f, --follow", "continue until the components have ended"),
    container: option("-c, --container <name>", "another container than the main one, such as an init container"),
  },
  examples: [
    "muster logs http-benchmark-x7k2p driver",
    "muster logs http-benchmark-x7k2p server",
    "muster logs -f http-benchmark-x7k2p",
    "muster logs job/training worker-0",
    "muster logs job/training worker-0 -c prepare",
  ],
  run: (cli, [name, component], options) => printLogs(cli, name, component, options),
});

const EXPLAIN = defineCommand({
  name: "explain",
  description: "Show why an item is in its phase: a stable code, numbers, and the items that it waits for.",
  arguments: [argument("<name>", `${TARGET}; replica-set/NAME; lease/ID; or another owner of machines`)],
  options: { output: OUTPUT },
  examples: [
    "muster explain http-benchmark-x7k2p",
    "muster explain http-benchmark-x7k2p -o json",
    "muster explain job/training",
    "muster explain replica-set/web",
    "muster explain lease/4711-1",
    "muster explain batch-job/default/train",
  ],
  run: async (cli, [text], { output }) => {
    const { word, name } = splitTarget(text);
    const found = text.includes("/") ? findResource(cli.resources, word) : cli.resources[0];
    const nouns = cli.resources.flatMap((each) => (each.explain === undefined ? [] : [each.noun]));
    const owner = readOwner(found?.explain === undefined ? text : `${found.noun}/${name}`, nouns);
    if ("trouble" in owner) throw new CommandError(EXIT.usage, owner.trouble);
    const { kind, id } = owner;
    await using connected = await cli.connect();
    // The ledger knows no names of Kubernetes; the job-controller adds what the ledger answers.
    const isNamed = owner.namespace !== undefined;
    const reservation = () => (isNamed ? undefined : unlessMissing(connected.services.explanation(kind, id)));
    const shown = await askAbout(cli, connected, { resource: found ?? {}, text, name: id }, async () => {
      if (found?.explain === undefined) return showReservation(cli, connected, owner, await reservation());
      try {
        return await found.explain(cli, connected, id);
      } catch (error) {
        if (findFault(error)?.code !== "not_found" || found.hasOwnerIds !== true) throw error;
        const known = await reservation();
        if (known === undefined) throw error;
        return showReservation(cli, connected, owner, known);
      }
    });
    printForms(cli.io, output, shown);
    return EXIT.ok;
  },
});

const EVENTS = defineCommand({
  name: "events",
  description: "List the events of sessions, jobs or a lease, oldest first.",
  arguments: [argument("[name]", `${TARGET}; lease/ID; jobs for all jobs; default: all sessions`)],
  options: {
    follow: option(
      "-f, --follow",
      "also print later events, until the work or Ctrl-C ends it; with -o json one line per event",
    ),
    output: OUTPUT,
  },
  examples: [
    "muster events",
    "muster events -f http-benchmark-x7k2p",
    "muster events job/training",
    "muster events -f -o json | jq .phase",
  ],
  run: (cli, [name], options) => showEvents(cli, name, options),
});

const WAIT = defineCommand({
  name: "wait",
  description: "Wait until a session, job, replica set, roll or lease has a condition, or is gone; as kubectl wait.",
  arguments: [argument("<name>", `${TARGET}; replica-set/NAME, roll/NAME, lease/ID`)],
  options: {
    goal: required(option("--for <condition>", "condition=TYPE, condition=TYPE=false, or delete", goalArgument)),
    timeoutMs: withDefault(
      option("--timeout <duration>", "the longest wait, such as 5m; 0s checks once", waitArgument),
      WAIT_MS,
      "30s",
    ),
    output: OUTPUT,
  },
  text: `Ends with 0 once the condition is met. Ends with 1 when it can no longer be met,
for example when a job has failed and the condition is Succeeded, or when the
time is over; then prints the state and the reason. With -o json it prints the
last state.

Of a job a condition is one of its status, such as Running, Succeeded, Failed.
Of a session it is a state, such as RUN, DONE, ERROR, true from when the
session came to it. Of a replica set it is ${SET_CONDITIONS.slice(0, 3).join(", ")},
${SET_CONDITIONS.slice(3).join(", ")}; of a roll ${ROLL_CONDITIONS.join(", ")}.
Of a lease it is its phase; delete: all of it is taken down. One that crashed
ends like any other, with 0: standard error states that it crashed.
Conditions are case-insensitive.`,
  examples: [
    "muster wait job/training --for=condition=Succeeded --timeout 1h",
    "muster wait http-benchmark-x7k2p --for=condition=DONE -o json",
    "muster wait job/training --for=condition=Running=false",
    "muster wait tfjob/mnist --for=delete",
    "muster wait replica-set/web --for=condition=Ready --timeout 5m",
    "muster wait lease/4711-1 --for=condition=ACTIVE",
  ],
  run: (cli, [text], options) => {
    const { resource, name } = findNamedResource(cli.resources, [text]);
    const { waiting, noun } = resource;
    if (waiting === undefined) throw new CommandError(EXIT.usage, `a ${noun} has no condition to wait for`);
    return waitFor(cli, { ...resource, waiting }, name, options);
  },
});

function goalArgument(text: string): WaitGoal {
  const goal = readGoal(text);
  if (goal === undefined) throw new InvalidArgumentError("It is condition=TYPE, condition=TYPE=false, or delete.");
  return goal;
}

function waitArgument(text: string): number {
  const ms = parseDuration(text);
  if (ms === undefined) throw new InvalidArgumentError("A duration with its unit is needed, such as 5m.");
  return ms;
}

/** Returns commands that submit sessions and jobs, and show all state. */
export function listWorkCommands(resources: Resources): readonly CommandRow[] {
  return [
    RUN,
    getCommand(resources),
    describeCommand(resources),
    ...LISTS,
    CANCEL,
    ...SUSPENSIONS,
    LOGS,
    EXPLAIN,
    EVENTS,
    WAIT,
  ];
}
