import { publishEvent, type Bus, type StoredMessage } from "@muster/bus";
import { muster, streams, subjects } from "@muster/proto";
import type { AuditRecord } from "../domain/replica-set.ts";
import { toAudit, toWireAudit } from "./messages.ts";

/** The trail of what was done to replica sets, on a stream that nothing but age and size takes from. */
export type AuditLog = {
  /** Appends what is not there; the stream drops a record whose id it has had within its window. */
  publish(records: readonly AuditRecord[]): Promise<void>;
  /** The newest of one set, or of those before a page: the oldest of them first, each once. What it costs goes by the limit, not by the length of the trail. */
  page(set: string, query: AuditQuery, signal: AbortSignal): Promise<AuditPage>;
};

export type AuditQuery = { readonly limit: number; readonly before: number | undefined };

export type AuditPage = {
  readonly records: readonly AuditRecord[];
  /** Where the next page ends; undefined: there are no older ones. */
  readonly before: number | undefined;
};

const { AuditRecord: Message } = muster.farm.v1;

export function openAuditLog(bus: Bus): AuditLog {
  return {
    publish: async (records) => {
      for (const record of records) {
        const subject = subjects.farmAudited(record.replicaSet);
        await publishEvent(bus, subject, Message, toWireAudit(record), { messageId: record.id });
      }
    },
    page: async (set, { limit, before }, signal) => {
      const found = await readBackward(bus, subjects.farmAudited(set), { limit: limit + 1, before }, signal);
      const newest = found.slice(-limit);
      const records = new Map(
        newest.map(({ payload }): [string, AuditRecord] => {
          const record = toAudit(Message.decode(payload));
          return [record.id, record];
        }),
      );
      return { records: [...records.values()], before: found.length > limit ? newest[0]?.sequence : undefined };
    },
  };
}

/**
 * The newest messages of a subject, `limit` and perhaps some more, the oldest first. A stream is read forward only, so it is read in ranges from its end, each twice as
 * long as the one before; one with far more messages than are wanted is left half-read, and halved.
 */
async function readBackward(
  bus: Bus,
  subject: string,
  { limit, before }: AuditQuery,
  signal: AbortSignal,
): Promise<StoredMessage[]> {
  const { firstSequence, lastSequence } = (await bus.streamState(streams.audit.name)) ?? NOTHING;
  let found: StoredMessage[] = [];
  let end = Math.min(before ?? Number.POSITIVE_INFINITY, lastSequence + 1);
  let length = limit;
  while (found.length < limit && end > firstSequence && !signal.aborted) {
    const start = Math.max(firstSequence, end - length);
    const range = await readRange(bus, subject, { start, end, most: 2 * limit });
    if (range === "too-many") {
      length = Math.floor((end - start) / 2);
      continue;
    }
    found = [...range, ...found];
    end = start;
    length *= 2;
  }
  return found;
}

const NOTHING = { firstSequence: 1, lastSequence: 0 };

async function readRange(
  bus: Bus,
  subject: string,
  { start, end, most }: { readonly start: number; readonly end: number; readonly most: number },
): Promise<StoredMessage[] | "too-many"> {
  const messages: StoredMessage[] = [];
  for (let from = start; from < end;) {
    const message = await bus.readMessage(streams.audit.name, subject, from);
    if (message === undefined || message.sequence >= end) break;
    if (messages.length === most) return "too-many";
    messages.push(message);
    from = message.sequence + 1;
  }
  return messages;
}
