import { faultOf, unlessMissing } from "@muster/faults";
import { buildOrderBytes, nsFromMs, type Order } from "@muster/leases";
import type { Signer } from "@muster/leases/keys";
import { inSpan } from "@muster/tracing";
import { leaseCalls, type OrderOutcome } from "../adapters/lease-calls.ts";
import type { Placed, Problem } from "../adapters/parse-documents.ts";
import type { Cli, Connected } from "../cli.ts";
import { CommandError } from "../command-error.ts";
import { describeEnd } from "../domain/build-lease-views.ts";
import { EXIT, type ExitCode } from "../domain/decide-exit.ts";
import { LEASE_NOUN, type LeaseDocument } from "../domain/lease-document.ts";
import { buildLeaseRecord } from "../domain/lease-record.ts";
import { buildLeaseId, buildOrder, planOrder, type Lease } from "../domain/lease.ts";
import { readLease } from "../kinds/kinds.ts";
import { followLease } from "./follow-lease.ts";
import { askOfLeases, leaseField } from "./lease-questions.ts";
import { print, type Format } from "./output.ts";
import { readFiles, refuseProblems } from "./read-files.ts";

export type OrderOptions = {
  readonly keyFile: string | undefined;
  readonly dryRun: boolean;
  readonly wait: boolean;
  readonly timeoutMs: number | undefined;
  readonly output: Format;
};

type Ordered = { readonly lease: Lease; readonly outcome: OrderOutcome };

/** `muster lease order -f FILE`: signs what the files say, and sends it. Nothing is sent unless the engine has nothing against any of it. */
export async function orderLeases(cli: Cli, files: readonly string[], options: OrderOptions): Promise<ExitCode> {
  const documents = await readFiles(cli, files, {
    read: (document) => readLease(cli.kinds, document),
    titleOf: ({ id }) => id && leaseTitle(id),
  });
  const signer = await cli.keys.read(options.keyFile);
  await using connected = await cli.connect();
  const { orders, problems } = await checkOrders(cli, connected, documents, signer);
  refuseProblems(cli, problems);
  const attributes = { "muster.leases": orders.length };
  const { code, records } = await inSpan("@muster/cli", "muster lease order", { attributes }, () =>
    sendOrders(cli, connected, orders, options),
  );
  if (options.output !== "table") print(cli.io, options.output, { table: () => [], data: () => records });
  return code;
}

/** By which no two documents may be called. */
export function leaseTitle(id: string): string {
  return `${LEASE_NOUN} ${id}`;
}

/** Sends what was checked, tells each, and waits where that is wished. */
export async function sendOrders(
  cli: Cli,
  connected: Connected,
  orders: readonly Order[],
  options: OrderOptions,
): Promise<{ readonly code: ExitCode; readonly records: readonly unknown[] }> {
  const done: Ordered[] = [];
  for (const order of orders) {
    const ordered = await askOfLeases(connected, (leases) => leases.order(order, options.dryRun));
    done.push(ordered);
    if (options.output === "table") cli.io.out([describeOrdered(ordered, cli.now(), options.dryRun)]);
  }
  const code = options.wait && !options.dryRun ? await followAll(cli, connected, done, options) : EXIT.ok;
  return { code, records: done.map(({ lease, outcome }) => ({ outcome, ...buildLeaseRecord(lease) })) };
}

/** The orders as they are sent, and all that the engine would refuse of them, at the places where it stands. */
export async function checkOrders(
  cli: Cli,
  connected: Connected,
  documents: readonly Placed<LeaseDocument>[],
  signer: Signer,
): Promise<{ readonly orders: readonly Order[]; readonly problems: readonly Problem[] }> {
  const problems: Problem[] = [];
  const orders: Order[] = [];
  for (const { value, placeOf } of documents) {
    const order = await orderOf(cli, connected, value, signer);
    orders.push(order);
    try {
      await leaseCalls(connected.link).order(order, true);
    } catch (error) {
      const fault = faultOf(error);
      // askOfLeases says what everything else means.
      if (fault?.code !== "invalid_request") await askOfLeases(connected, () => Promise.reject(asError(error)));
      else
        problems.push({ ...placeOf(leaseField(fault.field)), message: `${leaseField(fault.field)}: ${fault.reason}` });
    }
  }
  return { orders, problems };
}

async function orderOf(cli: Cli, connected: Connected, document: LeaseDocument, signer: Signer): Promise<Order> {
  const found = document.id === undefined ? undefined : await findLease(connected, document.id);
  const plan = planOrder(document, signer.userId, found);
  if (plan.send === "nothing")
    throw new CommandError(EXIT.refused, plan.because, { hint: "take another metadata.name, or leave it out" });
  if (plan.send === "again" && found !== undefined) return found.order;
  const id = document.id ?? buildLeaseId(cli.now(), cli.randomId());
  const unsigned = buildOrder(document, { id, user: signer.userId, createdNs: nsFromMs(cli.now()) });
  return { ...unsigned, signature: signer.sign(buildOrderBytes(unsigned)) };
}

function findLease(connected: Connected, id: string): Promise<Lease | undefined> {
  return askOfLeases(connected, (leases) => unlessMissing(leases.get(id)));
}

function describeOrdered({ lease, outcome }: Ordered, nowMs: number, dryRun: boolean): string {
  const what = {
    ORDERED: `ordered: ends ${describeEnd(lease, nowMs)}`,
    RESENT: `was ordered before: ${lease.phase}, ends ${describeEnd(lease, nowMs)}`,
    RETRIED: "had failed, and is tried again",
  }[outcome];
  return `${LEASE_NOUN}/${lease.order.id} ${what}${dryRun ? " (dry run: nothing was done)" : ""}`;
}

async function followAll(
  cli: Cli,
  connected: Connected,
  ordered: Ordered[],
  { timeoutMs, output }: OrderOptions,
): Promise<ExitCode> {
  for (const [index, { lease, outcome }] of ordered.entries()) {
    const followed = await followLease(cli, connected, lease, { wish: "active", timeoutMs });
    if (followed.code !== EXIT.ok) return followed.code;
    ordered[index] = { lease: followed.last, outcome };
    if (output === "table") cli.io.out([`${LEASE_NOUN}/${lease.order.id} ACTIVE: ${followed.last.result?.data ?? ""}`]);
  }
  return EXIT.ok;
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}
