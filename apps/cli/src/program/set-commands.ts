import type { FarmCalls } from "../adapters/farm-calls.ts";
import type { ReplicaSet } from "../adapters/farm-messages.ts";
import { CommandError } from "../command-error.ts";
import { applyFiles } from "../commands/apply.ts";
import { printLine, printList, type Format } from "../commands/output.ts";
import { buildRecord } from "../domain/build-record.ts";
import { buildAuditTable, describeCounts, describeMove, buildSetRecord } from "../domain/build-set-views.ts";
import { EXIT, type ExitCode } from "../domain/decide-exit.ts";
import { SET_NOUN } from "../domain/replica-set.ts";
import { MAX_SET_REPLICAS } from "../domain/set-document.ts";
import { askAboutSet } from "../kinds/farm-refusals.ts";
import { REPLICA_SET } from "../kinds/replica-set.ts";
import { findResource, findNamedResource, getKindName, type CommandLine } from "../kinds/resources.ts";
import {
  argument,
  defineChoice,
  defineCommand,
  excluding,
  option,
  required,
  withDefault,
  type CommandRow,
} from "./command-row.ts";
import { makeNumberParser } from "./parse-values.ts";
import { ENGINE_KEY, FILENAMES, FILES, listFiles, KEY_FILE, OUTPUT, defineTimeoutOption } from "./shared-options.ts";

/** Accepts the name of a set also in kubectl's forms. */
const SET = argument("<set>", "name of the replica set, also as rs/NAME");
const NAME = argument("[name]", "the name, after the kind: rs NAME");
const DELETE_WAIT_MS = 300_000;
const IN_PROGRESS = "; the transfer in progress continues";

/** Parses a number of replicas. */
export const replicaCount = makeNumberParser(0, MAX_SET_REPLICAS);

type Change = (farms: FarmCalls, name: string) => Promise<ReplicaSet>;
type Describe = (set: ReplicaSet) => string;

/** Requests one change of a set, and prints its outcome. */
async function changeSet(
  cli: CommandLine,
  [set, given]: readonly [string, string | undefined],
  output: Format,
  change: Change,
  describe: Describe,
): Promise<ExitCode> {
  const name = getKindName(REPLICA_SET, set, given);
  await using connected = await cli.connect();
  const changed = await askAboutSet(connected, name, (farms) => change(farms, name));
  printLine(cli.io, output, `${SET_NOUN}/${name} ${describe(changed)}`, () => buildSetRecord(changed));
  return EXIT.ok;
}

const APPLY = defineCommand({
  name: "apply",
  description: "Create or update the replica sets and leases in YAML files.",
  arguments: [FILES],
  options: {
    filenames: FILENAMES,
    replace: option(
      "--replace",
      "recreate pods when the template has changed, five at a time; `roll` keeps a minimum ready",
    ),
    dryRun: option("--dry-run", "check the files and the cluster; change nothing"),
    engineKey: ENGINE_KEY,
    wait: option("--wait", "wait until all replicas are ready, and all leases active"),
    timeoutMs: defineTimeoutOption("exit with 1 when that takes longer, such as 5m"),
    keyFile: KEY_FILE,
    output: OUTPUT,
  },
  text: `Prints for each set whether it was created, changed or unchanged. Leases are
signed with your key (muster keys); they need a name, and never change: muster
lease renew and end. Nothing is done unless every file is right. Sessions and
jobs are run: muster run.`,
  examples: [
    "muster apply -f examples/pinned-replica-set.yaml",
    "muster apply -f web.yaml --wait --timeout 5m",
    "muster apply -f web.yaml --dry-run",
    "muster apply -f lease.yaml --wait",
    "sed s/v1/v2/ web.yaml | muster apply --replace -f -",
  ],
  run: (cli, [files], { filenames, ...options }) =>
    applyFiles(cli, listFiles("muster apply", files, filenames), options),
});

const SCALE = defineCommand({
  name: "scale",
  description: "Set the number of replicas of a replica set.",
  arguments: [SET, NAME],
  options: {
    replicas: required(option("--replicas <n>", "the desired number of replicas", replicaCount)),
    expected: option("--current-replicas <n>", "only if this is the desired number now", replicaCount),
    output: OUTPUT,
  },
  examples: ["muster scale web --replicas 5", "muster scale rs/web --replicas 5 --current-replicas 3"],
  run: (cli, named, { replicas, expected, output }) =>
    changeSet(
      cli,
      named,
      output,
      (farms, name) => farms.scale(name, replicas, expected),
      (set) => `scaled: ${describeCounts(set)}`,
    ),
});

const TRANSFER = defineCommand({
  name: "transfer",
  description: "Move a replica to another node, or hold or release the transfers of a replica set.",
  arguments: [SET, NAME],
  options: {
    from: option(
      "--from <node>",
      "the node to leave, even if it is eligible; the old pod ends once the new one is ready",
    ),
    to: option("--to <node>", "the node to move to; default: the farm chooses one"),
    hold: excluding(option("--hold", "start no further transfer"), ["from", "to", "release"]),
    release: excluding(option("--release", "allow transfers again"), ["from", "to"]),
    because: withDefault(
      option("--because <why>", "the reason for --hold, for other users"),
      "its nodes are under maintenance",
    ),
    output: OUTPUT,
  },
  examples: [
    "muster transfer web --from node-3",
    "muster transfer web --from node-3 --to node-7",
    'muster transfer web --hold --because "node-3 is being repaired"',
    "muster transfer web --release",
  ],
  run: (cli, named, { from, to = "", hold, release, because, output }) => {
    const change = (ask: Change, describe: Describe) => changeSet(cli, named, output, ask, describe);
    if (hold)
      return change(
        (farms, name) => farms.hold(name, { by: cli.caller(), because }),
        ({ name, transfer }) =>
          `leaves no node until \`muster transfer ${name} --release\`${transfer === undefined ? "" : IN_PROGRESS}`,
      );
    if (release)
      return change(
        (farms, name) => farms.hold(name, undefined),
        () => "may leave nodes again",
      );
    if (from !== undefined)
      return change(
        (farms, name) => farms.transfer(name, from, to),
        ({ name, transfer }) =>
          transfer === undefined
            ? `has left ${from}`
            : `${describeMove(transfer)}; \`muster wait ${SET_NOUN}/${name} --for=condition=Transferring=false\` waits for the end`,
      );
    throw new CommandError(EXIT.usage, "one of --from NODE, --hold and --release is needed", {
      hint: `\`muster describe rs ${getKindName(REPLICA_SET, ...named)}\` shows the nodes that it is on`,
    });
  },
});

const ENABLING = (
  [
    ["enable", true, "Enable a disabled replica set."],
    ["disable", false, "Stop a replica set from creating, replacing or removing pods; running pods stay."],
  ] as const
).map(([name, enabled, description]) =>
  defineCommand({
    name,
    description,
    arguments: [SET, NAME],
    options: { output: OUTPUT },
    examples: [`muster ${name} web`],
    run: (cli, named, { output }) =>
      changeSet(
        cli,
        named,
        output,
        (farms, set) => farms.enable(set, enabled),
        (set) =>
          enabled ? `enabled: ${describeCounts(set)}` : `disabled: its ${set.replicas.length} pods stay as they are`,
      ),
  }),
);

const DELETE = defineCommand({
  name: "delete",
  description: "Delete a replica set, or a session that is over. A set with replicas needs --force or --orphan.",
  arguments: [argument("<name>", `${SET.description}; session/NAME`), NAME],
  options: {
    force: option("--force", "also delete a set with replicas, and its pods"),
    orphan: option("--orphan", "keep its pods, without an owner"),
    cascade: defineChoice("--cascade <how>", "as in kubectl", ["background", "orphan"]).hideHelp(),
    wait: option("--wait", "wait until it and its pods are gone"),
    timeoutMs: withDefault(defineTimeoutOption("exit with 1 when that takes longer"), DELETE_WAIT_MS, "5m"),
    output: OUTPUT,
  },
  examples: [
    "muster scale web --replicas 0 && muster delete web --wait",
    "muster delete web --force",
    "muster delete rs/web --orphan",
    "muster delete session/http-benchmark-x7k2p",
  ],
  run: (cli, [first, second], { orphan, cascade, ...options }) => {
    const kind = second === undefined ? findResource(cli.resources, first) : undefined;
    if (kind !== undefined && kind !== REPLICA_SET)
      throw new CommandError(EXIT.usage, `the name of the ${kind.noun} is missing`);
    const { resource, name } = findNamedResource(cli.resources, [first, second], REPLICA_SET);
    if (resource.delete === undefined)
      throw new CommandError(
        EXIT.usage,
        `"${resource.noun}" is no ${REPLICA_SET.noun}; did you mean ${REPLICA_SET.noun}/${name}?`,
      );
    return resource.delete(cli, name, { ...options, keepPods: orphan || cascade === "orphan" });
  },
});

/** Prints the audit records of one set. */
export async function showSetAudit(
  cli: CommandLine,
  named: readonly [first: string, second: string | undefined],
  { limit, output }: { readonly limit: number; readonly output: Format },
): Promise<ExitCode> {
  const name = getKindName(REPLICA_SET, ...named);
  await using connected = await cli.connect();
  const audits = await askAboutSet(connected, name, (farms) => farms.audit(name, limit));
  // The audit of a deleted set remains, so a name without an audit may be misspelt.
  if (audits.length === 0) await askAboutSet(connected, name, (farms) => farms.get(name));
  printList(cli.io, output, audits, {
    none: `${name} has no audit records yet`,
    table: (style) => buildAuditTable(audits, style),
    record: ({ details, ...audit }) => ({ ...buildRecord(audit), details }),
  });
  return EXIT.ok;
}

/** Commands that create and change replica sets. */
export const SETS: readonly CommandRow[] = [APPLY, SCALE, TRANSFER, ...ENABLING, DELETE];
