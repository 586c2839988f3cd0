import { faultOf } from "@muster/faults";
import { farmCalls, type FarmCalls } from "../adapters/farm-calls.ts";
import type { Placed, Problem } from "../adapters/parse-documents.ts";
import type { Cli, Connected } from "../cli.ts";
import { CommandError } from "../command-error.ts";
import { EXIT, type ExitCode } from "../domain/decide-exit.ts";
import { SET_NOUN } from "../domain/replica-set.ts";
import { buildSetDocument, type SetDocument } from "../domain/set-document.ts";
import { readApplied, readSet } from "../kinds/documents.ts";
import { askOfSet, documentField } from "../kinds/farm-refusals.ts";
import { setRecord } from "../kinds/replica-set.ts";
import { checkOrders, leaseTitle, sendOrders } from "./order-leases.ts";
import { printRecords, type Format } from "./output.ts";
import { readFiles, refuseProblems } from "./read-files.ts";
import { followSet } from "./replica-sets.ts";

type Applied = Awaited<ReturnType<FarmCalls["apply"]>>;

export type ApplyOptions = {
  /** Signs leases. */
  readonly keyFile: string | undefined;
  /** The key that secrets of leases are sealed to; undefined: the one that the engine reports. */
  readonly engineKey: string | undefined;
  readonly replace: boolean;
  readonly dryRun: boolean;
  readonly wait: boolean;
  readonly timeoutMs: number | undefined;
  readonly output: Format;
};

/** `muster apply -f FILE`: creates the replica sets and leases of the files, or updates them to what the files say. */
export async function apply(cli: Cli, files: readonly string[], options: ApplyOptions): Promise<ExitCode> {
  const documents = await readFiles(cli, files, {
    read: (document) => readApplied(cli.kinds, document),
    titleOf: (value) => ("set" in value ? setTitle(value.set) : leaseTitle(value.lease.id ?? "")),
  });
  const sets = documents.flatMap(({ value, ...place }) => ("set" in value ? [{ ...place, value: value.set }] : []));
  const leases = documents.flatMap(({ value, ...place }) =>
    "lease" in value ? [{ ...place, value: value.lease }] : [],
  );
  const signer = leases.length === 0 ? undefined : await cli.keys.read(options.keyFile);
  await using connected = await cli.connect();
  const checked = sets.length === 0 ? NOTHING : await checkAll(farmCalls(connected.link), sets, options.replace);
  const { orders, problems } = signer
    ? await checkOrders(cli, connected, leases, { signer, engineKey: options.engineKey })
    : NO_ORDERS;
  refuseProblems(cli, [...checked.problems, ...problems]);
  const applied = await applySets(cli, connected, { sets, checked: checked.sets }, options);
  const named = new Set(orders.map(({ id }) => id));
  const ordered =
    applied.code === EXIT.ok ? await sendOrders(cli, connected, orders, { ...options, named }) : undefined;
  printRecords(cli.io, options.output, [...applied.records, ...(ordered?.records ?? [])]);
  if (ordered?.failure !== undefined) throw ordered.failure;
  return ordered?.code ?? applied.code;
}

const NOTHING = { sets: [], problems: [] };
const NO_ORDERS = { orders: [], problems: [] };

async function applySets(
  cli: Cli,
  connected: Connected,
  { sets, checked }: { readonly sets: readonly Placed<SetDocument>[]; readonly checked: readonly Applied[] },
  options: ApplyOptions,
): Promise<{ readonly code: ExitCode; readonly records: readonly unknown[] }> {
  const applied: Applied[] = [];
  const done = (each: Applied): void => {
    applied.push(each);
    const dry = options.dryRun ? " (dry run: nothing was done)" : "";
    if (options.output === "table") cli.io.out([`${SET_NOUN}/${each.set.name} ${each.outcome}${dry}`]);
  };
  if (options.dryRun) for (const each of checked) done(each);
  else
    for (const { value } of sets)
      done(
        await askOfSet(connected, value.name, (asked) =>
          asked.apply(value, { replace: options.replace, dryRun: false }),
        ),
      );
  const code = options.wait && !options.dryRun ? await followAll(cli, connected, applied, options) : EXIT.ok;
  const records = options.dryRun
    ? sets.map(({ value }) => buildSetDocument(value))
    : applied.map(({ set, outcome }) => ({ outcome, ...setRecord(set) }));
  return { code, records };
}

function setTitle({ name }: SetDocument): string {
  return `${SET_NOUN} ${name}`;
}

/** What the farms would do, and every problem that they would report, with its place. */
async function checkAll(
  farms: FarmCalls,
  documents: readonly Placed<SetDocument>[],
  replace: boolean,
): Promise<{ readonly sets: readonly Applied[]; readonly problems: readonly Problem[] }> {
  const problems: Problem[] = [];
  const checked: Applied[] = [];
  for (const { value, placeOf } of documents) {
    try {
      checked.push(await farms.apply(value, { replace, dryRun: true }));
    } catch (error) {
      const fault = faultOf(error);
      if (fault?.code !== "invalid_request") throw error;
      const field = documentField(fault.field);
      problems.push({ ...placeOf(field), message: `${field}: ${adviceOn(field, fault.reason, value)}` });
    }
  }
  return { sets: checked, problems };
}

function adviceOn(field: string, reason: string, { name }: SetDocument): string {
  return field === "spec.template" && reason.includes("`replace`")
    ? `${reason}. \`muster roll ${name} -f FILE --minimum N\`, with another name in the file, rolls it; \`muster apply --replace\` does not keep a minimum`
    : reason;
}

async function followAll(
  cli: Cli,
  connected: Connected,
  applied: readonly Applied[],
  { timeoutMs, output }: ApplyOptions,
): Promise<ExitCode> {
  for (const { set } of applied) {
    const code = await followSet(cli, connected, set, timeoutMs);
    if (code !== EXIT.ok) return code;
    if (output === "table") cli.io.out([`${SET_NOUN}/${set.name} ready`]);
  }
  return EXIT.ok;
}

/** The one set of a file. Throws CommandError for any problem in the file. */
export async function readOneSet(cli: Cli, file: string): Promise<SetDocument> {
  const read = (document: unknown) => readSet(cli.kinds, document);
  const [only, ...others] = await readFiles(cli, [file], { read, titleOf: setTitle });
  if (only === undefined || others.length > 0)
    throw new CommandError(EXIT.usage, `${file} has ${others.length + 1} documents; one is needed`);
  return only.value;
}
