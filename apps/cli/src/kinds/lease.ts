import { unlessMissing } from "@muster/faults";
import { makeLeaseCalls } from "../adapters/lease-calls.ts";
import type { ConnectedCli } from "../cli.ts";
import { CommandError } from "../command-error.ts";
import { explainLeaseOrOwner } from "../commands/explain-lease.ts";
import { APPLY_LEASES } from "../commands/send-orders.ts";
import { arrangeLeases, MAX_SHOWN_OVER } from "../domain/arrange-leases.ts";
import {
  buildLeaseDescription,
  buildLeaseEventLine,
  buildLeaseHistory,
  buildLeaseTable,
  describeState,
  type LeaseListView,
} from "../domain/build-lease-views.ts";
import { EXIT } from "../domain/decide-exit.ts";
import { buildLeaseSchema, isLeaseId, LEASE_KIND, LEASE_NOUN, type LeaseDocument } from "../domain/lease-document.ts";
import { buildLeaseEventRecord, buildLeaseRecord } from "../domain/lease-record.ts";
import { decideLeaseCondition, isLeaseOver, isEndUnexpected, LEASE_PHASES } from "../domain/lease.ts";
import type { Lease, LeaseEvent } from "../adapters/lease-messages.ts";
import { readLeaseDocument } from "../domain/read-lease-document.ts";
import { askAboutLeases, checkLeaseId } from "./lease-refusals.ts";
import type { DocumentRow, EventLog, ResourceRow } from "./resource.ts";

const EVENTS_POLL_MS = 1000;
const DEFAULT_EVENTS = 100;

const EVENTS: EventLog<LeaseEvent> = {
  pollMs: EVENTS_POLL_MS,
  read: async ({ link }, { name: id = "", limit = DEFAULT_EVENTS, follow }) => {
    const leases = makeLeaseCalls(link);
    // The lease is read first, so that the history includes the events published until then.
    const lease = follow ? await unlessMissing(leases.get(id)) : undefined;
    const events = await leases.history(id, limit);
    // The id of a lease without events may be misspelt.
    if (events.length === 0) await leases.get(id);
    return { events, isOver: lease === undefined || (isLeaseOver(lease) && lease.unpublished === 0) };
  },
  keyOf: ({ id }) => id,
  none: (id = "") => `lease ${id} has no events yet`,
  table: buildLeaseHistory,
  line: buildLeaseEventLine,
  record: buildLeaseEventRecord,
};

export const LEASE_DOCUMENTS: DocumentRow<LeaseDocument> = {
  words: [LEASE_KIND],
  elsewhere: () => "a Lease is signed with your key: use `muster lease order -f FILE`, or `muster apply -f FILE`",
  read: readLeaseDocument,
  applying: APPLY_LEASES,
};

/** Signed orders for a workload or machines, for a limited time; provision engines serve them. */
export const LEASE: ResourceRow<Lease> = {
  noun: LEASE_NOUN,
  plural: `${LEASE_NOUN}s`,
  none: "no leases",
  checkName: checkLeaseId,
  isNameOfForm: isLeaseId,
  get: ({ link }, id) => makeLeaseCalls(link).get(id),
  list: async (connected) =>
    askAboutLeases(connected, (leases) => leases.list({ user: undefined, type: undefined, phase: undefined })),
  nameOf: ({ order }) => order.id,
  isOffered: ({ phase }) => phase !== "ENDED",
  ask: (connected, _name, question) => askAboutLeases(connected, question),
  table: (leases, { nowMs, style }, only) => {
    const [lease] = leases;
    if (only && lease !== undefined) return buildLeaseDescription(lease, nowMs);
    return buildLeaseList(leases, nowMs, { style, isOfOneUser: false, isWhole: false });
  },
  record: buildLeaseRecord,
  describe: (lease, { nowMs }) => buildLeaseDescription(lease, nowMs),
  waiting: {
    conditions: LEASE_PHASES,
    decide: decideLeaseCondition,
    requireHistory,
    // Exit code 0 states that the goal is met, as in kubectl wait; standard error adds the cause.
    note: (lease) => (isEndUnexpected(lease) ? [describeState(lease)] : []),
    describe: describeState,
  },
  events: EVENTS,
  explain: explainLeaseOrOwner,
  delete: (_cli, id) => {
    throw new CommandError(EXIT.usage, "a lease cannot be deleted", {
      hint: `\`muster lease end ${id}\` ends it, for good`,
    });
  },
  refusals: {
    cancel: { message: "a lease cannot be cancelled", hint: (id) => `\`muster lease end ${id}\` ends it, for good` },
    logs: {
      message: "Muster keeps no logs of leases",
      hint: (id) => `\`muster lease get ${id}\` shows its namespace: kubectl -n NAMESPACE logs deployment/lease-${id}`,
    },
  },
  documents: LEASE_DOCUMENTS,
  schema: { word: LEASE_NOUN, build: buildLeaseSchema },
};

/** Lists unfinished leases first, each group from new to old; `isWhole` lists all finished ones. */
export function buildLeaseList(
  leases: readonly Lease[],
  nowMs: number,
  { isWhole, ...view }: LeaseListView & { readonly isWhole: boolean },
): readonly string[] {
  const { shown, left } = arrangeLeases(leases, isWhole ? leases.length : MAX_SHOWN_OVER);
  const more = left === 0 ? [] : [`${left} more finished leases: --all shows them`];
  return [...buildLeaseTable(shown, nowMs, view), ...more];
}

/** Rejects with CommandError for an id without a history, because no such lease ever existed. */
async function requireHistory(connected: ConnectedCli, id: string): Promise<void> {
  const events = await askAboutLeases(connected, (leases) => leases.history(id, 1));
  if (events.length > 0) return;
  throw new CommandError(EXIT.refused, `lease ${id} does not exist, and has no history`, {
    hint: "`muster lease get` lists those that exist",
  });
}
