import { InvalidArgumentError, Option, type Command } from "commander";
import { CommandError } from "../command-error.ts";
import { cleanUpLeases } from "../commands/clean-up-leases.ts";
import { showEvents } from "../commands/events.ts";
import { getItems } from "../commands/get.ts";
import { endLease, listLeases, printSecret, renewLease, verifyLeases } from "../commands/leases.ts";
import { orderLeases } from "../commands/order-leases.ts";
import { EXIT } from "../domain/decide-exit.ts";
import { LEASE_PHASES } from "../domain/lease.ts";
import { readLeaseDuration } from "../domain/lease-duration.ts";
import { LEASE_TYPES } from "../domain/lease-document.ts";
import { DEFAULT_EVENTS, LEASE } from "../kinds/lease.ts";
import { nameOfKind, type CommandLine } from "../kinds/resources.ts";
import { engineKeyOption, keyFileOption } from "./add-key-commands.ts";
import { refuseWord } from "./add-roll-commands.ts";
import { durationArgument, outputOption, type Answer, type OutputOption, examples } from "./command-options.ts";

const ID = "id of the lease, also as lease/ID";
const MAX_EVENTS = 500;

type KeyOption = { readonly keyFile?: string };
type Wait = { readonly wait?: true; readonly timeout?: number };

/** Commands of leases: signed orders for a workload or machines, for a time. */
export function addLeaseCommands(program: Command, cli: CommandLine, answer: Answer): void {
  const lease = program
    .command("lease")
    .description("Order workloads and machines for a time, signed with your key.")
    .addHelpText(
      "after",
      `
Examples:
  muster keys new
  muster lease order -f examples/leases/debug.yaml --wait
  muster lease get
  muster lease renew 1767225600000-7 --for 2h
  muster lease end 1767225600000-7`,
    );
  addOrder(lease, cli, answer);
  addRenew(lease, cli, answer);
  addEnd(lease, cli, answer);
  addGet(lease, cli, answer);
  addHistory(lease, cli, answer);
  addVerify(lease, cli, answer);
  addCleanup(lease, cli, answer);
  for (const [word, hint] of OTHERWISE) refuseWord(lease, word, hint);
}

/** Words of other commands, and the command for each here. */
const OTHERWISE = [
  ["create", "`muster lease order -f FILE` orders one"],
  ...["list", "ls", "show", "describe"].map(
    (word) => [word, "`muster lease get [ID]` lists them, or shows one"] as const,
  ),
  ...["delete", "cancel", "stop"].map((word) => [word, "`muster lease end ID` ends one, for good"] as const),
  ...["extend", "prolong"].map((word) => [word, "`muster lease renew ID --for 2h` lets one end later"] as const),
  ["explain", "`muster explain lease/ID` says why it is where it is"],
  ["wait", "`muster wait lease/ID --for=condition=ACTIVE` waits for a phase"],
] as const;

function addOrder(lease: Command, cli: CommandLine, answer: Answer): void {
  type Options = OutputOption &
    KeyOption &
    Wait & {
      readonly filename: string[];
      readonly dryRun?: true;
      readonly engineKey?: string;
      readonly reference?: string;
    };
  lease
    .command("order")
    .description("Sign what YAML files of kind Lease say, and order it.")
    .argument("[file...]", "YAML files; - is standard input")
    .addOption(
      new Option("-f, --filename <file>", "a YAML file; may be given again; - is standard input")
        .argParser((file: string, before: string[]) => [...before, file])
        .default([], "none"),
    )
    .option("--dry-run", "show what the engine would do, and what is sealed to it; order nothing")
    .option("--reference <id>", "take over what this older lease of yours has, as it is; of one file", leaseIdOf)
    .addOption(engineKeyOption())
    .option("--wait", "wait until it is ACTIVE; Ctrl-C leaves the lease as it is")
    .option("--timeout <duration>", "end with 1 when that takes longer, such as 5m", durationArgument)
    .addOption(keyFileOption())
    .addOption(outputOption())
    .addHelpText(
      "after",
      `
Without metadata.name each order is a new lease, and its id is printed. With it
the same file may be sent again: a lease that exists stays as it is, and one
that has failed is retried. With --reference it is always a new lease, where the
file names the older one. --dry-run ends with 1 where an order would fail
immediately; it does not know what only the cluster shows, such as a missing
image.

Examples:
  muster lease order -f examples/leases/debug.yaml
  muster lease order -f lease.yaml --reference 4711-1
  muster lease order -f lease.yaml --wait --timeout 10m
  muster lease order -f lease.yaml -o json | jq -r '.[].id'`,
    )
    .action(
      answer((files: string[], { filename, dryRun, reference, engineKey, wait, timeout, keyFile, output }: Options) => {
        const all = [...files, ...filename];
        if (all.length === 0)
          throw new CommandError(EXIT.usage, "no file is named", {
            hint: "muster lease order -f FILE; - is standard input",
          });
        const flags = { dryRun: dryRun === true, wait: wait === true };
        return orderLeases(cli, all, { ...flags, reference, engineKey, timeoutMs: timeout, keyFile, output });
      }),
    );
}

function addRenew(lease: Command, cli: CommandLine, answer: Answer): void {
  type Options = OutputOption & KeyOption & { readonly for: bigint };
  lease
    .command("renew")
    .description("Let a lease end later.")
    .argument("<lease>", ID)
    .addOption(
      new Option("--for <duration>", "so much later than it would end now, such as 2h; or forever")
        .argParser(leaseDurationArgument)
        .makeOptionMandatory(),
    )
    .addOption(keyFileOption())
    .addOption(outputOption())
    .addHelpText("after", examples("muster lease renew 1767225600000-7 --for 2h"))
    .action(
      answer((id: string, options: Options) => {
        const { keyFile, output } = options;
        return renewLease(cli, { id: leaseIdOf(id), forNs: options.for, keyFile, output });
      }),
    );
}

function addEnd(lease: Command, cli: CommandLine, answer: Answer): void {
  type Options = OutputOption & KeyOption & Wait & { readonly force?: true };
  lease
    .command("end")
    .description("End a lease now; what it has is taken down, and it never comes back.")
    .argument("<lease>", ID)
    .option("--force", "also a network or a volume that other leases use: it is taken down after them")
    .option("--wait", "wait until all of it is taken down")
    .option("--timeout <duration>", "end with 1 when that takes longer, such as 5m", durationArgument)
    .addOption(keyFileOption())
    .addOption(outputOption())
    .addHelpText("after", examples("muster lease end 1767225600000-7", "muster lease end 1767225600000-7 --wait"))
    .action(
      answer((id: string, { force, wait, timeout, keyFile, output }: Options) => {
        const flags = { force: force === true, wait: wait === true, timeoutMs: timeout };
        return endLease(cli, { id: leaseIdOf(id), ...flags, keyFile, output });
      }),
    );
}

function addGet(lease: Command, cli: CommandLine, answer: Answer): void {
  type Options = OutputOption &
    KeyOption & {
      readonly mine?: true;
      readonly active?: true;
      readonly all?: true;
      readonly type?: string;
      readonly phase: readonly string[];
      readonly secret?: string;
    };
  lease
    .command("get")
    .description("List leases, the newest first and those that are over last, or show one.")
    .argument("[lease]", ID)
    .option("--mine", "only those of your key")
    .addOption(new Option("--type <type>", "only those of this type").choices(LEASE_TYPES))
    .option("--active", "the same as --phase ACTIVE")
    .addOption(
      new Option("--phase <phase>", "only those in this phase, in any letters; may be given again, or as A,B")
        .argParser(phasesArgument)
        .default([], "any"),
    )
    .option("--all", "also all that are over, and not only the newest of them")
    .option("--secret <field>", "print only this of the result of one, opened with your key")
    .addOption(keyFileOption())
    .addOption(outputOption())
    .addHelpText(
      "after",
      `
Examples:
  muster lease get --mine --active
  muster lease get --phase ordered,provisioning
  muster lease get 1767225600000-7
  muster lease get 1767225600000-7 --secret kubeconfig > kubeconfig
  muster lease get --phase ACTIVE -o json | jq '.[].result.data | fromjson'`,
    )
    .action(
      answer((id: string | undefined, { mine, active, all, type, phase, secret, keyFile, output }: Options) => {
        if (secret !== undefined && id === undefined)
          throw new CommandError(EXIT.usage, "--secret is of one lease, and none is named", {
            hint: `muster lease get ID --secret ${secret}; \`muster lease get --mine\` lists those of your key`,
          });
        if (id !== undefined)
          return secret === undefined
            ? getItems(cli, LEASE, leaseIdOf(id), output)
            : printSecret(cli, leaseIdOf(id), { secret, keyFile });
        const phases = active === true ? [...phase, "ACTIVE"] : phase;
        return listLeases(cli, { mine: mine === true, all: all === true, type, phases, keyFile, output });
      }),
    );
}

function addHistory(lease: Command, cli: CommandLine, answer: Answer): void {
  type Options = OutputOption & { readonly limit: number; readonly follow?: true };
  lease
    .command("history")
    .description("List what happened to a lease, the oldest first.")
    .argument("<lease>", ID)
    .addOption(new Option("--limit <n>", "the newest of them").argParser(eventsArgument).default(DEFAULT_EVENTS))
    .option(
      "-f, --follow",
      "also print later events; ends with the lease, or with Ctrl-C. With -o json a line for each",
    )
    .addOption(outputOption())
    .addHelpText("after", examples("muster lease history 1767225600000-7", "muster lease history -f 1767225600000-7"))
    .action(
      answer((id: string, { limit, follow, output }: Options) =>
        showEvents(cli, `${LEASE.noun}/${leaseIdOf(id)}`, { limit, follow: follow === true, output }),
      ),
    );
}

function addVerify(lease: Command, cli: CommandLine, answer: Answer): void {
  type Options = OutputOption & { readonly filename: string; readonly engineKey?: string };
  lease
    .command("verify")
    .description("Check who has signed a lease, without any service.")
    .addOption(
      new Option(
        "-f, --filename <file>",
        "the output of `muster lease get -o json`; - is standard input",
      ).makeOptionMandatory(),
    )
    .option(
      "--engine-key <id>",
      "what the engine signs results with: the `user` that `muster keys show` says of its key",
    )
    .addOption(outputOption())
    .addHelpText(
      "after",
      `
Ends with 1 where a signature is wrong, or where the data that its user signed
are gone, so that nothing of the order is proven. Nothing signs the phase and
the history.

Examples:
  muster lease get 1767225600000-7 -o json | muster lease verify -f -`,
    )
    .action(
      answer(({ filename, engineKey, output }: Options) => verifyLeases(cli, { file: filename, engineKey, output })),
    );
}

function addCleanup(lease: Command, cli: CommandLine, answer: Answer): void {
  type Options = OutputOption & { readonly engine: string; readonly dryRun?: true; readonly confirm: number };
  lease
    .command("cleanup")
    .description("Remove what leases that are over have left behind.")
    .option("--engine <id>", "of this engine", "main")
    .option("--dry-run", "only say what would be removed")
    .addOption(
      new Option("--confirm <n>", "up to so many may be removed, even if records seem to be lost")
        .argParser(countArgument)
        .default(0),
    )
    .addOption(outputOption())
    .addHelpText(
      "after",
      `
An object that is left over is removed when it still is some time later.

Examples:
  muster lease cleanup --dry-run
  muster lease cleanup --confirm 120`,
    )
    .action(
      answer(({ engine, dryRun, confirm, output }: Options) =>
        cleanUpLeases(cli, { engine, dryRun: dryRun === true, confirm, output }),
      ),
    );
}

/** The id of a lease, also as lease/ID. */
function leaseIdOf(text: string): string {
  return nameOfKind(LEASE, text);
}

/** Nanoseconds, above zero. */
function leaseDurationArgument(text: string): bigint {
  const read = readLeaseDuration(text);
  if ("trouble" in read) throw new InvalidArgumentError(`It ${read.trouble}.`);
  return read.ns;
}

function phasesArgument(text: string, before: readonly string[]): readonly string[] {
  const phases = text.toUpperCase().split(",");
  if (phases.some((each) => !LEASE_PHASES.some((known) => known === each)))
    throw new InvalidArgumentError(`Allowed choices are ${LEASE_PHASES.join(", ")}.`);
  return [...before, ...phases];
}

function countArgument(text: string): number {
  if (!/^[1-9]\d{0,8}$/.test(text)) throw new InvalidArgumentError("A whole number from 1 on is needed.");
  return Number(text);
}

function eventsArgument(text: string): number {
  if (!/^[1-9]\d{0,2}$/.test(text) || Number(text) > MAX_EVENTS)
    throw new InvalidArgumentError(`A whole number from 1 to ${MAX_EVENTS} is needed.`);
  return Number(text);
}
