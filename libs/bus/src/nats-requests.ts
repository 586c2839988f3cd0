import type { Msg } from "@nats-io/nats-core";
import type { ServiceIdentity } from "@nats-io/services";
import { FaultError } from "@muster/faults";
import { pause } from "@muster/backoff";
import { makeInbox } from "@muster/jetstream";
import { subjects } from "@muster/proto";
import type { Reply, RequestOptions } from "./bus.ts";
import { checkSize } from "./message-size.ts";
import { NATS_AWAY, toNatsError } from "./nats-fault.ts";
import { toHeaders, toNatsHeaders } from "./nats-headers.ts";
import type { NatsLink } from "./nats-link.ts";

type Waiting = {
  readonly resolve: (reply: Reply) => void;
  readonly reject: (error: FaultError) => void;
  readonly operation: string;
  /** Sends the request again: to any replica, or to the replica with this id. */
  readonly sendAgain: (replica?: string) => void;
  readonly stop: () => void;
  /** Replicas that answered the ping and received the request, and whether a search is in flight. */
  readonly found: Set<string>;
  pinged: boolean;
};

const NO_RESPONDERS = 503;
/** Prefix of a request token in the reply subject of the ping that follows the silence of that request. */
const PING = "p";
/** The form of the client library's names of replicas. */
const REPLICA = /^[A-Z0-9]{1,64}$/;
/** Time after a reconnect in which a responder with the request in flight usually answers. */
const ANSWERED_AFTER_LOSS_MS = 500;

/** Requests that share one inbox. A request of the client library cannot be cancelled, and creates an Error for every answer, a quarter of its cost. */
export class NatsRequests {
  readonly #link: NatsLink;
  readonly #inbox: string;
  readonly #waiting = new Map<string, Waiting>();
  #last = 0;

  constructor(link: NatsLink) {
    this.#link = link;
    const { connection } = link;
    this.#inbox = makeInbox(connection);
    link.onForbidden((subject) => this.#forbidden(subject));
    link.onReconnect(() => void this.#sendAgain([...this.#waiting.keys()]));
    connection.subscribe(`${this.#inbox}.*`, {
      callback: (error, message) => {
        if (error === null) this.#answered(message);
        // The server refuses our subscription to inboxes, so no answer can arrive.
        else this.#rejectAll((operation) => toNatsError(error, { operation }));
      },
    });
    void connection.closed().then(() => {
      this.#rejectAll((operation) => new FaultError({ code: "cancelled", operation }));
    });
  }

  /** Waits until the connection is up before it sends, because messages sent earlier are lost. */
  request(subject: string, payload: Uint8Array, options: RequestOptions): Promise<Reply> {
    const operation = parseOperation(subject);
    return this.#link.up && options.signal?.aborted !== true
      ? this.#send(subject, payload, options, operation, options.timeoutMs)
      : this.#sendWhenUp(subject, payload, options, operation);
  }

  async #sendWhenUp(subject: string, payload: Uint8Array, options: RequestOptions, operation: string): Promise<Reply> {
    const { signal } = options;
    const startMs = performance.now();
    const up = await this.#link.whenUp(options.timeoutMs, signal);
    const timeoutMs = options.timeoutMs - (performance.now() - startMs);
    if (signal?.aborted === true || this.#link.connection.isClosed())
      throw new FaultError({ code: "cancelled", operation });
    if (!up || timeoutMs <= 0) throw new FaultError(NATS_AWAY);
    return this.#send(subject, payload, options, operation, timeoutMs);
  }

  #send(
    subject: string,
    payload: Uint8Array,
    options: RequestOptions,
    operation: string,
    timeoutMs: number,
  ): Promise<Reply> {
    const { headers, signal, repeat } = options;
    this.#last += 1;
    const token = String(this.#last);
    const { resolve, reject, promise } = Promise.withResolvers<Reply>();
    const endMs = performance.now() + timeoutMs;
    const late = (): void => {
      this.#fail(token, new FaultError({ code: "deadline_exceeded", operation, timeoutMs: options.timeoutMs }));
    };
    const sendAgain = (replica?: string): void => {
      const leftMs = endMs - performance.now();
      if (repeat === undefined || leftMs <= 0 || !this.#link.up) return;
      const to = replica === undefined ? subject : subjects.requestOfReplica(subject, replica);
      this.#publish(token, operation, to, repeat.payload ?? payload, repeat.headers(leftMs));
    };
    let attempt = 0;
    const listen = (): NodeJS.Timeout => {
      attempt += 1;
      const silenceMs = repeat?.silenceMs(attempt) ?? Infinity;
      // A frozen process may resume after the deadline.
      const leftMs = Math.max(0, endMs - performance.now());
      return leftMs <= silenceMs ? setTimeout(late, leftMs) : setTimeout(silent, silenceMs);
    };
    const silent = (): void => {
      timer = listen();
      if (repeat !== undefined) this.#findReplica(token, repeat.service);
    };
    let timer = listen();
    const abort = (): void => {
      this.#fail(token, new FaultError({ code: "cancelled", operation }));
    };
    signal?.addEventListener("abort", abort, { once: true });
    const stop = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", abort);
    };
    this.#waiting.set(token, { resolve, reject, operation, sendAgain, stop, found: new Set(), pinged: false });
    this.#publish(token, operation, subject, payload, headers);
    return promise;
  }

  /** Pings the replicas. If the last ping found no new replica, sends the request to any replica, because this user may lack the right to ping. */
  #findReplica(token: string, service: string): void {
    const waiting = this.#waiting.get(token);
    if (waiting === undefined || !this.#link.up) return;
    if (waiting.pinged) waiting.sendAgain();
    waiting.pinged = true;
    this.#link.connection.publish(subjects.ping(service), "", { reply: `${this.#inbox}.${PING}${token}` });
  }

  /** Sends the request to the first replica that answers the ping and has not received the request after an earlier ping. */
  #foundReplica(token: string, pong: Msg): void {
    const waiting = this.#waiting.get(token);
    if (waiting?.pinged !== true) return;
    const replica = readReplica(pong);
    if (replica !== undefined && waiting.found.has(replica)) return;
    if (replica !== undefined) waiting.found.add(replica);
    waiting.pinged = false;
    waiting.sendAgain(replica);
  }

  /** Never throws: an error becomes the answer. */
  #publish(
    token: string,
    operation: string,
    subject: string,
    payload: Uint8Array,
    headers: RequestOptions["headers"],
  ): void {
    const reply = `${this.#inbox}.${token}`;
    try {
      checkSize(subject, payload, headers, this.#link.maxPayload);
      const options = headers === undefined ? { reply } : { reply, headers: toNatsHeaders(headers) };
      this.#link.connection.publish(subject, payload, options);
    } catch (error) {
      this.#fail(token, toNatsError(error, { operation }));
    }
  }

  /** Requests in flight may be lost with the connection, and otherwise only their time limit would show that. */
  async #sendAgain(tokens: readonly string[]): Promise<void> {
    await pause(ANSWERED_AFTER_LOSS_MS);
    for (const token of tokens) this.#waiting.get(token)?.sendAgain();
  }

  #answered(message: Msg): void {
    const token = message.subject.slice(this.#inbox.length + 1);
    if (token.startsWith(PING)) {
      this.#foundReplica(token.slice(PING.length), message);
      return;
    }
    const waiting = this.#waiting.get(token);
    // Ignores a second answer, or one that arrives after the deadline.
    if (waiting === undefined) return;
    const { data: payload, headers } = message;
    if (payload.length === 0 && headers?.code === NO_RESPONDERS) {
      this.#fail(token, new FaultError(NATS_AWAY, { doing: `${waiting.operation}: no responder` }));
      return;
    }
    this.#waiting.delete(token);
    waiting.stop();
    waiting.resolve({ payload, headers: toHeaders(headers) });
  }

  #fail(token: string, error: FaultError): void {
    const waiting = this.#waiting.get(token);
    this.#waiting.delete(token);
    waiting?.stop();
    waiting?.reject(error);
  }

  /** The server names only the subject of a refused message, so it refused every other message to that subject too. */
  #forbidden(subject: string): void {
    const operation = parseOperation(subject);
    const fault = new FaultError(NATS_AWAY, { doing: `${operation}: the server does not permit it to this user` });
    for (const [token, waiting] of this.#waiting) if (waiting.operation === operation) this.#fail(token, fault);
  }

  #rejectAll(errorOf: (operation: string) => FaultError): void {
    for (const [token, { operation }] of this.#waiting) this.#fail(token, errorOf(operation));
  }
}

/** Returns the replica that answered the ping; undefined if the server reports that no replica exists, and for other messages. */
function readReplica(pong: Msg): string | undefined {
  try {
    // The NATS services protocol (ADR-32) fixes the answers of services.
    const { id } = pong.json<ServiceIdentity>();
    return REPLICA.test(id) ? id : undefined;
  } catch {
    return undefined;
  }
}

function parseOperation(subject: string): string {
  return `request to ${subject}`;
}
