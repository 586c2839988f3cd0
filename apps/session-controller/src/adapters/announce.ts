import { publishEvent, type Bus } from "@muster/bus";
import { muster, subjects } from "@muster/proto";
import { getGivenName, type SessionRecord } from "../domain/session.ts";
import { toWireEvent } from "./messages.ts";

/** Publishes the events of the record from this index on, in order. A repeated publication has no effect. */
export async function publishSessionEvents(bus: Bus, record: SessionRecord, from: number): Promise<void> {
  const { name, uid, elsewhere } = record;
  const shown = { name: getGivenName(record), namespace: elsewhere?.namespace ?? "" };
  const type = muster.session.v1.SessionEventRecorded;
  for (const [index, event] of record.events.entries()) {
    if (index < from) continue;
    const message = { ...shown, uid, event: toWireEvent(event) };
    await publishEvent(bus, subjects.sessionEventRecorded(name), type, message, { messageId: `${uid}-${index}` });
  }
}
