import { InvalidArgumentError } from "commander";
import { backUpStreams, checkBackup, restoreBackup } from "../commands/backup.ts";
import { completeLine, printCompletion, SHELLS, type Shell } from "../commands/completion.ts";
import { runDoctor } from "../commands/doctor.ts";
import { printManual } from "../commands/man.ts";
import { printVersion } from "../commands/version.ts";
import { EXIT } from "../domain/decide-exit.ts";
import { writeSchema } from "../domain/build-session-schema.ts";
import type { ResourceRow, SchemaRow } from "../kinds/resource.ts";
import { findResource, type Resources } from "../kinds/resources.ts";
import { argument, defineCommand, option, type ArgumentRow, type CommandRow } from "./command-row.ts";
import { DEAD_LETTERS } from "./dead-letter-commands.ts";
import { OUTPUT } from "./shared-options.ts";

const DOCTOR = defineCommand({
  name: "doctor",
  description: "Check everything that work needs, and show the next step for each problem.",
  options: { output: OUTPUT },
  examples: ["muster doctor", "muster doctor -o json"],
  run: (cli, _, { output }) => runDoctor(cli, output),
});

const SHOW_VERSION = defineCommand({
  name: "version",
  description: "Print the version of this command, of Node, and of each service.",
  options: {
    output: OUTPUT,
    client: option("--client", "only the versions of this command and Node, without a server"),
  },
  examples: ["muster version", "muster version --client -o json"],
  run: (cli, _, { output, client }) => printVersion(cli, output, client),
});

const BACKUP = defineCommand({
  name: "backup",
  description: "Copy all state of Muster in NATS to a file, while the services run.",
  arguments: [argument("<file>", "a file that does not exist; only its owner may read it")],
  options: {
    check: option("--check", "copy nothing; check that this file is a complete backup, without NATS"),
  },
  text: `Needs the nkey of the NATS user \`backup\`. The nkey of a local stack is found
automatically; elsewhere, set MUSTER_NATS_NKEY_FILE.`,
  examples: [
    "muster backup muster-$(date +%F)",
    "MUSTER_NATS_NKEY_FILE=keys/nkeys/backup.nk muster backup muster-$(date +%F)",
    "muster backup --check muster-2026-01-31",
  ],
  run: (cli, [file], { check }) => (check ? checkBackup(cli, file) : backUpStreams(cli, file)),
});

const RESTORE = defineCommand({
  name: "restore",
  description: "Restore a backup into a NATS without state of Muster, while no service runs.",
  arguments: [argument("<file>", "a file that `muster backup` wrote")],
  examples: ["MUSTER_NATS_NKEY_FILE=keys/nkeys/backup.nk muster restore muster-2026-01-31"],
  run: (cli, [file]) => restoreBackup(cli, file),
});

function schemaCommand(resources: Resources): CommandRow {
  const [first] = resources;
  const words = resources.flatMap(({ schema }) => schema?.word ?? []);
  const kind = argument("[kind]", "the kind of document", (text) => readSchemaWord(resources, text), words);
  return defineCommand({
    name: "schema",
    description: "Print the JSON Schema of documents, for editors and checks.",
    arguments: [kind.default(first.schema, first.noun)],
    text: `In an editor that knows yaml-language-server, as the first line of a file:
  # yaml-language-server: $schema=/path/to/session.schema.json`,
    examples: [
      "muster schema > session.schema.json",
      "muster schema job > job.schema.json",
      "muster schema PinnedReplicaSet",
      "muster schema lease",
    ],
    run: (cli, [{ build }]) => {
      cli.io.out([writeSchema(build()).trimEnd()]);
      return Promise.resolve(EXIT.ok);
    },
  });
}

/** Finds a schema by its word, by the noun of its resource, or by `kind` in documents. */
function readSchemaWord(resources: readonly ResourceRow[], text: string): SchemaRow {
  const rows = resources.flatMap(({ schema }) => schema ?? []);
  const row = rows.find(({ word }) => word === text.toLowerCase()) ?? findResource(resources, text)?.schema;
  if (row !== undefined) return row;
  throw new InvalidArgumentError(`Allowed choices are ${rows.map(({ word }) => word).join(", ")}.`);
}

const COMPLETION = defineCommand({
  name: "completion",
  description: "Print the script that completes commands and names in a shell.",
  arguments: [argument("<shell>", "the shell").choices(SHELLS) as ArgumentRow<Shell>],
  examples: [
    "source <(muster completion bash)",
    'muster completion zsh > "${fpath[1]}/_muster"',
    "muster completion fish > ~/.config/fish/completions/muster.fish",
  ],
  run: (cli, [shell]) => Promise.resolve(printCompletion(cli, shell)),
});

/** The scripts of `completion` call this command. */
const COMPLETE = defineCommand({
  name: "__complete",
  arguments: [argument("[words...]", "")],
  run: (cli, [words], _, { parent }) => (parent === null ? Promise.resolve(EXIT.ok) : completeLine(cli, parent, words)),
});

/** The build of the archive calls this command. */
const MAN = defineCommand({
  name: "__man",
  run: (cli, _, __, { parent }) => Promise.resolve(parent === null ? EXIT.ok : printManual(cli, parent)),
});

/** Returns commands for operating Muster itself, and for editors and shells. */
export function listUpkeepCommands(resources: Resources): readonly CommandRow[] {
  return [DOCTOR, SHOW_VERSION, DEAD_LETTERS, BACKUP, RESTORE, schemaCommand(resources), COMPLETION, COMPLETE, MAN];
}
