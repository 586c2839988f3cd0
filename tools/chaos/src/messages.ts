import { enums, toLowercaseNames, muster } from "@muster/proto";
import type { SessionDraft } from "./domain/build-session.ts";
import type { Progress } from "./domain/milestone.ts";
import { type LedgerFact, type SessionSeen, getWorkOfOwner } from "./domain/observed.ts";

const KINDS = toLowercaseNames(enums.ComponentKind);

export function toSpec({ components, ...limits }: SessionDraft): muster.session.v1.SessionSpec.$Properties {
  return {
    ...limits,
    components: components.map((component) => ({ ...component, kind: KINDS.numbers[component.kind] })),
  };
}

export function toProgress(record: muster.session.v1.SessionRecord): Progress {
  const session = record.session ?? muster.session.v1.Session.create();
  return {
    events: session.events.map(eventKind),
    anyPodMade: session.components.some(({ podUid }) => podUid !== ""),
    concluded: record.verdict !== undefined,
    finished: session.finishedAtMs > 0,
  };
}

export function toSessionSeen(session: muster.session.v1.Session): SessionSeen {
  return {
    name: session.name,
    createdAtMs: session.createdAtMs,
    finishedAtMs: session.finishedAtMs,
    events: session.events.map((event) => ({
      kind: eventKind(event),
      atMs: event.atMs,
      reason: event.reason,
      description: event.description,
    })),
    components: session.components.map(({ name, state, node, message }) => ({ name, state, node, message })),
    resultJson: session.resultJson,
    warnings: session.warnings.map(({ code, message }) => `${code}: ${message}`),
    waitingBecause: session.waitingBecause,
  };
}

/** The session and the kind of a published event. */
export function readPublished(payload: Uint8Array): { readonly session: string; readonly kind: string } {
  const { name, event } = muster.session.v1.SessionEventRecorded.decode(payload);
  return { session: name, kind: event === undefined ? "" : eventKind(event) };
}

/** The work of a reservation, and its queue; empty: none. */
export type RequestedWork = { readonly work: string; readonly queue: string };

/** Amounts by pool and resource, without those of 0. */
export function toPairs(use: readonly muster.reservation.v1.PoolUse[]): ReadonlyMap<string, number> {
  const pairs = use.flatMap(({ pool, amounts }) =>
    Object.entries(amounts).map(([resource, amount]): [string, number] => [`${pool} ${resource}`, amount]),
  );
  return new Map(pairs.filter(([, amount]) => amount > 0));
}

/** The grants and ends of reservations in one entry of the ledger's log. */
export function readLedgerEntry(payload: Uint8Array, owners: Map<string, RequestedWork>): LedgerFact[] {
  return muster.reservation.v1.LedgerEntry.decode(payload).events.flatMap((event): LedgerFact[] => {
    const { atMs, requested, granted, released, requeued } = event;
    if (requested?.reservation) {
      const { id, owner, queue } = requested.reservation;
      owners.set(id, { work: getWorkOfOwner(owner?.id ?? ""), queue });
    }
    if (granted) {
      const { id: reservation, machines } = granted;
      const { work = "", queue = "" } = owners.get(reservation) ?? {};
      const nodes = machines.map(({ node }) => node);
      const parts = machines.flatMap(({ node, shared }) =>
        shared ? [{ node, requests: new Map(Object.entries(shared.requests)) }] : [],
      );
      const quota = queue === "" ? {} : { queue, use: toPairs(granted.use) };
      return [{ kind: "granted", atMs, reservation, work, nodes, parts, ...quota }];
    }
    const ended = released ?? requeued;
    return ended ? [{ kind: "ended", atMs, reservation: ended.id }] : [];
  });
}

function eventKind({ kind }: muster.session.v1.SessionEvent): string {
  return enums.SessionEventKind.nameOf(kind) ?? "";
}
