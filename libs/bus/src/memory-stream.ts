import { FaultError } from "@muster/faults";
import type {
  ConsumeOptions,
  Delivery,
  Message,
  PublishResult,
  PublishOptions,
  StoredMessage,
  StreamConfig,
  StreamState,
} from "./bus.ts";
import { makeDelivery } from "./delivery.ts";
import { STREAM_DEFAULTS } from "./stream-defaults.ts";
import { matchesSubject } from "./subject-pattern.ts";

/** The clock of the in-memory bus. Tests and simulations supply their own. */
export type Timers = {
  /** Current Unix milliseconds. */
  readonly now: () => number;
  /** Runs once after the delay; returns a function that cancels it. */
  readonly after: (delayMs: number, run: () => void) => () => void;
};

/** A JetStream stream in memory: keeps order, drops repeated ids, and applies the limits of its retention. */
export class MemoryStream {
  config: StreamConfig;
  readonly #consumers = new Map<string, MemoryConsumer>();
  readonly #messages = new Map<number, StoredMessage>();
  readonly #timers: Timers;
  readonly #seen = new Map<string, { sequence: number; atMs: number }>();
  #last = 0;
  #bytes = 0;

  constructor(config: StreamConfig, timers: Timers) {
    this.config = config;
    this.#timers = timers;
  }

  /** Sequence of the last message that was appended; 0 before the first. */
  get last(): number {
    return this.#last;
  }

  binds(subject: string): boolean {
    return this.config.subjects.some((pattern) => matchesSubject(pattern, subject));
  }

  append(message: Message, options: PublishOptions): PublishResult {
    const atMs = this.#timers.now();
    const { name, retention } = this.config;
    this.#expire(atMs);
    const seen = this.#seen.get(options.messageId);
    if (seen !== undefined) return { sequence: seen.sequence, duplicate: true };
    if (retention === "workqueue")
      for (const queued of this.#messages.values())
        if (queued.subject === message.subject) return { sequence: queued.sequence, duplicate: true };
    if (retention !== "limits" && this.#isOver(1, message.payload.length))
      throw new FaultError({ code: "limit_exceeded", what: `stream ${name}`, limit: 0, retryAfterMs: 500 });
    this.#last += 1;
    const sequence = this.#last;
    this.#messages.set(sequence, { ...message, sequence, atMs });
    this.#bytes += message.payload.length;
    this.#seen.set(options.messageId, { sequence, atMs });
    this.#dropOldestOf(message.subject);
    while (this.#isOver(0, 0)) this.#dropOldest();
    for (const consumer of this.#consumers.values()) consumer.pump();
    return { sequence, duplicate: false };
  }

  message(sequence: number): StoredMessage | undefined {
    this.#expire(this.#timers.now());
    return this.#messages.get(sequence);
  }

  /** The first message at or after the sequence whose subject matches the pattern. */
  next(subject: string, from: number): StoredMessage | undefined {
    this.#expire(this.#timers.now());
    for (const message of this.#messages.values())
      if (message.sequence >= from && matchesSubject(subject, message.subject)) return message;
    return undefined;
  }

  /** Removes a message; false if it does not exist. */
  remove(sequence: number): boolean {
    this.#expire(this.#timers.now());
    if (!this.#messages.has(sequence)) return false;
    this.#remove(sequence);
    return true;
  }

  state(): StreamState {
    this.#expire(this.#timers.now());
    const [firstSequence = this.#last + 1] = this.#messages.keys();
    return { messages: this.#messages.size, bytes: this.#bytes, firstSequence, lastSequence: this.#last };
  }

  /** A consumer reports that its message has ended. */
  ended(sequence: number): void {
    if (this.config.retention === "workqueue") this.#remove(sequence);
  }

  consumer(options: ConsumeOptions): MemoryConsumer {
    let consumer = this.#consumers.get(options.durable);
    if (consumer === undefined) {
      consumer = new MemoryConsumer(this, this.#timers);
      this.#consumers.set(options.durable, consumer);
    }
    consumer.options = options;
    return consumer;
  }

  #expire(nowMs: number): void {
    const { retention, duplicateWindowMs = STREAM_DEFAULTS.duplicateWindowMs } = this.config;
    for (const [id, { atMs }] of this.#seen) {
      if (nowMs - atMs < duplicateWindowMs) break;
      this.#seen.delete(id);
    }
    const maxAgeMs = this.config.maxAgeMs ?? (retention === "limits" ? STREAM_DEFAULTS.maxAgeMs : Infinity);
    for (const [sequence, { atMs }] of this.#messages) {
      if (nowMs - atMs < maxAgeMs) break;
      this.#remove(sequence);
    }
  }

  #isOver(moreMessages: number, moreBytes: number): boolean {
    const { retention, maxMessages = Infinity } = this.config;
    const maxBytes = this.config.maxBytes ?? (retention === "limits" ? STREAM_DEFAULTS.maxBytes : Infinity);
    return this.#messages.size + moreMessages > maxMessages || this.#bytes + moreBytes > maxBytes;
  }

  #dropOldestOf(subject: string): void {
    const { maxMessagesPerSubject } = this.config;
    if (maxMessagesPerSubject === undefined) return;
    const same = [...this.#messages.values()].filter((message) => message.subject === subject);
    for (const { sequence } of same.slice(0, -maxMessagesPerSubject)) this.#remove(sequence);
  }

  #dropOldest(): void {
    for (const sequence of this.#messages.keys()) {
      this.#remove(sequence);
      return;
    }
  }

  #remove(sequence: number): void {
    this.#bytes -= this.#messages.get(sequence)?.payload.length ?? 0;
    this.#messages.delete(sequence);
  }
}

type Member = {
  /** False at the participant's limit; the consumer resumes when the participant has room. */
  readonly hasRoom: () => boolean;
  readonly take: (delivery: Delivery) => void;
};

/** A durable consumer: remembers its position and the messages in flight, across its participants. */
class MemoryConsumer {
  options: ConsumeOptions | undefined;
  readonly #stream: MemoryStream;
  readonly #timers: Timers;
  #members: Member[] = [];
  /** Last sequence that has been delivered at least once. */
  #cursor = 0;
  /** Deliveries that have not ended, with the time of the next delivery. */
  readonly #pending = new Map<number, { attempt: number; dueMs: number }>();
  #disarm: () => void = () => undefined;

  constructor(stream: MemoryStream, timers: Timers) {
    this.#stream = stream;
    this.#timers = timers;
  }

  /** Adds a participant; returns the function that removes it. */
  join(member: Member): () => void {
    this.#members.push(member);
    this.pump();
    return () => {
      this.#members = this.#members.filter((other) => other !== member);
      this.#arm();
    };
  }

  /** Delivers the messages that are due. */
  pump(): void {
    for (;;) {
      const member = this.#members.find(({ hasRoom }) => hasRoom());
      const next = member === undefined ? undefined : (this.#redelivery() ?? this.#fresh());
      if (member === undefined || next === undefined) break;
      // Selects participants round robin.
      this.#members.push(...this.#members.splice(this.#members.indexOf(member), 1));
      member.take(this.#hand(next.message, next.attempt));
    }
    this.#arm();
  }

  #redelivery(): { message: StoredMessage; attempt: number } | undefined {
    const nowMs = this.#timers.now();
    for (const [sequence, { attempt, dueMs }] of this.#pending) {
      if (dueMs > nowMs) continue;
      const message = this.#stream.message(sequence);
      if (message !== undefined) return { message, attempt: attempt + 1 };
      this.#pending.delete(sequence);
    }
    return undefined;
  }

  #fresh(): { message: StoredMessage; attempt: number } | undefined {
    if (this.options === undefined) return undefined;
    while (this.#cursor < this.#stream.last) {
      this.#cursor += 1;
      const message = this.#stream.message(this.#cursor);
      if (message !== undefined && matchesSubject(this.options.subject, message.subject))
        return { message, attempt: 1 };
    }
    return undefined;
  }

  #hand(message: StoredMessage, attempt: number): Delivery {
    const { sequence, subject, payload, headers } = message;
    this.#pending.set(sequence, { attempt, dueMs: this.#timers.now() + (this.options?.ackWaitMs ?? 0) });
    return makeDelivery({ subject, payload: payload.slice(), headers }, sequence, attempt, {
      ack: () => {
        this.#end(sequence);
        return Promise.resolve();
      },
      working: () => {
        this.#keep(sequence, attempt, this.options?.ackWaitMs ?? 0);
      },
      retry: (delayMs) => {
        this.#keep(sequence, attempt, delayMs);
        this.pump();
      },
      giveUp: () => {
        this.#end(sequence);
      },
    });
  }

  /** Sets the time of the next delivery. Has no effect on a delivery that has ended or was redelivered since. */
  #keep(sequence: number, attempt: number, forMs: number): void {
    if (this.#pending.get(sequence)?.attempt !== attempt) return;
    this.#pending.set(sequence, { attempt, dueMs: this.#timers.now() + forMs });
    this.#arm();
  }

  #end(sequence: number): void {
    this.#pending.delete(sequence);
    this.#stream.ended(sequence);
    this.pump();
  }

  /** Arms one timer for the next redelivery. Arms none if no participant has room, because new room triggers a pump. */
  #arm(): void {
    this.#disarm();
    this.#disarm = () => undefined;
    if (this.#pending.size === 0 || !this.#members.some(({ hasRoom }) => hasRoom())) return;
    const dueMs = Math.min(...[...this.#pending.values()].map((pending) => pending.dueMs));
    this.#disarm = this.#timers.after(Math.max(0, dueMs - this.#timers.now()), () => {
      this.pump();
    });
  }
}
