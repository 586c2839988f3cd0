import { formatElapsed } from "./duration.ts";
import { buildComponentRows, buildPhases, COMPONENT_HEADER } from "./build-progress.ts";
import { buildSummary } from "./build-result.ts";
import { buildTable, plain, type Cell, type TableStyle } from "./build-table.ts";
import { colourOf } from "./paint.ts";
import type { Pool, Reservation } from "./reservation.ts";
import { buildSpec, parseOrText } from "./session-document.ts";
import { ageOf, endOf, isFinished, phaseOf, type Session } from "./session.ts";

export function buildSessionTable(sessions: readonly Session[], nowMs: number, style: TableStyle): string[] {
  const rows = sessions.map((session): Cell[] => {
    const phase = phaseOf(session);
    return [
      session.name,
      { text: phase, colour: colourOf(phase) },
      String(session.components.length),
      formatElapsed(nowMs - session.createdAtMs),
      formatElapsed(ageOf(session, nowMs)),
      isFinished(session) ? (endOf(session)?.reason ?? "") : session.waitingBecause,
    ];
  });
  return buildTable(["NAME", "PHASE", "MACHINES", "AGE", "TOOK", "WHY"], rows, style);
}

export function buildPoolTable(pools: readonly Pool[], style: TableStyle): string[] {
  const rows = pools.map((pool) => [
    pool.name,
    ...[pool.available, pool.capacity, pool.held, pool.unusable, pool.waiting].map(String),
    pool.unusableByReason.map(({ reason, count }) => `${count} ${reason}`).join(", "),
  ]);
  return buildTable(["POOL", "AVAILABLE", "CAPACITY", "HELD", "UNUSABLE", "WAITING", "WHY UNUSABLE"], rows, style);
}

export function buildReservationTable(
  reservations: readonly Reservation[],
  nowMs: number,
  style: TableStyle,
): string[] {
  const rows = reservations.map((reservation): Cell[] => [
    reservation.id,
    `${reservation.ownerKind}/${reservation.ownerId}`,
    { text: reservation.state, colour: colourOf(reservation.state) },
    String(reservation.needs.length),
    String(reservation.priority),
    formatElapsed(nowMs - reservation.createdAtMs),
    whyText(reservation),
  ]);
  return buildTable(["ID", "OWNER", "STATE", "MACHINES", "PRIORITY", "AGE", "WHERE"], rows, style);
}

/** All that is known of one session, for people. */
export function buildDescription(session: Session, nowMs: number, style: TableStyle): string[] {
  const fields = buildTable(
    ["SESSION", plain(session.name)],
    [
      ["uid", session.uid],
      ["submitted", isoTime(session.createdAtMs) ?? ""],
      ["timeout", duration(session.spec.timeoutMs)],
      ["queue timeout", duration(session.spec.queueTimeoutMs)],
      ["kept for", duration(session.spec.ttlMs)],
      ["priority", String(session.spec.priority ?? 0)],
      ["scenario", session.spec.scenarioJson ?? "-"],
      ["cancel requested", session.cancelRequested ? "yes" : "no"],
      ["waits", session.waitingBecause === "" ? "-" : session.waitingBecause],
      ["trace", session.traceparent === "" ? "-" : session.traceparent],
    ],
    style,
  );
  const events = session.events.map((event): Cell[] => [
    isoTime(event.atMs) ?? "",
    formatElapsed(event.atMs - session.createdAtMs),
    { text: event.phase, colour: colourOf(event.phase) },
    event.reason,
    event.description,
  ]);
  return [
    ...fields,
    "",
    ...buildTable(["TIME", "AFTER", "EVENT", "REASON", "DESCRIPTION"], events, style),
    "",
    ...buildTable(COMPONENT_HEADER, buildComponentRows(session), style),
    "",
    ...(isFinished(session) ? buildSummary(session, nowMs, style) : [buildPhases(session, nowMs)]),
  ];
}

/** The stable form of a session for `-o json` and `-o yaml`: times in ISO 8601, durations as written in documents, scenario and result as data. */
export function buildSessionRecord(session: Session): Record<string, unknown> {
  return {
    name: session.name,
    uid: session.uid,
    revision: session.revision,
    phase: phaseOf(session),
    createdAt: isoTime(session.createdAtMs),
    finishedAt: isoTime(session.finishedAtMs),
    cancelRequested: session.cancelRequested,
    waitingBecause: session.waitingBecause,
    result: session.resultJson === undefined ? undefined : parseOrText(session.resultJson),
    warnings: session.warnings,
    events: session.events.map(({ phase, atMs, description, reason }) => ({
      phase,
      at: isoTime(atMs),
      reason,
      description,
    })),
    components: session.components,
    spec: buildSpec(session.spec),
    traceparent: session.traceparent,
  };
}

export function buildReservationRecord(reservation: Reservation): Record<string, unknown> {
  const { createdAtMs, grantedAtMs, ...rest } = reservation;
  return { ...rest, createdAt: isoTime(createdAtMs), grantedAt: isoTime(grantedAtMs) };
}

/** Dates that JavaScript cannot write are left out. */
function isoTime(ms: number | undefined): string | undefined {
  if (ms === undefined) return undefined;
  const date = new Date(ms);
  return Number.isNaN(date.getTime()) ? undefined : date.toISOString();
}

function duration(ms: number | undefined): string {
  return ms === undefined ? "-" : formatElapsed(ms);
}

function whyText({ because, machines }: Reservation): string {
  if (because === undefined) return machines.map(({ node }) => node).join(", ");
  const { code, pool, requested, available, ahead } = because;
  const numbers = pool === "" ? "" : ` ${pool}: ${requested} needed, ${available} free`;
  return `${code}${numbers}${ahead > 0 ? `; ${ahead} ahead` : ""}`;
}
