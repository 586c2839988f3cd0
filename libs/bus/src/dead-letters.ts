import { FaultError, unlessMissing } from "@muster/faults";
import { streams, subjects } from "@muster/proto";
import type { Bus, Headers, Published, StoredMessage } from "./bus.ts";
import { header } from "./wire-headers.ts";

/** A message that could not be handled, and why. */
export type DeadLetter = {
  /** Its id while it is stored here. */
  readonly id: number;
  /** Area of the consumer that gave it up: `session`. */
  readonly area: string;
  readonly reason: string;
  /** Where it was sent. */
  readonly subject: string;
  /** Full name of its protobuf message; empty when the sender did not set it. */
  readonly type: string;
  readonly stream: string;
  readonly consumer: string;
  /** How often it had been delivered when it was given up. */
  readonly deliveries: number;
  /** Milliseconds since 1970 at which it was given up. */
  readonly atMs: number;
  readonly payload: Uint8Array;
  /** Bytes of a payload that was too large to be kept beside the reason; such a letter cannot be replayed. Undefined: the payload was kept. */
  readonly lostBytes: number | undefined;
  /** As they were sent, without those that are about its death. */
  readonly headers: Headers;
};

type DeadLetterSummary = {
  readonly letters: number;
  readonly bytes: number;
  /** Beyond this size, and after this time, the oldest letters vanish. */
  readonly maxBytes: number;
  readonly maxAgeMs: number;
};

type DeadLetters = {
  summary(): Promise<DeadLetterSummary>;
  /** Oldest first, from the one after `after` (an id; 0: the first), at most `limit` (default 100). */
  list(options?: { readonly area?: string; readonly after?: number; readonly limit?: number }): Promise<DeadLetter[]>;
  /** Rejects with not_found. */
  show(id: number): Promise<DeadLetter>;
  /**
   * Replays the message to its first subject, under a message id of its own, and removes the letter. The id follows from the letter, so asking twice, also
   * after an answer that was lost, sends it once; only when the letter could not be removed, and is replayed after the duplicate window of its stream (2
   * minutes), it is sent again. `duplicate`: the stream had it already, or its work queue still holds a command of that subject. Rejects with not_found (no
   * such letter), invalid_request (its payload was not kept), unavailable (no stream takes the subject): the letter stays.
   */
  replay(id: number): Promise<Published>;
  /** Removes it; false when it does not exist. */
  drop(id: number): Promise<boolean>;
};

const PAGE = 100;
const DEAD_PREFIX = "Muster-Dead-";
const STREAM = streams.dead.name;
const ANY = subjects.dead("a").replace(/a$/, ">");

/** The dead letters of all areas. Without a stream for them the list is empty. */
export function deadLetters(bus: Bus): DeadLetters {
  const find = async (id: number): Promise<StoredMessage> => {
    const found = isId(id) ? await next(bus, ANY, id) : undefined;
    if (found?.sequence !== id) throw new FaultError({ code: "not_found", kind: "dead letter", id: String(id) });
    return found;
  };
  return {
    summary: async () => {
      const { messages, bytes } = (await bus.streamState(STREAM)) ?? { messages: 0, bytes: 0 };
      const { maxBytes, maxAgeMs } = streams.dead;
      return { letters: messages, bytes, maxBytes, maxAgeMs };
    },
    list: async ({ area, after = 0, limit = PAGE } = {}) => {
      const subject = area === undefined ? ANY : subjects.dead(area);
      const letters: DeadLetter[] = [];
      for (let from = after + 1; letters.length < limit;) {
        const found = await next(bus, subject, from);
        if (found === undefined) break;
        letters.push(letterOf(found));
        from = found.sequence + 1;
      }
      return letters;
    },
    show: async (id) => letterOf(await find(id)),
    replay: async (id) => {
      const letter = letterOf(await find(id));
      if (letter.lostBytes !== undefined)
        throw new FaultError({
          code: "invalid_request",
          field: `dead letter ${id}`,
          reason: `its ${letter.lostBytes} bytes were not kept; it can only be dropped`,
        });
      const { subject, payload, headers, atMs } = letter;
      const published = await bus.publish(subject, payload, { messageId: `replay.${id}.${atMs}`, headers });
      await bus.removeMessage(STREAM, id);
      return published;
    },
    // The server's answer about an id that was never assigned looks like a failure, so it is not asked.
    drop: async (id) => {
      if (!isId(id)) return false;
      return (await next(bus, ANY, id))?.sequence === id && (await bus.removeMessage(STREAM, id));
    },
  };
}

function isId(id: number): boolean {
  return Number.isSafeInteger(id) && id > 0;
}

function next(bus: Bus, subject: string, from: number): Promise<StoredMessage | undefined> {
  return unlessMissing(bus.readMessage(STREAM, subject, from));
}

function letterOf({ subject, payload, headers, sequence, atMs }: StoredMessage): DeadLetter {
  const text = (name: string): string => headers.get(name) ?? "";
  const lost = headers.get(header.deadLost);
  return {
    id: sequence,
    area: subject.split(".").at(-1) ?? "",
    reason: text(header.deadReason),
    subject: text(header.deadSubject),
    type: text(header.type),
    stream: text(header.deadStream),
    consumer: text(header.deadConsumer),
    deliveries: Number(text(header.deadDeliveries)),
    atMs,
    payload,
    lostBytes: lost === undefined ? undefined : Number(lost),
    headers: new Map([...headers].filter(([name]) => !name.startsWith(DEAD_PREFIX) && !name.startsWith("Nats-"))),
  };
}
