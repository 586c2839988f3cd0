import { Command, Option } from "commander";
import type { CommonOptions } from "./cli.ts";
import type { CommandLine, Resources } from "./kinds/resources.ts";
import { EXIT, type ExitCode } from "./domain/decide-exit.ts";
import { shortenWords } from "./domain/shorten.ts";
import type { CommandRow } from "./program/command-row.ts";
import { AUDIT } from "./program/audit-command.ts";
import { CONTEXTS } from "./program/context-commands.ts";
import { installCommands, refuseWords } from "./program/install-commands.ts";
import { KEYS } from "./program/key-commands.ts";
import { LEASES } from "./program/lease-commands.ts";
import { NODES } from "./program/node-commands.ts";
import { ROLLS } from "./program/roll-commands.ts";
import { SETS } from "./program/set-commands.ts";
import { listUpkeepCommands } from "./program/upkeep-commands.ts";
import { listWorkCommands } from "./program/work-commands.ts";
import { VERSION } from "./version.ts";

const EXIT_CODES = `
Exit codes:
  0    done
  1    the work failed: a session is not DONE, a job has not succeeded,
       a condition of wait was not met, a check of doctor failed
  2    the command line or a file is wrong
  3    the NATS server or a service cannot be reached
  4    a service refused the request
  130  interrupted

Environment:
  MUSTER_SERVER      the gateway, instead of NATS; without it, and without
                     MUSTER_NATS_URL, the current context
  MUSTER_TOKEN       the token for the gateway; MUSTER_TOKEN_FILE: its file
  MUSTER_SERVER_CA_FILE
                     the CA certificates that verify the gateway
  MUSTER_PLAIN_HTTP  true: use a gateway on another machine without TLS
  MUSTER_CONFIG      the file of contexts; default ~/.config/muster/config.yaml
  MUSTER_NATS_URL    the NATS server; without it the local stack of
                     \`npm start -- --keep\` or \`docker compose up\`, then
                     nats://127.0.0.1:4222
  MUSTER_NATS_NKEY_FILE
                     the file of the nkey seed; MUSTER_NATS_NKEY: the seed
                     itself; MUSTER_NATS_TOKEN: a token instead
  MUSTER_NATS_CA_FILE
                     the CA certificates that verify NATS;
                     MUSTER_NATS_CERT_FILE and MUSTER_NATS_KEY_FILE: the
                     client certificate and its key
  MUSTER_LOCAL_FILE  the file that contains the address of the local stack;
                     default .muster/local.json in the repository, then
                     .muster-compose/local.json
  MUSTER_KEY_FILE    the file of the private key that signs lease orders;
                     default ~/.config/muster/key
  MUSTER_KEY         the key itself, instead of a file
  NO_COLOR           not empty: no colours`;

/** Words of kubectl, each with the corresponding command of `muster`. */
const KUBECTLS = [
  ["create", "`muster apply -f FILE` creates replica sets, `muster run FILE` submits sessions and jobs"],
  ["edit", "change the file, then run `muster apply -f FILE`"],
  [
    "patch",
    "change the file, then run `muster apply -f FILE`; `muster scale NAME --replicas N` changes the number alone",
  ],
  ["replace", "`muster apply -f FILE --replace`"],
  [
    "drain",
    "`kubectl cordon NODE` makes dynamic replica sets leave the node; `muster transfer NAME --from NODE` moves one replica",
  ],
  [
    "cordon",
    "`kubectl cordon NODE` makes dynamic replica sets leave the node; `muster transfer NAME --from NODE` moves one replica",
  ],
] as const;

/** Commands that accept a namespace. */
const NAMESPACED = new Set([
  "run",
  "get",
  "describe",
  "cancel",
  "suspend",
  "resume",
  "logs",
  "explain",
  "events",
  "wait",
  "set-context",
  "__complete",
]);

/** Returns every command, in the order of the help. */
export function listCommandRows(resources: Resources): readonly CommandRow[] {
  return [
    ...listWorkCommands(resources),
    ...SETS,
    ROLLS,
    LEASES,
    KEYS,
    NODES,
    AUDIT,
    ...CONTEXTS,
    ...listUpkeepCommands(resources),
  ];
}

export type Program = {
  /** Runs the command that the arguments name. Rejects with CommanderError if they name none. */
  parse(args: readonly string[]): Promise<ExitCode>;
};

/** Builds the whole command line. Every action returns an exit code. */
export function buildProgram(
  makeCli: (options: () => CommonOptions) => CommandLine,
  columns: number | undefined,
): Program {
  let exitCode: ExitCode = EXIT.ok;
  const program = new Command("muster")
    .description("Runs work that needs several machines together, and shows its state.")
    .addOption(
      new Option("--server <url>", "the gateway, instead of NATS; overrides MUSTER_SERVER").conflicts([
        "natsUrl",
        "context",
      ]),
    )
    .addOption(new Option("--context <name>", "use the gateway and the user of this context").conflicts("natsUrl"))
    .option("--token-file <file>", "the token for the gateway; overrides MUSTER_TOKEN")
    .option("--certificate-authority <file>", "the CA certificates that verify the gateway")
    .option("--nats-url <url>", "the NATS server; overrides MUSTER_NATS_URL")
    .option("-n, --namespace <name>", "the namespace of jobs; default: the one of the job-controller")
    .addOption(
      new Option("-A, --all-namespaces", "with `get jobs`: list every namespace whose jobs run").conflicts("namespace"),
    )
    .version(VERSION, "-V, --version", "print the version")
    .helpCommand("help [command]", "show help for a command")
    .showHelpAfterError("hint: add --help for the options and examples of a command")
    .configureHelp({ helpWidth: Math.min(columns ?? 80, 120) })
    .exitOverride()
    .addHelpText("after", EXIT_CODES);
  const cli = makeCli(() => program.opts<CommonOptions>());
  program.hook("preAction", (_program, action) => {
    const { namespace, allNamespaces } = program.opts<CommonOptions>();
    if (namespace !== undefined && !NAMESPACED.has(action.name()))
      action.error(`error: --namespace is for jobs, and \`${action.name()}\` has none`);
    if (allNamespaces === true && action.name() !== "get")
      action.error(`error: --all-namespaces is for \`get jobs\`, not for \`${action.name()}\``);
  });
  program.configureOutput({
    writeOut: (text) => cli.io.out([text.trimEnd()]),
    writeErr: (text) => cli.io.err([text.trimEnd()]),
    outputError: (text, write) => write(shortenWords(text)),
  });
  installCommands(program, cli, listCommandRows(cli.resources), (code) => (exitCode = code));
  refuseWords(program, KUBECTLS);
  return {
    parse: async (args) => {
      await program.parseAsync(args, { from: "user" });
      return exitCode;
    },
  };
}
