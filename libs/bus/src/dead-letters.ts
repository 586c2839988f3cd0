import { FaultError, unlessMissing } from "@muster/faults";
import { streams, subjects } from "@muster/proto";
import type { Bus, Headers, PublishResult, StoredMessage } from "./bus.ts";
import { header } from "./wire-headers.ts";

/** A message that no handler could process, and the reason. */
export type DeadLetter = {
  /** Id of the letter while it is stored. */
  readonly id: number;
  /** Area of the consumer that dead-lettered it: `session`. */
  readonly area: string;
  readonly reason: string;
  /** Original subject of the message. */
  readonly subject: string;
  /** Full name of its protobuf message; empty if the sender did not set it. */
  readonly type: string;
  readonly stream: string;
  readonly consumer: string;
  /** Number of deliveries before it was dead-lettered. */
  readonly deliveries: number;
  /** Unix milliseconds at which it was dead-lettered. */
  readonly atMs: number;
  readonly payload: Uint8Array;
  /** Bytes of a payload that was dropped because it did not fit beside the reason; such a letter cannot be replayed. Undefined: the payload was kept. */
  readonly lostBytes: number | undefined;
  /** Original headers, without those that dead-lettering added. */
  readonly headers: Headers;
};

type DeadLetterSummary = {
  readonly letters: number;
  readonly bytes: number;
  /** Limits of size and age beyond which the oldest letters are deleted. */
  readonly maxBytes: number;
  readonly maxAgeMs: number;
};

type DeadLetters = {
  summary(): Promise<DeadLetterSummary>;
  /** Lists letters, oldest first, from the one after `after` (an id; 0: the first), at most `limit` (default 100). */
  list(options?: { readonly area?: string; readonly after?: number; readonly limit?: number }): Promise<DeadLetter[]>;
  /** Returns one letter; rejects with not_found if it does not exist. */
  show(id: number): Promise<DeadLetter>;
  /**
   * Republishes the message to its original subject under a message id derived from the letter, then removes the letter. A repeated call publishes it once
   * within the duplicate window of the stream (2 minutes). `duplicate`: the stream already had the message, or its work queue still holds a command of that
   * subject. Rejects with not_found (no such letter), invalid_request (payload not kept) or unavailable (no stream binds the subject); the letter is kept then.
   */
  replay(id: number): Promise<PublishResult>;
  /** Removes the letter; false if it does not exist. */
  drop(id: number): Promise<boolean>;
};

const PAGE = 100;
const DEAD_PREFIX = "Muster-Dead-";
const STREAM = streams.dead.name;
const ANY = subjects.dead("a").replace(/a$/, ">");

/** Opens the dead letters of all areas. The list is empty while their stream is missing. */
export function openDeadLetters(bus: Bus): DeadLetters {
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
        letters.push(readLetter(found));
        from = found.sequence + 1;
      }
      return letters;
    },
    show: async (id) => readLetter(await find(id)),
    replay: async (id) => {
      const letter = readLetter(await find(id));
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
    // The server answers an id that was never assigned with an error, so such an id is not requested.
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

function readLetter({ subject, payload, headers, sequence, atMs }: StoredMessage): DeadLetter {
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
