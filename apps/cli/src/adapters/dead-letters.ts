import { openDeadLetters, type Bus, type DeadLetter as BusDeadLetter } from "@muster/bus";
import { throwFault } from "@muster/faults";
import { muster, type AnyMessageType } from "@muster/proto";

/** The operations on dead letters; each call rejects with FaultError. */
export type DeadLetterBox = {
  list(area: string | undefined, limit: number): Promise<DeadLetter[]>;
  show(id: number): Promise<DeadLetter>;
  replay(id: number): Promise<{ readonly duplicate: boolean }>;
  drop(id: number): Promise<void>;
};

export function makeDeadLetterBox(bus: Bus): DeadLetterBox {
  const letters = openDeadLetters(bus);
  return {
    list: async (area, limit) => (await letters.list({ limit, ...(area !== undefined && { area }) })).map(readable),
    show: async (id) => readable(await letters.show(id)),
    replay: (id) => letters.replay(id),
    drop: async (id) => {
      if (!(await letters.drop(id))) throwFault({ code: "not_found", kind: "dead letter", id: String(id) });
    },
  };
}

/** A message that no service could handle, with the reason. Its payload is base64 if this command does not know its type. */
export type DeadLetter = ReturnType<typeof readable>;

function readable({ id, area, reason, subject, type, deliveries, atMs, payload, lostBytes }: BusDeadLetter) {
  return { id, area, reason, subject, type, deliveries, atMs, lostBytes, message: decoded(type, payload) };
}

/** The payload may not decode, which can be why it was dead-lettered, or its type may be newer than this command. */
function decoded(type: string, payload: Uint8Array): unknown {
  const message = MESSAGES.get(type);
  try {
    if (message !== undefined)
      return message.toObject(message.decode(payload), { longs: String, bytes: String, enums: String });
  } catch {
    // The output shows the payload undecoded.
  }
  return Buffer.from(payload).toString("base64");
}

/** The messages that travel as events or commands, and so can become dead letters. */
const MESSAGES = new Map<string, AnyMessageType>([
  ["muster.provision.v1.Order", muster.provision.v1.Order],
  ["muster.session.v1.SessionEventRecorded", muster.session.v1.SessionEventRecorded],
  ["muster.reservation.v1.ReservationGranted", muster.reservation.v1.ReservationGranted],
]);
