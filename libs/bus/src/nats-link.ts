import { connect } from "@nats-io/transport-node";
import { PermissionViolationError, type NatsConnection } from "@nats-io/nats-core";
import { FaultError } from "@muster/faults";
import { backoffMs, pause, within } from "@muster/backoff";
import { keepInbox } from "@muster/jetstream";
import { busMetrics, countRefusal } from "./bus-metrics.ts";
import { describeSlowListener, type SlowListener } from "./listening.ts";
import { openCredential, type Credential, type NatsAccess } from "./nats-access.ts";
import { natsError } from "./nats-fault.ts";
import { certificateRefused, certificateTrouble, credentialRefused, isRefusal } from "./refusals.ts";
import { settleRequestsWithoutError } from "./settle-requests.ts";
import { writePerTurn } from "./write-per-turn.ts";

const CONNECT_RETRY = { firstMs: 50, maxMs: 1000 };
const RECONNECT_MS = { least: 50, most: 2000 };
/** A server that does not take our credential will not take it a moment later either. */
export const REFUSED_RETRY = { firstMs: 1000, maxMs: 30_000 };
/** One attempt to find out why a connection does not come back. */
const QUESTION_TIMEOUT_MS = 2000;
/** A server that is silent for this long, twice, is taken for gone. */
const PING_INTERVAL_MS = 15_000;
const MAX_UNANSWERED_PINGS = 2;
/** A stop waits this long for a server that is away: as long as a restart takes. */
const STOP_PATIENCE_MS = 1500;
/** The default of a server, until it has announced its limit. */
const MAX_PAYLOAD_BYTES = 1024 * 1024;

/**
 * The status of a connection: lost; back; a listener here is too slow and loses signals; the server has refused something; we refuse a user above the rate;
 * the server refuses our credential; it is back with an untrusted certificate; it is away while we stop, and is not waited for. The detail names the server,
 * the subject or the user, and what to do.
 */
export type BusStatus =
  | "disconnected"
  | "reconnected"
  | "slow_consumer"
  | "refused"
  | "refusing"
  | "credential_refused"
  | "certificate_refused"
  | "abandoned";

type LinkOptions = NatsAccess & {
  readonly name: string;
  /** Answers arrive below it; default `_INBOX`, which a user of its own may not listen to. */
  readonly inboxPrefix?: string;
  readonly onStatus?: (status: BusStatus, detail: string) => void;
  readonly timeoutMs?: number;
  /** Aborted when the owner stops. */
  readonly signal?: AbortSignal;
};

/**
 * A connection that knows whether it is up. The client library keeps what is written while it is down in a buffer that each attempt to reconnect empties:
 * nothing may be written then, so everything that must not be lost waits for `whenUp` first.
 */
export class NatsLink {
  readonly connection: NatsConnection;
  readonly metrics = busMetrics();
  /** Signals that listeners here were too slow for, by the subject that they listen to. */
  readonly dropped = new Map<string, number>();
  readonly #onStatus: LinkOptions["onStatus"];
  #up = true;
  #losses = 0;
  #leaving = false;
  #downSinceMs = 0;
  readonly #waiting = new Set<(up: boolean) => void>();
  readonly #onReconnect = new Set<() => void>();
  readonly #onForbidden = new Set<(subject: string) => void>();
  readonly #options: LinkOptions;
  /** The credential that the server checks. */
  readonly #credential: Credential;
  /** Attempts in a row at which it did not. */
  #credentialRefusals = 0;
  /** Aborted once a lost connection is back, or the wait for it has ended. */
  #away = new AbortController();

  private constructor(connection: NatsConnection, credential: Credential, options: LinkOptions) {
    this.connection = connection;
    this.#credential = credential;
    this.#options = options;
    this.#onStatus = options.onStatus;
  }

  /**
   * Tries until timeoutMs (default 10 s); then FaultError unavailable. A credential that the server refuses, and a certificate that we do, fail immediately:
   * `isCredentialRefused` is true of the error. Rejects with FaultError invalid_request when the credential cannot be read, and cancelled once the signal is
   * aborted.
   */
  static async open(options: LinkOptions): Promise<NatsLink> {
    const { url, tls, inboxPrefix, timeoutMs = 10_000, signal } = options;
    const credential = openCredential(options);
    const endMs = performance.now() + timeoutMs;
    // Filled in once there is a link, whose age the delay follows.
    const delay = { of: (): number => RECONNECT_MS.least };
    for (let attempt = 1; ; attempt += 1) {
      try {
        const connection = await connect({
          ...accessOptions(options, credential),
          ...(inboxPrefix === undefined ? {} : { inboxPrefix }),
          timeout: Math.max(100, Math.min(5000, endMs - performance.now())),
          maxReconnectAttempts: -1,
          reconnectDelayHandler: () => delay.of(),
          // A credential may be refused while a server starts; a connected service retries.
          ignoreAuthErrorAbort: true,
          pingInterval: PING_INTERVAL_MS,
          maxPingOut: MAX_UNANSWERED_PINGS,
          // Capturing a stack for every request costs more than the request.
          noAsyncTraces: true,
        });
        if (inboxPrefix !== undefined) keepInbox(connection, inboxPrefix);
        settleRequestsWithoutError();
        writePerTurn(connection);
        const link = new NatsLink(connection, credential, options);
        delay.of = () => link.#reconnectDelayMs();
        void link.#follow();
        return link;
      } catch (cause) {
        const waitMs = backoffMs(attempt, CONNECT_RETRY);
        const certificateProblem = certificateTrouble(cause);
        if (isRefusal(cause) || certificateProblem !== undefined) {
          countRefusal(certificateProblem === undefined ? "credential" : "certificate");
          const why =
            certificateProblem === undefined
              ? credentialRefused(credential.name)
              : certificateRefused(certificateProblem, tls);
          throw new FaultError(
            { code: "unavailable", dependency: "nats", retryAfterMs: REFUSED_RETRY.firstMs },
            { cause: new Error(why, { cause }), doing: `connecting to ${addressesOf(url)}: ${why}` },
          );
        }
        if (performance.now() + waitMs >= endMs)
          throw new FaultError(
            { code: "unavailable", dependency: "nats", retryAfterMs: CONNECT_RETRY.maxMs },
            { cause, doing: `connecting to ${addressesOf(url)}` },
          );
        await pause(waitMs, signal);
        if (signal?.aborted === true)
          throw new FaultError({ code: "cancelled", operation: "connecting to NATS" }, { cause });
      }
    }
  }

  get up(): boolean {
    return this.#up && !this.connection.isClosed();
  }

  /** How often the connection was lost. Between two equal numbers nothing that was sent or subscribed to was lost. */
  get losses(): number {
    return this.#losses;
  }

  /** Largest message in bytes, headers included, that the server takes. */
  get maxPayload(): number {
    return this.connection.info?.max_payload ?? MAX_PAYLOAD_BYTES;
  }

  /** True immediately when the connection is up, else when it is back; false when that takes longer than limitMs, or the signal is aborted. */
  async whenUp(limitMs: number, signal?: AbortSignal): Promise<boolean> {
    if (this.up) return true;
    if (this.connection.isClosed()) return false;
    const stop = new AbortController();
    const up = new Promise<boolean>((resolve) => {
      this.#waiting.add(resolve);
      const any = signal === undefined ? stop.signal : AbortSignal.any([stop.signal, signal]);
      void pause(limitMs, any).then(() => {
        this.#waiting.delete(resolve);
        resolve(this.up);
      });
    });
    try {
      return await up;
    } finally {
      stop.abort();
    }
  }

  /**
   * Limits the patience from now on: a connection that is away, now or later, and not back after STOP_PATIENCE_MS is closed, so that every pending call ends.
   * A connection that is up is used as before. The status says how much was left undone.
   */
  leave(): void {
    if (this.#leaving) return;
    this.#leaving = true;
    if (!this.up) void this.#closeIfAway();
  }

  /**
   * Waits for what needs the server, but no longer than limitMs, and not when the connection is closed meanwhile: the client library leaves then what it has
   * begun.
   */
  async within(limitMs: number, work: Promise<unknown>): Promise<void> {
    await within(limitMs, Promise.race([work, this.connection.closed()]));
  }

  async #closeIfAway(): Promise<void> {
    if ((await this.whenUp(STOP_PATIENCE_MS)) || this.connection.isClosed()) return;
    const undone = `${this.#waiting.size} requests, answers and writes that waited for it are left undone`;
    this.#onStatus?.(
      "abandoned",
      `NATS is away: ${undone}; what is held (locks, messages in flight) others get when its time is over`,
    );
    await this.connection.close();
  }

  /** Calls the listener each time the connection is back; returns the function that stops. */
  onReconnect(listener: () => void): () => void {
    this.#onReconnect.add(listener);
    return () => {
      this.#onReconnect.delete(listener);
    };
  }

  /** Calls the listener with the subject of each message that the server forbids. */
  onForbidden(listener: (subject: string) => void): void {
    this.#onForbidden.add(listener);
  }

  /** A round trip to the server: everything written before it has arrived. Does nothing while the connection is down. */
  async flush(): Promise<void> {
    if (!this.up) return;
    try {
      await this.connection.flush();
    } catch (error) {
      // The connection broke: the client library restores it from its memory.
      if (this.connection.isClosed()) throw natsError(error, { operation: "flushing" });
    }
  }

  /** A listener here cannot keep up: counted, and said once each time. */
  slow(listener: SlowListener): void {
    // The first loss is reported immediately, the others once the listener has caught up.
    const fresh = Math.max(1, listener.dropped - 1);
    this.metrics.dropped(listener.subject, fresh);
    this.dropped.set(listener.subject, (this.dropped.get(listener.subject) ?? 0) + fresh);
    this.#onStatus?.("slow_consumer", describeSlowListener(listener));
  }

  /** Requests are refused unread, for a reason that people should know. */
  refusing(detail: string): void {
    this.#onStatus?.("refusing", detail);
  }

  async #follow(): Promise<void> {
    for await (const status of this.connection.status()) {
      if (status.type === "disconnect") {
        if (this.#up) this.#lost();
        this.#losses += 1;
        this.#onStatus?.("disconnected", status.server);
        if (this.#leaving) void this.#closeIfAway();
      } else if (status.type === "reconnect") {
        this.#up = true;
        this.#away.abort();
        this.#credentialRefusals = 0;
        this.#wake(true);
        for (const listener of this.#onReconnect) listener();
        this.#onStatus?.("reconnected", status.server);
      } else if (status.type === "error") {
        this.#refused(status.error);
      }
    }
    this.#up = false;
    this.#away.abort();
    this.#wake(false);
  }

  #lost(): void {
    this.#up = false;
    this.#downSinceMs = performance.now();
    this.#away = new AbortController();
    void this.#checkCertificate(this.#away.signal);
  }

  /**
   * The client library does not report why it cannot reconnect, so an attempt of our own finds out now and then. The library reports refusals by the server.
   */
  async #checkCertificate(back: AbortSignal): Promise<void> {
    for (let attempt = 1; ; attempt += 1) {
      await pause(backoffMs(attempt, REFUSED_RETRY), back);
      if (back.aborted) return;
      if (this.#credentialRefusals > 0) continue;
      const certificateProblem = await this.#askOnce();
      if (certificateProblem === undefined || this.up) continue;
      countRefusal("certificate");
      this.#onStatus?.("certificate_refused", certificateRefused(certificateProblem, this.#options.tls));
    }
  }

  /** Returns the problem with the server's certificate now; undefined where the certificate is not the problem. */
  async #askOnce(): Promise<string | undefined> {
    const limits = { timeout: QUESTION_TIMEOUT_MS, reconnect: false, noAsyncTraces: true };
    try {
      const connection = await connect({ ...accessOptions(this.#options, this.#credential), ...limits });
      await connection.close();
      return undefined;
    } catch (error) {
      return certificateTrouble(error);
    }
  }

  #refused(error: Error): void {
    if (isRefusal(error)) {
      this.#credentialRefusals += 1;
      countRefusal("credential");
      this.#onStatus?.("credential_refused", credentialRefused(this.#credential.name));
      return;
    }
    if (error instanceof PermissionViolationError) {
      countRefusal(error.operation);
      if (error.operation === "publish") for (const listener of this.#onForbidden) listener(error.subject);
      this.#onStatus?.(
        "refused",
        `${error.message}: ${this.#credential.name} lacks this right (deploy/nats/users.conf)`,
      );
      return;
    }
    this.#onStatus?.("refused", error.message);
  }

  #wake(up: boolean): void {
    for (const resolve of this.#waiting) resolve(up);
    this.#waiting.clear();
  }

  /** Grows with the time since the connection was lost, and differs between the many that lost it together. */
  #reconnectDelayMs(): number {
    if (this.#credentialRefusals > 0) return backoffMs(this.#credentialRefusals, REFUSED_RETRY);
    const downMs = this.#up ? 0 : performance.now() - this.#downSinceMs;
    const full = Math.min(RECONNECT_MS.most, Math.max(RECONNECT_MS.least, downMs / 4));
    return Math.round(full * (0.5 + Math.random() / 2));
  }
}

/** The addresses of the servers, and the credentials for them. */
function accessOptions({ url, name, token, tls }: LinkOptions, { authenticator }: Credential) {
  return {
    servers: url.split(",").map((server) => server.trim()),
    name,
    ...(token === undefined ? {} : { token }),
    ...(authenticator === undefined ? {} : { authenticator }),
    ...(tls === undefined ? {} : { tls: tlsOptions(tls) }),
  };
}

function tlsOptions({ caFile, client }: NonNullable<NatsAccess["tls"]>) {
  return { ...(caFile !== undefined && { caFile }), ...client };
}

/** The addresses of the servers: no more, because a URL may hold a password, and thrown errors are logged. */
export function addressesOf(url: string): string {
  const addresses = url.split(",").map((server) => {
    const full = server.includes("://") ? server.trim() : `nats://${server.trim()}`;
    const read = URL.parse(full);
    return read === null ? "an address that is no URL" : `${read.protocol}//${read.host}`;
  });
  return addresses.join(", ");
}
