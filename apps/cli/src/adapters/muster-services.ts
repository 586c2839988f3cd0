import { client, type Bus } from "@muster/bus";
import { ReservationService, SessionService, WatchService } from "@muster/proto";
import type { Pool, Reservation, ReservationExplanation } from "../domain/reservation.ts";
import type { SessionSpec } from "../domain/session-document.ts";
import type { Session } from "../domain/session.ts";
import {
  explanationFromMessage,
  poolFromMessage,
  reservationFromMessage,
  sessionFromMessage,
  specToMessage,
} from "./messages.ts";

/** What the services can be asked for, in domain types. Every call rejects with FaultError and nothing else. */
export type MusterServices = {
  submit(request: { readonly requestId: string; readonly name: string; readonly spec: SessionSpec }): Promise<Session>;
  session(name: string): Promise<Session>;
  /** The session once it differs from the revision, or as it is after some seconds. */
  sessionAfter(name: string, revision: number, signal: AbortSignal): Promise<Session>;
  sessions(): Promise<Session[]>;
  cancel(name: string): Promise<Session>;
  log(name: string, component: string, offset: number, signal?: AbortSignal): Promise<LogChunk>;
  pools(): Promise<Pool[]>;
  reservation(ownerKind: string, ownerId: string): Promise<Reservation>;
  reservations(): Promise<Reservation[]>;
  explanation(ownerKind: string, ownerId: string): Promise<ReservationExplanation>;
  watcherStatus(): Promise<WatcherStatus>;
};

export type LogChunk = {
  readonly bytes: Uint8Array;
  readonly nextOffset: number;
  /** No more will come. */
  readonly complete: boolean;
  /** The beginning was left out because the log was too long to be kept. */
  readonly truncated: boolean;
};

export type WatcherStatus = {
  readonly ageMs: number;
  readonly synced: boolean;
  readonly pods: number;
  readonly nodes: number;
};

/** Short, because an answer that dies with its service is waited for until the deadline. */
const LONG_POLL_MS = 4000;
const LONG_POLL_TIMEOUT_MS = 6000;
/** Longer than a change of leader or a restart takes, so that those pass unnoticed. */
const CALL_TIMEOUT_MS = 15_000;
/** Pages of a list that are read; each has at most 500. */
const PAGES_MAX = 200;

/** The services on this bus; the signal gives up whatever is being asked. */
export function musterServices(bus: Bus, stop: AbortSignal): MusterServices {
  const sessions = client(bus, SessionService);
  const reservations = client(bus, ReservationService);
  const watcher = client(bus, WatchService);
  return {
    submit: async ({ requestId, name, spec }) =>
      sessionOf(
        await sessions.submitSession(
          { requestId, name, spec: specToMessage(spec) },
          { timeoutMs: CALL_TIMEOUT_MS, signal: stop },
        ),
      ),
    session: async (name) =>
      sessionOf(await sessions.getSession({ name }, { timeoutMs: CALL_TIMEOUT_MS, signal: stop })),
    sessionAfter: async (name, afterRevision, signal) =>
      sessionOf(
        await sessions.watchSession(
          { name, afterRevision, waitMs: LONG_POLL_MS },
          { timeoutMs: LONG_POLL_TIMEOUT_MS, signal },
        ),
      ),
    sessions: () =>
      allPages(async (page) => {
        const reply = await sessions.listSessions({ continue: page }, { timeoutMs: CALL_TIMEOUT_MS, signal: stop });
        return { items: reply.sessions.map(sessionFromMessage), next: reply.continue };
      }),
    cancel: async (name) =>
      sessionOf(
        await sessions.cancelSession(
          { requestId: crypto.randomUUID(), name },
          { timeoutMs: CALL_TIMEOUT_MS, signal: stop },
        ),
      ),
    log: async (name, component, offset, signal) => {
      const reply = await sessions.getLogs(
        { name, component, offset },
        { timeoutMs: CALL_TIMEOUT_MS, signal: signal ?? stop },
      );
      const { chunk, nextOffset, complete, truncated } = reply;
      return { bytes: chunk, nextOffset, complete, truncated };
    },
    pools: async () =>
      (await reservations.listPools({}, { timeoutMs: CALL_TIMEOUT_MS, signal: stop })).pools.map(poolFromMessage),
    reservation: async (kind, id) =>
      reservationFromMessage(
        (await reservations.getReservation({ owner: { kind, id } }, { timeoutMs: CALL_TIMEOUT_MS, signal: stop }))
          .reservation ?? {},
      ),
    reservations: () =>
      allPages(async (page) => {
        const reply = await reservations.listReservations(
          { continue: page },
          { timeoutMs: CALL_TIMEOUT_MS, signal: stop },
        );
        return { items: reply.reservations.map(reservationFromMessage), next: reply.continue };
      }),
    explanation: async (kind, id) =>
      explanationFromMessage(
        await reservations.explainReservation({ owner: { kind, id } }, { timeoutMs: CALL_TIMEOUT_MS, signal: stop }),
      ),
    watcherStatus: async () => {
      const { ageMs, synced, pods, nodes } = await watcher.getStatus({}, { timeoutMs: 2000, signal: stop });
      return { ageMs, synced, pods, nodes };
    },
  };
}

type SessionMessage = Parameters<typeof sessionFromMessage>[0];

function sessionOf(reply: { session?: SessionMessage | null }): Session {
  return sessionFromMessage(reply.session ?? {});
}

async function allPages<Item>(
  read: (page: string) => Promise<{ readonly items: readonly Item[]; readonly next: string }>,
): Promise<Item[]> {
  const all: Item[] = [];
  let page = "";
  for (let count = 0; count < PAGES_MAX; count++) {
    const { items, next } = await read(page);
    all.push(...items);
    if (next === "") break;
    page = next;
  }
  return all;
}
