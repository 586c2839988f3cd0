import { inSpan } from "@muster/tracing";
import type { Placed } from "../adapters/parse-documents.ts";
import { CommandError } from "../command-error.ts";
import { EXIT, type ExitCode } from "../domain/decide-exit.ts";
import { LEASE_NOUN, type LeaseDocument } from "../domain/lease-document.ts";
import { readOne } from "../kinds/documents.ts";
import { LEASE_DOCUMENTS } from "../kinds/lease.ts";
import type { ApplyOptions } from "../kinds/resource.ts";
import type { CommandLine } from "../kinds/resources.ts";
import { printRecords } from "./output.ts";
import { readFiles, refuseProblems } from "./read-files.ts";
import { checkOrders, sendOrders } from "./send-orders.ts";

export type OrderOptions = Omit<ApplyOptions, "replace"> & {
  /** The older lease whose workload the one document takes over, whatever that says; undefined: what the documents say. */
  readonly reference: string | undefined;
};

const NOT_ORDERED = "nothing was ordered; examples/leases/ has files that are right";

/**
 * `muster lease order -f FILE`: signs the documents and sends them. Nothing is sent unless the engine accepts all of them. A dry run shows what becomes of
 * each.
 */
export async function orderLeases(
  cli: CommandLine,
  files: readonly string[],
  options: OrderOptions,
): Promise<ExitCode> {
  const read = await readFiles(cli, files, {
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
}

/** A file that names the older lease orders a new one that takes over from it. */
function referTo(reference: string, documents: readonly Placed<LeaseDocument>[]): Placed<LeaseDocument>[] {
  if (documents.length > 1)
    throw new CommandError(EXIT.usage, `--reference is for one lease, and the files have ${documents.length}`, {
      hint: "each document may say spec.reference",
    });
  return documents.map(({ value, ...rest }) => ({
    ...rest,
    value: { ...value, reference, id: value.id === reference ? undefined : value.id },
  }));
}
