import type { LeaseEvent, LeaseRecord } from "./lease.ts";

/** Of the text of an event, where a record is too large as it is. */
const MAX_BRIEF_CHARACTERS = 100;

/**
 * What the engine stores of a record: all of it, or, where that is more than may be stored, what is needed of it. A lease has to get on, and to its end, whatever its
 * record weighs: first its request id and long texts of its history go, then the history that is not on its stream.
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
