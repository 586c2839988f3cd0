import { formatElapsed } from "@muster/faults";
import { buildRecord } from "./build-record.ts";
import { buildLine, buildTable, type Cell, type TableStyle } from "./build-table.ts";
import { getColour } from "./paint.ts";
import type { Work, WorkEvent } from "./work.ts";

/** One event, with its work. */
export type NamedEvent = {
  readonly kind: string;
  readonly name: string;
  readonly uid: string;
  readonly createdAtMs: number;
  readonly event: WorkEvent;
};

/** Sorts the events of all work by time, and keeps the order within each. */
export function orderEvents(all: readonly Work[]): NamedEvent[] {
  return all
    .flatMap(({ kind, name, uid, createdAtMs, events }) =>
      events.map((event): NamedEvent => ({ kind, name, uid, createdAtMs, event })),
    )
    .sort((a, b) => a.event.atMs - b.event.atMs);
}

export function buildEventTable(events: readonly NamedEvent[], style: TableStyle): string[] {
  const kind = events[0]?.kind.toUpperCase() ?? "NAME";
  return buildTable(["TIME", kind, "AFTER", "EVENT", "REASON", "DESCRIPTION"], events.map(cellsOf), style);
}

/** Formats one event as a line of its own, for a growing list. */
export function buildEventLine(named: NamedEvent, style: TableStyle): string {
  return buildLine(cellsOf(named), style);
}

/** Builds the stable format for `-o json`. */
export function buildEventRecord({ kind, name, event }: NamedEvent): Record<string, unknown> {
  const { phase, atMs, reason, description } = event;
  return buildRecord({ [kind]: name, phase, atMs, reason, description });
}

function cellsOf({ name, createdAtMs, event }: NamedEvent): Cell[] {
  return [
    new Date(event.atMs).toISOString(),
    name,
    formatElapsed(event.atMs - createdAtMs),
    { text: event.phase, colour: getColour(event.phase) },
    event.reason,
    event.description,
  ];
}
