import { findFault, unlessMissing } from "@muster/faults";
import { buildOrderBytes, toNanosecondsFromMs, type Order } from "@muster/leases";
import { digest, type Signer } from "@muster/leases/keys";
import type { OrderReply } from "../adapters/lease-calls.ts";
import {
  describePlace,
  type DocumentPlace,
  type PlacedDocument,
  type DocumentProblem,
} from "../adapters/parse-documents.ts";
import type { Cli, ConnectedCli } from "../cli.ts";
import { CommandError } from "../command-error.ts";
import { describeEnd, withoutPrefix } from "../domain/build-lease-views.ts";
import { escapeControls } from "../domain/build-table.ts";
import { EXIT, type ExitCode } from "../domain/decide-exit.ts";
import { LEASE_NOUN, type LeaseDocument } from "../domain/lease-document.ts";
import { buildLeaseRecord } from "../domain/lease-record.ts";
import { buildLeaseId, buildOrder, planOrder } from "../domain/lease.ts";
import type { Lease } from "../adapters/lease-messages.ts";
import type { EngineIdentity } from "../adapters/lease-messages.ts";
import { readLeaseDocument } from "../domain/read-lease-document.ts";
import { listSealedFields, showResultData } from "../domain/sealed-view.ts";
import { followLease } from "./follow-lease.ts";
import { askAboutLeases, toLeaseField } from "../kinds/lease-refusals.ts";
import type { ApplyOperations, ApplyOptions, ApplyResult } from "../kinds/resource.ts";
import { askEngine, sealData } from "./seal-order.ts";

/** The command sends an order again, up to this often, while no engine confirms it. */
const MAX_SEND_ATTEMPTS = 3;

/** `muster apply` of leases requires a name, because each `apply` would order another lease otherwise. */
export const APPLY_LEASES: ApplyOperations<LeaseDocument> = {
  titleOf: ({ id = "" }) => `${LEASE_NOUN} ${id}`,
  read: (document) => {
    const read = readLeaseDocument(document);
    if (!read.ok || read.value.id !== undefined) return read;
    const message =
      "must have a name, NUMBER-NUMBER: without it, each `apply` would order another lease; `muster lease order -f FILE` orders one without a name";
    return { ok: false, findings: [{ path: ["metadata"], at: "value", message }] };
  },
  prepare: async (cli, documents, options) => {
    const signer = await cli.keys.read(options.keyFile);
    return async (connected) => {
      const { orders, problems } = await checkOrders(cli, connected, documents, { signer, ...options });
      const named = new Set(orders.map(({ id }) => id));
      return { problems, send: () => sendOrders(cli, connected, orders, { ...options, named }) };
    };
  },
};

/** Sends the checked orders, prints each, and waits if `wait` is set. */
export async function sendOrders(
  cli: Cli,
  connected: ConnectedCli,
  orders: readonly Order[],
  options: Pick<ApplyOptions, "dryRun" | "wait" | "timeoutMs" | "output"> & {
    /** Ids that the files state; all other ids were generated for this command. */
    readonly named: ReadonlySet<string>;
  },
): Promise<ApplyResult> {
  if (options.dryRun) return tryOrders(cli, connected, orders, options);
  const done: OrderReply[] = [];
  const sent = (code: ExitCode, failure?: CommandError): ApplyResult => ({
    code,
    records: done.map(({ lease, outcome }) => ({ outcome, ...buildLeaseRecord(lease) })),
    failure,
  });
  try {
    for (const order of orders) {
      const ordered = await sendOne(connected, order);
      done.push(ordered);
      if (options.output === "table") cli.io.out([describeOrdered(ordered, cli.now())]);
    }
    return sent(options.wait ? await followAll(cli, connected, done, options) : EXIT.ok);
  } catch (error) {
    if (error instanceof CommandError) return sent(error.exitCode, error);
    throw error;
  }
}

/** Prints the predicted outcome of each order, assuming the earlier ones begun. Exits with 1 if one of them would be FAILED. */
async function tryOrders(
  cli: Cli,
  connected: ConnectedCli,
  orders: readonly Order[],
  { named, output }: Pick<ApplyOptions, "output"> & { readonly named: ReadonlySet<string> },
): Promise<ApplyResult> {
  const records: unknown[] = [];
  const before: Order[] = [];
  let code: ExitCode = EXIT.ok;
  for (const order of orders) {
    const tried = await askAboutLeases(connected, (leases) => leases.tryOrder(order, before));
    const { lease, outcome, refusedBecause } = tried;
    records.push({ outcome, refusedBecause, ...buildLeaseRecord(lease) });
    // A failed order takes no capacity from later ones.
    if (refusedBecause === "") before.push(order);
    else code = EXIT.failed;
    if (output === "table") cli.io.out([describeTried(tried, cli.now(), named.has(order.id))]);
  }
  return { code, records, failure: undefined };
}

/** An order that may not have arrived is sent again unchanged: the engine creates one lease for it. */
async function sendOne(connected: ConnectedCli, order: Order): Promise<OrderReply> {
  const { stop } = connected.link;
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await askAboutLeases(connected, (leases) => leases.order(order));
    } catch (error) {
      const isUnknown = error instanceof CommandError && error.exitCode === EXIT.unreachable;
      if (!isUnknown) throw error;
      if (attempt < MAX_SEND_ATTEMPTS && !stop.aborted) continue;
      const get = `\`muster lease get ${order.id}\` shows whether it was`;
      throw new CommandError(error.exitCode, `lease ${order.id} may have been ordered: ${error.message}`, {
        hint: `${get}; with metadata.name ${order.id}, sending the file again orders no second lease`,
        cause: error,
      });
    }
  }
}

/** Returns the signed orders, and every problem that the engine reports for them, with its position. */
export async function checkOrders(
  cli: Cli,
  connected: ConnectedCli,
  documents: readonly PlacedDocument<LeaseDocument>[],
  { signer, engineKey }: { readonly signer: Signer; readonly engineKey: string | undefined },
): Promise<{ readonly orders: readonly Order[]; readonly problems: readonly DocumentProblem[] }> {
  const problems: DocumentProblem[] = [];
  const orders: Order[] = [];
  const engines = new Map<string, EngineIdentity>();
  for (const { value, placeOf } of documents) {
    const engine = engines.get(value.engine) ?? (await engineOf(connected, value.engine, placeOf("spec.engine")));
    engines.set(value.engine, engine);
    requireKey(engine, engineKey);
    const order = await orderOf(cli, connected, value, { signer, engine }, placeOf("metadata.name"));
    orders.push(order);
    await askAboutLeases(connected, async (leases) => {
      try {
        await leases.checkOrder(order);
      } catch (error) {
        const fault = findFault(error);
        if (fault?.code !== "invalid_request") throw error;
        const field = toLeaseField(fault.field);
        problems.push({ ...placeOf(field), message: `${field}: ${fault.reason}` });
      }
    });
  }
  return { orders, problems };
}

/** Reads the engine of a document. Throws a CommandError with the document's position before anything is ordered. */
async function engineOf(connected: ConnectedCli, id: string, place: DocumentPlace): Promise<EngineIdentity> {
  try {
    return await askEngine(connected, id);
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    throw new CommandError(error.exitCode, `${describePlace(place)}: ${error.message}`, {
      hint: ["nothing was ordered", error.hint].filter((each) => each !== undefined).join("; "),
      cause: error,
    });
  }
}

function requireKey({ engine, key }: EngineIdentity, expected: string | undefined): void {
  if (expected === undefined || key === expected) return;
  throw new CommandError(EXIT.refused, `engine ${engine} has the key ${key}, and not ${expected}`, {
    hint: "nothing was sealed or sent; the engine logs its key when it starts: ask its operator for the key",
  });
}

async function orderOf(
  cli: Cli,
  connected: ConnectedCli,
  open: LeaseDocument,
  { signer, engine }: { readonly signer: Signer; readonly engine: EngineIdentity },
  place: DocumentPlace,
): Promise<Order> {
  const id = open.id ?? buildLeaseId(cli.now(), cli.randomId());
  const document = { ...open, data: sealData(open, { id, signer, engine }) };
  const found = open.id === undefined ? undefined : await findLease(connected, id);
  const plan = planOrder(document, signer.userId, found, digest);
  if (plan.send === "nothing")
    throw new CommandError(EXIT.refused, `${describePlace(place)}: ${plan.because}`, {
      hint: "nothing was ordered; use another metadata.name, or omit it",
    });
  if (plan.send === "again" && found !== undefined) return { ...found.order, data: document.data };
  const unsigned = buildOrder(document, { id, user: signer.userId, createdNs: toNanosecondsFromMs(cli.now()) });
  return { ...unsigned, signature: signer.sign(buildOrderBytes(unsigned)) };
}

function findLease(connected: ConnectedCli, id: string): Promise<Lease | undefined> {
  return askAboutLeases(connected, (leases) => unlessMissing(leases.get(id)));
}

function describeOrdered({ lease, outcome }: OrderReply, nowMs: number): string {
  const what = {
    ORDERED: `ordered: ends ${describeEnd(lease, nowMs)}`,
    RESENT: `was ordered before: ${lease.phase}, ends ${describeEnd(lease, nowMs)}`,
    RETRIED: "had failed, and is retried",
  }[outcome];
  return `${leaseTarget(lease)} ${what}`;
}

/** Describes the outcome of a dry run. It omits a generated id, because no lease has it. */
function describeTried(
  { lease, outcome, refusedBecause }: OrderReply & { readonly refusedBecause: string },
  nowMs: number,
  isNamed: boolean,
): string {
  const { order, phase } = lease;
  const becomes = {
    ORDERED: `would be ordered: ends ${describeEnd(lease, nowMs)}`,
    RESENT: `was ordered before: ${phase}, ends ${describeEnd(lease, nowMs)}`,
    RETRIED: "has failed, and would be retried",
  }[outcome];
  const what =
    refusedBecause === "" ? becomes : `would be FAILED immediately: ${escapeControls(withoutPrefix(refusedBecause))}`;
  const sealed = listSealedFields(order);
  const secrets = sealed.length === 0 ? "" : `; sealed to engine ${order.engine}: ${sealed.join(", ")}`;
  return `${isNamed ? leaseTarget(lease) : `a ${LEASE_NOUN} of type ${order.type}`} ${what} (dry run: nothing was done${secrets})`;
}

function leaseTarget({ order }: Lease): string {
  return `${LEASE_NOUN}/${order.id}`;
}

async function followAll(
  cli: Cli,
  connected: ConnectedCli,
  ordered: OrderReply[],
  { timeoutMs, output }: Pick<ApplyOptions, "timeoutMs" | "output">,
): Promise<ExitCode> {
  for (const [index, { lease, outcome }] of ordered.entries()) {
    const followed = await followLease(cli, connected, lease, {
      goal: { kind: "condition", type: "ACTIVE", isTrue: true },
      timeoutMs,
      printsEnds: output === "table",
    });
    if (followed.code !== EXIT.ok) return followed.code;
    ordered[index] = { lease: followed.last, outcome };
    const { order, result } = followed.last;
    const data = result === undefined ? "" : showResultData(order, result);
    if (output === "table") cli.io.out([`${LEASE_NOUN}/${order.id} ACTIVE: ${data}`]);
  }
  return EXIT.ok;
}
