/**
 * The port that everything on the bus goes through. Two implementations hold the same promises and pass the same suite: `connectNats` and `memoryBus`.
 * Application code uses the typed functions (`client`, `serve`, `publishEvent`, `consumeEvents`) and never spells a header.
 */
export type Bus = AsyncDisposable & {
  /** Bytes of one message, headers included: `max_payload` of the server. */
  maxPayloadBytes(): number;
  /**
   * Sends one request to one replica and waits for the answer.
   * Rejects with FaultError: unavailable (no responder), deadline_exceeded, cancelled, limit_exceeded (payload too large).
   */
  request(subject: string, payload: Uint8Array, options: RequestOptions): Promise<Reply>;
  /** Answers requests until disposed; disposing finishes the requests in flight first. Replicas of one service share a queue group. */
  respond(service: ServiceIdentity, endpoints: readonly Endpoint[]): Promise<AsyncDisposable>;
  /** Sends to the present listeners; without any it is lost silently. */
  signal(subject: string, payload: Uint8Array, headers?: Headers): void;
  /**
   * Listens to signals until disposed. Every listener gets every signal, in order; one whose handler returns a promise gets the next when it has settled, and
   * loses those beyond its buffer, which the connection's status and a metric report.
   */
  listen(subject: string, handler: (message: Message) => unknown, options?: ListenOptions): Promise<AsyncDisposable>;
  /**
   * Appends to the stream that binds the subject; resolved once it is on disk. A repeated message id within the stream's window is dropped, which the result
   * states.
   */
  publish(subject: string, payload: Uint8Array, options: PublishOptions): Promise<Published>;
  /** Ensures that a stream exists with this configuration. Idempotent; safe from concurrent processes. */
  ensureStream(stream: StreamConfig): Promise<void>;
  /**
   * The first message at or after a sequence whose subject matches the pattern; undefined without one. Rejects with not_found for a stream that does not
   * exist.
   */
  readMessage(stream: string, subject: string, from: number): Promise<StoredMessage | undefined>;
  /** Takes one message out of a stream; false when it is not there. */
  removeMessage(stream: string, sequence: number): Promise<boolean>;
  /** The state of a stream; undefined when it does not exist. */
  streamState(stream: string): Promise<StreamState | undefined>;
  /** Hands each message of a durable consumer to the handler until disposed; disposing finishes the messages in flight first. */
  consume(options: ConsumeOptions, handler: (delivery: Delivery) => Promise<void>): Promise<AsyncDisposable>;
};

export type Headers = ReadonlyMap<string, string>;

export type Message = { readonly subject: string; readonly payload: Uint8Array; readonly headers: Headers };

export type RequestOptions = {
  readonly timeoutMs: number;
  readonly headers?: Headers;
  readonly signal?: AbortSignal;
  readonly repeat?: RequestRepeat;
};

/**
 * How a request is repeated while it has no answer. A repetition goes to a replica that answers a ping, because a frozen one still receives requests; and to
 * any replica once the connection was lost and is back. The first answer counts. A replica that still works on the request ignores its repetition, so that
 * each has it in flight once at most.
 */
export type RequestRepeat = {
  /** As `respond` names it. */
  readonly service: string;
  /** How long attempt 1, 2, ... may have no answer before the next one. */
  readonly silenceMs: (attempt: number) => number;
  readonly headers: (leftMs: number) => Headers;
  /** In place of that of the first attempt. */
  readonly payload?: Uint8Array;
};

export type Reply = { readonly payload: Uint8Array; readonly headers: Headers };

export type ServiceIdentity = {
  /** As `nats micro ls` shows it: `reservation`. */
  readonly name: string;
  readonly version: string;
  readonly description: string;
  /** Shown by `nats micro info`. */
  readonly metadata?: Readonly<Record<string, string>>;
};

export type Endpoint = {
  readonly name: string;
  readonly subject: string;
  /** Limit of requests in flight; one more is refused with limit_exceeded and a retry hint. */
  readonly concurrency: number;
  /** The rate of a user does not limit services here, only `concurrency` does. Default false. */
  readonly hot?: boolean;
  readonly handler: (message: Message) => Promise<Reply>;
};

export type PublishOptions = { readonly messageId: string; readonly headers?: Headers };

export type Published = { readonly sequence: number; readonly duplicate: boolean };

export type ListenOptions = {
  /** Signals that may wait for the handler; more are dropped. Default 1000. */
  readonly maxPending?: number;
};

export type StreamConfig = {
  readonly name: string;
  readonly subjects: readonly string[];
  /** limits: kept until a limit is reached. workqueue: kept until acknowledged, one message a subject at most. */
  readonly retention: "limits" | "workqueue";
  readonly maxBytes?: number;
  readonly maxAgeMs?: number;
  readonly maxMessages?: number;
  /** With retention `limits`: a further message replaces the oldest one of its subject. Absent: no limit. */
  readonly maxMessagesPerSubject?: number;
  /** Window in which a repeated message id is recognised. */
  readonly duplicateWindowMs?: number;
};

/** A message as it lies in a stream. */
export type StoredMessage = Message & {
  readonly sequence: number;
  /** Milliseconds since 1970 at which the stream took it. */
  readonly atMs: number;
};

export type StreamState = {
  readonly messages: number;
  readonly bytes: number;
  /** The sequence of the oldest stored message; above `lastSequence` in an empty stream. */
  readonly firstSequence: number;
  /** The sequence of the newest message that was ever stored. */
  readonly lastSequence: number;
};

export type ConsumeOptions = {
  readonly stream: string;
  /** Name of the durable consumer; replicas that use one name share its messages. */
  readonly durable: string;
  readonly subject: string;
  /** Limit of messages in flight in handlers of this consumption; each replica has its own. A message that waits for its next attempt is not in flight. */
  readonly maxInFlight: number;
  /** A message that is neither acknowledged nor kept alive for this long goes to another replica. */
  readonly ackWaitMs: number;
  /** Aborted: nothing more is taken, as if disposed. */
  readonly signal?: AbortSignal;
  /** Called when a handler threw; the message comes again after the delay. */
  readonly onRetry?: (failure: FailedDelivery) => void;
};

export type FailedDelivery = {
  readonly subject: string;
  readonly sequence: number;
  readonly attempt: number;
  readonly delayMs: number;
  readonly error: unknown;
};

/** One message in flight. Exactly one of ack, retry and giveUp ends it; a handler that throws is retried with a growing delay. */
export type Delivery = Message & {
  readonly sequence: number;
  /** 1 the first time. */
  readonly attempt: number;
  /** Acknowledges it. Resolves when the server has the acknowledgement. */
  ack(): Promise<void>;
  /** Still working on it: restarts ackWaitMs. */
  working(): void;
  /** Deliver again after the delay. */
  retry(delayMs: number): void;
  /** Ends it for good. The caller has dead-lettered it. */
  giveUp(reason: string): void;
};
