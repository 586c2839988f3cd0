import { buildEndBytes, isSealed, toNanosecondsFromMs } from "@muster/leases";
import { verifySignature } from "@muster/leases/keys";
import { parseTraceparent, inSpan } from "@muster/tracing";
import type { Lease, SignedLease } from "../adapters/lease-messages.ts";
import type { PlacedDocument } from "../adapters/parse-documents.ts";
import type { Cli, ConnectedCli } from "../cli.ts";
import { CommandError } from "../command-error.ts";
import { buildVerdictTable } from "../domain/build-lease-views.ts";
import { EXIT, type ExitCode } from "../domain/decide-exit.ts";
import { findLeaseUsers, mayHaveUsers } from "../domain/find-lease-users.ts";
import { LEASE_NOUN } from "../domain/lease-document.ts";
import { buildLeaseRecord, readLeaseRecord } from "../domain/lease-record.ts";
import { buildEnd, isLeaseOver } from "../domain/lease.ts";
import { listSome } from "../domain/list-some.ts";
import { formatCount } from "../domain/plural.ts";
import type { ReadDocument } from "../domain/read-document.ts";
import { isProven, verifyLease } from "../domain/verify-lease.ts";
import { askAboutLeases, requireOwnLease } from "../kinds/lease-refusals.ts";
import { followLease } from "./follow-lease.ts";
import { printForms, printLine, type Format } from "./output.ts";
import { readFiles } from "./read-files.ts";
import { openResult } from "./seal-order.ts";

/** Limits the users of a lease in one message. */
const USERS_SHOWN = 5;

type Named = { readonly id: string; readonly output: Format };
type Signed = Named & { readonly keyFile: string | undefined };

type EndOptions = Signed & {
  /** Ends the lease even if other leases use it. */
  readonly force: boolean;
  readonly wait: boolean;
  readonly timeoutMs: number | undefined;
};

/** `muster lease end NAME`; `wait` waits until the lease is fully decommissioned. */
export async function endLease(
  cli: Cli,
  { id, keyFile, output, force, wait, timeoutMs }: EndOptions,
): Promise<ExitCode> {
  const signer = await cli.keys.read(keyFile);
  await using connected = await cli.connect();
  const found = await requireOwnLease(connected, id, signer);
  if (!force) await requireUnused(connected, found);
  const unsigned = buildEnd(found, toNanosecondsFromMs(cli.now()));
  const request = { ...unsigned, signature: signer.sign(buildEndBytes(unsigned, found.order)) };
  const asked = await runInOrderTrace(found, "muster lease end", () =>
    askAboutLeases(connected, (leases) => leases.end(request)),
  );
  const { last, code } = wait
    ? await followLease(cli, connected, asked, { goal: { kind: "delete" }, timeoutMs })
    : { last: asked, code: EXIT.ok };
  if (code !== EXIT.ok) return code;
  const how = wait || isLeaseOver(last) ? "has ended" : "ends, and its objects are taken down";
  printLine(cli.io, output, `${LEASE_NOUN}/${id} ${how}`, () => buildLeaseRecord(last));
  return EXIT.ok;
}

/** Throws CommandError if other leases use the lease. */
async function requireUnused(connected: ConnectedCli, lease: Lease): Promise<void> {
  if (!mayHaveUsers(lease) || isLeaseOver(lease)) return;
  const { id, type, user } = lease.order;
  const filter = { user, type: undefined, phase: undefined };
  const users = findLeaseUsers(lease, await askAboutLeases(connected, (leases) => leases.list(filter)));
  if (users.length === 0) return;
  const named = listSome(users, USERS_SHOWN, ",");
  throw new CommandError(EXIT.refused, `lease ${id} was not ended: its ${type} is in use by ${named}`, {
    hint: "end those first, or use --force: then the lease accepts no new ones, and is taken down after the present ones end",
  });
}

/** Adds later requests of the user to the trace of the order. */
export function runInOrderTrace<Answer>(
  { order, traceparent }: Lease,
  doing: string,
  work: () => Promise<Answer>,
): Promise<Answer> {
  const attributes = { "muster.lease": order.id };
  return inSpan("@muster/cli", doing, { parent: parseTraceparent(traceparent), attributes }, work);
}

/** `muster lease get ID --secret FIELD`: prints this field of the result, decrypted. */
export async function printSecret(
  cli: Cli,
  id: string,
  { secret, keyFile }: { readonly secret: string; readonly keyFile: string | undefined },
): Promise<ExitCode> {
  await using connected = await cli.connect();
  const lease = await askAboutLeases(connected, (leases) => leases.get(id));
  await cli.io.write(secretOf(lease, await openedResult(cli, lease, keyFile), secret));
  return EXIT.ok;
}

/** Without a key, only unsealed values can be read. */
async function openedResult(cli: Cli, lease: Lease, keyFile: string | undefined): Promise<string | undefined> {
  const { order, result } = lease;
  if (result === undefined) return undefined;
  const signer = await cli.keys.read(keyFile).catch((error: unknown) => {
    if (error instanceof CommandError && keyFile === undefined) return undefined;
    throw error;
  });
  return openResult(order, result, signer);
}

function secretOf({ order, result }: Lease, opened: string | undefined, field: string): string {
  const data: unknown = JSON.parse(opened ?? (result?.data || "null"));
  const value =
    typeof data === "object" && data !== null ? new Map<string, unknown>(Object.entries(data)).get(field) : undefined;
  if (typeof value !== "string")
    throw new CommandError(EXIT.failed, `the result of lease ${order.id} has no text field ${field}`, {
      hint: `\`muster lease get ${order.id}\` shows the result`,
    });
  if (!isSealed(value)) return value;
  throw new CommandError(EXIT.refused, `${field} is sealed for user ${order.user}, and this key cannot open it`, {
    hint: "--key-file FILE uses another key",
  });
}

type VerifyOptions = { readonly file: string; readonly engineKey: string | undefined; readonly output: Format };

/**
 * `muster lease verify -f FILE`: checks the signatures in the output of `lease get -o json`, without any service. Exits with 0 only if every order is proven.
 */
export async function verifyLeases(cli: Cli, { file, engineKey, output }: VerifyOptions): Promise<ExitCode> {
  const documents: readonly PlacedDocument<readonly SignedLease[]>[] = await readFiles(cli, [file], {
    read: readRecords,
    titleOf: () => undefined,
    hint: "`muster lease get ID -o json > FILE` writes what can be verified",
  });
  const verified = documents
    .flatMap(({ value }) => value)
    .map((lease) => ({ lease: lease.order.id, verdicts: verifyLease(lease, engineKey, verifySignature) }));
  const verdicts = verified.flatMap((each) => each.verdicts.map((verdict) => ({ lease: each.lease, ...verdict })));
  printForms(cli.io, output, { table: (style) => buildVerdictTable(verdicts, style), data: () => verdicts });
  const wrong = verdicts.filter(({ verdict }) => verdict === "wrong");
  if (wrong.length > 0)
    throw new CommandError(EXIT.failed, `${formatCount(wrong.length, "signature")} of ${verdicts.length} wrong`, {
      hint: "do not trust these leases; `muster lease get -o json` reads them from the engine again",
    });
  const unproven = verified.filter((each) => !isProven(each.verdicts));
  if (unproven.length === 0) return EXIT.ok;
  throw new CommandError(
    EXIT.failed,
    `${formatCount(unproven.length, "lease")} of ${verified.length} cannot be verified`,
    {
      hint: "the engine no longer keeps the signed data: add your own copy to the file",
    },
  );
}

/** Reads one record, or the list that `get` prints without a name. */
function readRecords(document: unknown): ReadDocument<readonly SignedLease[]> {
  const read = (Array.isArray(document) ? document : [document]).map((each, index) => {
    const one = readLeaseRecord(each);
    if (one.ok || !Array.isArray(document)) return one;
    return { ok: false as const, findings: one.findings.map((found) => ({ ...found, path: [index, ...found.path] })) };
  });
  const findings = read.flatMap((each) => (each.ok ? [] : each.findings));
  if (findings.length > 0) return { ok: false, findings };
  return { ok: true, value: read.flatMap((each) => (each.ok ? [each.value] : [])) };
}
