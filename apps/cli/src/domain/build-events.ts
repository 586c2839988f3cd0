import { formatElapsed } from "./duration.ts";
import { buildTable, plain, type Cell, type TableStyle } from "./build-table.ts";
import { colourOf, paint } from "./paint.ts";
import type { Session, SessionEvent } from "./session.ts";

/** One event, with the session that it belongs to. */
export type NamedEvent = {
  readonly session: string;
  readonly sessionCreatedAtMs: number;
  readonly event: SessionEvent;
};

/** The events of the sessions by time; those of one session stay in their order. */
export function orderEvents(sessions: readonly Session[]): NamedEvent[] {
  return sessions
    .flatMap(({ name, createdAtMs, events }) =>
      events.map((event): NamedEvent => ({ session: name, sessionCreatedAtMs: createdAtMs, event })),
    )
    .sort((a, b) => a.event.atMs - b.event.atMs);
}

export function buildEventTable(events: readonly NamedEvent[], style: TableStyle): string[] {
  return buildTable(["TIME", "SESSION", "AFTER", "EVENT", "REASON", "DESCRIPTION"], events.map(cellsOf), style);
}

/** One event as a line that stands alone, for a list that grows. */
export function buildEventLine(named: NamedEvent, style: TableStyle): string {
  return cellsOf(named)
    .map((cell) => (typeof cell === "string" ? plain(cell) : paint(plain(cell.text), cell.colour, style.colours)))
    .filter((text) => text !== "")
    .join("  ");
}

/** The stable form for `-o json`. */
export function buildEventRecord({ session, event }: NamedEvent): Record<string, unknown> {
  const { phase, atMs, reason, description } = event;
  return { session, phase, at: new Date(atMs).toISOString(), reason, description };
}

function cellsOf({ session, sessionCreatedAtMs, event }: NamedEvent): Cell[] {
  return [
    new Date(event.atMs).toISOString(),
    session,
    formatElapsed(event.atMs - sessionCreatedAtMs),
    { text: event.phase, colour: colourOf(event.phase) },
    event.reason,
    event.description,
  ];
}
