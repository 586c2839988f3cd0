import type { LeaseEvent, LeaseRecord } from "./lease.ts";

/** Maximum text of an event in a record that is too large. */
const MAX_BRIEF_CHARACTERS = 100;

/**
 * Shrinks a record that exceeds `maxBytes`, so that every lease can reach its end. First drops the request id and shortens long event texts, then drops the
 * unpublished history.
 */
export function buildStorable(
  record: LeaseRecord,
  bytesOf: (record: LeaseRecord) => number,
  maxBytes: number,
): LeaseRecord {
  if (bytesOf(record) <= maxBytes) return record;
  const brief = { ...record, requestId: "", outbox: record.outbox.map(shortenEvent) };
  return bytesOf(brief) <= maxBytes ? brief : { ...brief, outbox: [] };
}

function shortenEvent(event: LeaseEvent): LeaseEvent {
  return { ...event, message: event.message.slice(0, MAX_BRIEF_CHARACTERS) };
}
