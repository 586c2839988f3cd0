import { muster } from "@muster/proto";
import type { SessionDraft } from "./domain/build-session.ts";
import type { Progress } from "./domain/milestone.ts";
import { type LedgerFact, type SessionSeen, workOf } from "./domain/observed.ts";
import type { PodShape } from "./domain/plan-shapes.ts";

const { ComponentKind, SessionEventKind } = muster.session.v1;

const KINDS: Readonly<Record<PodShape["kind"], muster.session.v1.ComponentKind>> = {
  driver: ComponentKind.COMPONENT_KIND_DRIVER,
  server: ComponentKind.COMPONENT_KIND_SERVER,
  client: ComponentKind.COMPONENT_KIND_CLIENT,
};

export function toSpec({ components, ...limits }: SessionDraft): muster.session.v1.SessionSpec.$Properties {
  return {
    ...limits,
    components: components.map(({ kind, command, ...rest }) => ({ ...rest, kind: KINDS[kind], command: [...command] })),
  };
}

export function toProgress(record: muster.session.v1.SessionRecord): Progress {
  const session = muster.session.v1.Session.create(record.session ?? {});
  return {
    events: session.events.map(eventKind),
    anyPodMade: session.components.some(({ podUid }) => (podUid ?? "") !== ""),
    concluded: (record.verdict ?? undefined) !== undefined,
    finished: session.finishedAtMs > 0,
  };
}

export function toSessionSeen(message: muster.session.v1.Session.$Properties): SessionSeen {
  const session = muster.session.v1.Session.create(message);
  return {
    name: session.name,
    createdAtMs: session.createdAtMs,
    finishedAtMs: session.finishedAtMs,
    events: session.events.map((event) => ({
      kind: eventKind(event),
      atMs: event.atMs ?? 0,
      reason: event.reason ?? "",
      description: event.description ?? "",
    })),
    components: session.components.map(({ name, state, node, message }) => ({
      name: name ?? "",
      state: state ?? "",
      node: node ?? "",
      message: message ?? "",
    })),
    resultJson: session.resultJson,
    warnings: session.warnings.map(({ code, message }) => `${code ?? ""}: ${message ?? ""}`),
    waitingBecause: session.waitingBecause,
  };
}

/** One published event: of which session, and which kind. */
export function readPublished(payload: Uint8Array): { readonly session: string; readonly kind: string } {
  const { name, event } = muster.session.v1.SessionEventRecorded.decode(payload);
  return { session: name, kind: eventKind(event ?? {}) };
}

/** What one entry of the ledger's log says of grants and their ends. */
export function readLedgerEntry(payload: Uint8Array, owners: Map<string, string>): LedgerFact[] {
  return muster.reservation.v1.LedgerEntry.decode(payload).events.flatMap((event): LedgerFact[] => {
    const atMs = event.atMs ?? 0;
    const { requested, granted } = event;
    if (requested?.reservation) {
      const { id, owner } = requested.reservation;
      owners.set(id ?? "", workOf(owner?.id ?? ""));
    }
    const ended = event.released;
    if (granted) {
      const reservation = granted.id ?? "";
      const nodes = (granted.machines ?? []).map(({ node }) => node ?? "");
      return [{ fact: "granted", atMs, reservation, work: owners.get(reservation) ?? "", nodes }];
    }
    return ended ? [{ fact: "ended", atMs, reservation: ended.id ?? "" }] : [];
  });
}

function eventKind({ kind }: muster.session.v1.SessionEvent.$Properties): string {
  return (SessionEventKind[kind ?? 0] ?? "").replace("SESSION_EVENT_KIND_", "");
}
