import { buildRenewalBytes, formatRfc3339 } from "@muster/leases";
import { inSpan } from "@muster/tracing";
import { InvalidArgumentError } from "commander";
import type { PlacedDocument } from "../adapters/parse-documents.ts";
import { CommandError } from "../command-error.ts";
import { showEvents } from "../commands/events.ts";
import { getItems } from "../commands/get.ts";
import { endLease, runInOrderTrace, printSecret, verifyLeases } from "../commands/leases.ts";
import { printForms, printLine, printRecords } from "../commands/output.ts";
import { readFiles, refuseProblems } from "../commands/read-files.ts";
import { checkOrders, sendOrders } from "../commands/send-orders.ts";
import { arrangeLeases } from "../domain/arrange-leases.ts";
import { buildCleanupRecord, buildCleanupView } from "../domain/build-cleanup-view.ts";
import { describeEnd } from "../domain/build-lease-views.ts";
import { EXIT } from "../domain/decide-exit.ts";
import { LEASE_NOUN, LEASE_TYPES, type LeaseDocument } from "../domain/lease-document.ts";
import { readLeaseDuration } from "../domain/lease-duration.ts";
import { buildLeaseRecord } from "../domain/lease-record.ts";
import { buildRenewal, LEASE_PHASES } from "../domain/lease.ts";
import { readOne } from "../kinds/documents.ts";
import { askAboutLeases, requireOwnLease } from "../kinds/lease-refusals.ts";
import { buildLeaseList, LEASE, LEASE_DOCUMENTS } from "../kinds/lease.ts";
import { getKindName } from "../kinds/resources.ts";
import {
  argument,
  defineChoice,
  defineCommand,
  option,
  required,
  withDefault,
  type CommandRow,
} from "./command-row.ts";
import { makeNumberParser } from "./parse-values.ts";
import {
  ENGINE_KEY,
  FILENAMES,
  FILES,
  listFiles,
  KEY_FILE,
  LIMIT,
  OUTPUT,
  defineTimeoutOption,
} from "./shared-options.ts";

const NOT_ORDERED = "nothing was ordered; examples/leases/ has valid files";

const ID = argument("<lease>", "id of the lease, also as lease/ID");
const TIMEOUT = defineTimeoutOption("exit with 1 when that takes longer, such as 5m");

const ORDER = defineCommand({
  name: "order",
  description: "Sign and send the lease orders in YAML files of kind Lease.",
  arguments: [FILES],
  options: {
    filenames: FILENAMES,
    dryRun: option("--dry-run", "show the expected outcome and the sealed fields; order nothing"),
    reference: option(
      "--reference <id>",
      "take over the workload of this older lease of yours, unchanged; for one document only",
      leaseIdOf,
    ),
    engineKey: ENGINE_KEY,
    wait: option("--wait", "wait until the lease is ACTIVE; Ctrl-C does not end the lease"),
    timeoutMs: TIMEOUT,
    keyFile: KEY_FILE,
    output: OUTPUT,
  },
  text: `Without metadata.name each order is a new lease, and its id is printed. With it
the same file may be sent again: a lease that exists stays as it is, and one
that has failed is retried. With --reference it is always a new lease, where the
file names the older one. --dry-run ends with 1 where an order would fail
immediately; it does not know what only the cluster shows, such as a missing
image.`,
  examples: [
    "muster lease order -f examples/leases/debug.yaml",
    "muster lease order -f lease.yaml --reference 4711-1",
    "muster lease order -f lease.yaml --wait --timeout 10m",
    "muster lease order -f lease.yaml -o json | jq -r '.[].id'",
  ],
  // Nothing is sent unless the engine accepts all documents.
  run: async (cli, [files], { filenames, ...options }) => {
    const all = listFiles("muster lease order", files, filenames);
    const read = await readFiles(cli, all, {
      read: (document) => readOne(cli.resources, LEASE_DOCUMENTS, document),
      titleOf: ({ id }) => id && `${LEASE_NOUN} ${id}`,
      hint: NOT_ORDERED,
    });
    const documents = options.reference === undefined ? read : referTo(options.reference, read);
    const signer = await cli.keys.read(options.keyFile);
    await using connected = await cli.connect();
    const { orders, problems } = await checkOrders(cli, connected, documents, { signer, engineKey: options.engineKey });
    refuseProblems(cli, problems, NOT_ORDERED);
    const attributes = { "muster.leases": orders.length };
    const named = new Set(documents.flatMap(({ value }) => value.id ?? []));
    const { code, records, failure } = await inSpan("@muster/cli", "muster lease order", { attributes }, () =>
      sendOrders(cli, connected, orders, { ...options, named }),
    );
    printRecords(cli.io, options.output, records);
    if (failure !== undefined) throw failure;
    return code;
  },
});

const RENEW = defineCommand({
  name: "renew",
  description: "Extend a lease.",
  arguments: [ID],
  options: {
    forNs: required(
      option("--for <duration>", "how long after its current end, such as 2h; or forever", leaseDurationArgument),
    ),
    keyFile: KEY_FILE,
    output: OUTPUT,
  },
  examples: ["muster lease renew 1767225600000-7 --for 2h"],
  run: async (cli, [text], { forNs, keyFile, output }) => {
    const id = leaseIdOf(text);
    const signer = await cli.keys.read(keyFile);
    await using connected = await cli.connect();
    const found = await requireOwnLease(connected, id, signer);
    const unsigned = buildRenewal(found, forNs);
    const renewal = { ...unsigned, signature: signer.sign(buildRenewalBytes(unsigned, found.order)) };
    const lease = await runInOrderTrace(found, "muster lease renew", () =>
      askAboutLeases(connected, (leases) => leases.renew(renewal)),
    );
    const line = `${LEASE_NOUN}/${id} renewed: ends ${formatRfc3339(lease.expiresAtNs)}, ${describeEnd(lease, cli.now())}`;
    printLine(cli.io, output, line, () => buildLeaseRecord(lease));
    return EXIT.ok;
  },
});

const END = defineCommand({
  name: "end",
  description: "End a lease now and take down its objects. An ended lease cannot be resumed.",
  arguments: [ID],
  options: {
    force: option("--force", "also end a network or volume that other leases use; it is taken down after them"),
    wait: option("--wait", "wait until all its objects are taken down"),
    timeoutMs: TIMEOUT,
    keyFile: KEY_FILE,
    output: OUTPUT,
  },
  examples: ["muster lease end 1767225600000-7", "muster lease end 1767225600000-7 --wait"],
  run: (cli, [id], options) => endLease(cli, { id: leaseIdOf(id), ...options }),
});

const GET = defineCommand({
  name: "get",
  description: "List leases, newest first and finished ones last, or show one.",
  arguments: [argument("[lease]", ID.description)],
  options: {
    mine: option("--mine", "only leases of your key"),
    type: defineChoice("--type <type>", "only leases of this type", LEASE_TYPES),
    active: option("--active", "the same as --phase ACTIVE"),
    phases: withDefault(
      option(
        "--phase <phase>",
        "only leases in this phase, in any case of letters; repeatable, also as A,B",
        phasesArgument,
      ),
      [],
      "any",
    ),
    all: option("--all", "all finished leases, not only the newest"),
    secret: option("--secret <field>", "print only this field of the result of one lease, decrypted with your key"),
    keyFile: KEY_FILE,
    output: OUTPUT,
  },
  examples: [
    "muster lease get --mine --active",
    "muster lease get --phase ordered,provisioning",
    "muster lease get 1767225600000-7",
    "muster lease get 1767225600000-7 --secret kubeconfig > kubeconfig",
    "muster lease get --phase ACTIVE -o json | jq '.[].result.data | fromjson'",
  ],
  run: async (cli, [text], { mine, type, active, all, secret, keyFile, output, ...asked }) => {
    const id = text === undefined ? undefined : leaseIdOf(text);
    if (id !== undefined && secret !== undefined) return printSecret(cli, id, { secret, keyFile });
    if (id !== undefined) return getItems(cli, LEASE, id, { output });
    if (secret !== undefined)
      throw new CommandError(EXIT.usage, "--secret needs the id of one lease", {
        hint: `muster lease get ID --secret ${secret}; \`muster lease get --mine\` lists those of your key`,
      });
    const phases = active ? [...asked.phases, "ACTIVE"] : asked.phases;
    const user = mine ? (await cli.keys.read(keyFile)).userId : undefined;
    await using connected = await cli.connect();
    const phase = phases.length === 1 ? phases[0] : undefined;
    const found = await askAboutLeases(connected, (asked) => asked.list({ user, type, phase }));
    const leases = phases.length === 0 ? found : found.filter((each) => phases.includes(each.phase));
    const isWhole = all || phases.length > 0;
    printForms(cli.io, output, {
      table: (style) =>
        leases.length === 0 ? [LEASE.none] : buildLeaseList(leases, cli.now(), { style, isOfOneUser: mine, isWhole }),
      data: () => arrangeLeases(leases, leases.length).shown.map(buildLeaseRecord),
    });
    return EXIT.ok;
  },
});

const HISTORY = defineCommand({
  name: "history",
  description: "List the events of a lease, oldest first.",
  arguments: [ID],
  options: {
    limit: LIMIT,
    follow: option(
      "-f, --follow",
      "also print later events, until the lease or Ctrl-C ends it; with -o json one line per event",
    ),
    output: OUTPUT,
  },
  examples: ["muster lease history 1767225600000-7", "muster lease history -f 1767225600000-7"],
  run: (cli, [id], options) => showEvents(cli, `${LEASE.noun}/${leaseIdOf(id)}`, options),
});

const VERIFY = defineCommand({
  name: "verify",
  description: "Verify the signatures of a lease, without any service.",
  options: {
    file: required(option("-f, --filename <file>", "the output of `muster lease get -o json`; - is standard input")),
    engineKey: option(
      "--engine-key <id>",
      "the key that signs results: the `user` that `muster keys show` prints for the engine's key",
    ),
    output: OUTPUT,
  },
  text: `Ends with 1 where a signature is wrong, or where the data that its user signed
are gone, so that nothing of the order is proven. Nothing signs the phase and
the history.`,
  examples: ["muster lease get 1767225600000-7 -o json | muster lease verify -f -"],
  run: (cli, _, options) => verifyLeases(cli, options),
});

const CLEANUP = defineCommand({
  name: "cleanup",
  description: "Remove leftover objects of finished leases.",
  options: {
    engine: withDefault(option("--engine <id>", "the engine of the leases"), "main"),
    dryRun: option("--dry-run", "only list the objects that would be removed"),
    confirm: withDefault(
      option("--confirm <n>", "remove up to this many objects, even if records seem to be lost", makeNumberParser(1)),
      0,
    ),
    output: OUTPUT,
  },
  text: "An object is removed only if it is still left over after a grace period.",
  examples: ["muster lease cleanup --dry-run", "muster lease cleanup --confirm 120"],
  run: async (cli, _, { engine, dryRun, confirm, output }) => {
    await using connected = await cli.connect();
    const cleanup = await askAboutLeases(connected, (leases) => leases.cleanUp(engine, dryRun, confirm));
    printForms(cli.io, output, {
      table: (style) => buildCleanupView(cleanup, { dryRun, nowMs: cli.now() }, style),
      data: () => buildCleanupRecord(cleanup),
    });
    return cleanup.heldBecause === "" ? EXIT.ok : EXIT.failed;
  },
});

/** `muster lease`: signed orders for a workload or machines, for a limited time. */
export const LEASES: CommandRow = {
  name: "lease",
  description: "Order workloads and machines for a limited time, signed with your key.",
  examples: [
    "muster keys new",
    "muster lease order -f examples/leases/debug.yaml --wait",
    "muster lease get",
    "muster lease renew 1767225600000-7 --for 2h",
    "muster lease end 1767225600000-7",
  ],
  commands: [ORDER, RENEW, END, GET, HISTORY, VERIFY, CLEANUP],
  refused: [
    ["create", "`muster lease order -f FILE` orders one"],
    ...["list", "ls", "show", "describe"].map(
      (word) => [word, "`muster lease get [ID]` lists them, or shows one"] as const,
    ),
    ...["delete", "cancel", "stop"].map((word) => [word, "`muster lease end ID` ends one, for good"] as const),
    ...["extend", "prolong"].map((word) => [word, "`muster lease renew ID --for 2h` extends one"] as const),
    ["explain", "`muster explain lease/ID` shows why it is in its phase"],
    ["wait", "`muster wait lease/ID --for=condition=ACTIVE` waits for a phase"],
  ],
};

/** Accepts the id of a lease also as lease/ID. */
function leaseIdOf(text: string): string {
  return getKindName(LEASE, text);
}

/** Parses a positive duration into nanoseconds. */
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

/** A file names the lease that its order takes over from; the option sets it for all documents. */
function referTo(
  reference: string,
  documents: readonly PlacedDocument<LeaseDocument>[],
): PlacedDocument<LeaseDocument>[] {
  if (documents.length > 1)
    throw new CommandError(EXIT.usage, `--reference is for one lease, and the files have ${documents.length}`, {
      hint: "set spec.reference in each document",
    });
  return documents.map(({ value, ...rest }) => ({
    ...rest,
    value: { ...value, reference, id: value.id === reference ? undefined : value.id },
  }));
}
