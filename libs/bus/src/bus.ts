/**
 * The port for all traffic on the bus. `connectNats` and `makeMemoryBus` implement it and pass the same test suite. Application code uses the typed functions
 * (`makeClient`, `serveMethods`, `publishEvent`, `consumeEvents`) and never builds headers.
 */
export type Bus = AsyncDisposable & {
  /** Maximum bytes of one message, headers included: `max_payload` of the server. */
  maxPayloadBytes(): number;
  /**
   * Sends one request to one replica and waits for the answer.
   * Rejects with FaultError: unavailable (no responder), deadline_exceeded, cancelled, limit_exceeded (payload too large).
   */
  request(subject: string, payload: Uint8Array, options: RequestOptions): Promise<Reply>;
  /** Answers requests until disposed; disposing finishes the requests in flight first. Replicas of one service share a queue group. */
  respond(service: ServiceIdentity, endpoints: readonly Endpoint[]): Promise<AsyncDisposable>;
  /** Sends to the current listeners; without one, the message is lost silently. */
  signal(subject: string, payload: Uint8Array, headers?: Headers): void;
  /**
   * Listens to signals until disposed. Every listener receives every signal, in order. A handler that returns a promise receives the next signal once the
   * promise has settled. Signals beyond the buffer are dropped and reported by the status of the connection and a metric.
   */
  listen(subject: string, handler: (message: Message) => unknown, options?: ListenOptions): Promise<AsyncDisposable>;
  /**
   * Appends to the stream that binds the subject; resolves once the message is on disk. Drops a repeated message id within the window of the stream, and
   * reports that in the result.
   */
  publish(subject: string, payload: Uint8Array, options: PublishOptions): Promise<PublishResult>;
  /** Ensures that a stream exists with this configuration. Idempotent; safe from concurrent processes. */
  ensureStream(stream: StreamConfig): Promise<void>;
  /**
   * The first message at or after a sequence whose subject matches the pattern; undefined if no message matches. Rejects with not_found if the stream does not
   * exist.
   */
  readMessage(stream: string, subject: string, from: number): Promise<StoredMessage | undefined>;
  /** Removes one message from a stream; false if the message does not exist. */
  removeMessage(stream: string, sequence: number): Promise<boolean>;
  /** The state of a stream; undefined when it does not exist. */
  streamState(stream: string): Promise<StreamState | undefined>;
  /** Passes each message of a durable consumer to the handler until disposed; disposing finishes the messages in flight first. */
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
 * How a request without an answer is repeated. The repetition goes to a replica that answers a ping, because a frozen replica still receives requests. After a
 * reconnect it goes to any replica. The first answer counts. A replica that still works on the request ignores its repetition.
 */
export type RequestRepeat = {
  /** Name of the service, as passed to `respond`. */
  readonly service: string;
  /** Milliseconds without an answer to attempt 1, 2, ... after which the next attempt starts. */
  readonly silenceMs: (attempt: number) => number;
  readonly headers: (leftMs: number) => Headers;
  /** Payload of the repetitions; default: the payload of the first attempt. */
  readonly payload?: Uint8Array;
};

export type Reply = { readonly payload: Uint8Array; readonly headers: Headers };

export type ServiceIdentity = {
  /** Name in `nats micro ls`: `reservation`. */
  readonly name: string;
  readonly version: string;
  readonly description: string;
  /** Metadata in the output of `nats micro info`. */
  readonly metadata?: Readonly<Record<string, string>>;
};

export type Endpoint = {
  readonly name: string;
  readonly subject: string;
  /** Limit of requests in flight; further requests are refused with limit_exceeded and a retry hint. */
  readonly concurrency: number;
  /** Exempts services from the rate of a user; only `concurrency` limits them. Default false. */
  readonly hot?: boolean;
  readonly handler: (message: Message) => Promise<Reply>;
};

export type PublishOptions = { readonly messageId: string; readonly headers?: Headers };

export type PublishResult = { readonly sequence: number; readonly duplicate: boolean };

export type ListenOptions = {
  /** Maximum signals that wait for the handler; more are dropped. Default 1000. */
  readonly maxPending?: number;
};

export type StreamConfig = {
  readonly name: string;
  readonly subjects: readonly string[];
  /** limits: a message is kept until a limit is reached. workqueue: until it is acknowledged, with at most one message per subject. */
  readonly retention: "limits" | "workqueue";
  readonly maxBytes?: number;
  readonly maxAgeMs?: number;
  readonly maxMessages?: number;
  /** With retention `limits`, a new message beyond this number replaces the oldest message of its subject. Default: no limit. */
  readonly maxMessagesPerSubject?: number;
  /** Window in which a repeated message id is recognised. */
  readonly duplicateWindowMs?: number;
};

/** A stored message of a stream. */
export type StoredMessage = Message & {
  readonly sequence: number;
  /** Unix milliseconds at which the stream stored it. */
  readonly atMs: number;
};

export type StreamState = {
  readonly messages: number;
  readonly bytes: number;
  /** The sequence of the oldest stored message; above `lastSequence` in an empty stream. */
  readonly firstSequence: number;
  /** The sequence of the newest message ever stored, even if it was removed. */
  readonly lastSequence: number;
};

export type ConsumeOptions = {
  readonly stream: string;
  /** Name of the durable consumer. Replicas that use the same name share its messages. */
  readonly durable: string;
  readonly subject: string;
  /** Maximum messages in flight in the handlers of this replica. A message that waits for its next attempt is not in flight. */
  readonly maxInFlight: number;
  /** Milliseconds without acknowledgement or `working` after which the server delivers the message to another replica. */
  readonly ackWaitMs: number;
  /** Once aborted, no further message is delivered, as after disposal. */
  readonly signal?: AbortSignal;
  /** Called when a handler threw; the message is redelivered after the delay. */
  readonly onRetry?: (failure: FailedDelivery) => void;
};

export type FailedDelivery = {
  readonly subject: string;
  readonly sequence: number;
  readonly attempt: number;
  readonly delayMs: number;
  readonly error: unknown;
};

/** One message in flight. Exactly one of ack, retry and giveUp ends it. If the handler throws, the message is redelivered with a growing delay. */
export type Delivery = Message & {
  readonly sequence: number;
  /** Number of the delivery, from 1. */
  readonly attempt: number;
  /** Acknowledges the message. Resolves once the server has confirmed the acknowledgement. */
  ack(): Promise<void>;
  /** Restarts ackWaitMs while the handler still works on the message. */
  working(): void;
  /** Requests redelivery after the delay. */
  retry(delayMs: number): void;
  /** Ends the message without redelivery. The caller has dead-lettered it. */
  giveUp(reason: string): void;
};
