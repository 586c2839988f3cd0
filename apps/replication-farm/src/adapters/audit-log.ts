import { publishEvent, type Bus } from "@muster/bus";
import { muster, streams, subjects } from "@muster/proto";
import type { AuditRecord } from "../domain/replica-set.ts";
import { toAudit, toWireAudit } from "./messages.ts";

/** The trail of what was done to replica sets, on a stream that nothing but age and size takes from. */
export type AuditLog = {
  /** Appends what is not there; the stream drops a record whose id it has had within its window. */
  publish(records: readonly AuditRecord[]): Promise<void>;
  /** The newest of one set, the oldest of them first, each once. Reads the set's whole trail: a request for each record that it has. */
  newest(set: string, limit: number, signal: AbortSignal): Promise<AuditRecord[]>;
};

export function openAuditLog(bus: Bus): AuditLog {
  const { AuditRecord: Message } = muster.farm.v1;
  return {
    publish: async (records) => {
      for (const record of records) {
        const subject = subjects.farmAudited(record.replicaSet);
        await publishEvent(bus, subject, Message, toWireAudit(record), { messageId: record.id });
      }
    },
    newest: async (set, limit, signal) => {
      const subject = subjects.farmAudited(set);
      const newest = new Map<string, AuditRecord>();
      for (let from = 1; !signal.aborted;) {
        const message = await bus.readMessage(streams.audit.name, subject, from);
        if (message === undefined) break;
        const record = toAudit(Message.decode(message.payload));
        newest.set(record.id, record);
        const [oldest] = newest.keys();
        if (newest.size > limit && oldest !== undefined) newest.delete(oldest);
        from = message.sequence + 1;
      }
      return [...newest.values()];
    },
  };
}
