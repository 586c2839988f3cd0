import { connect } from "@nats-io/transport-node";
import { PermissionViolationError, type NatsConnection } from "@nats-io/nats-core";
import { FaultError } from "@muster/faults";
import { computeBackoffMs, pause, within } from "@muster/backoff";
import { rememberInbox } from "@muster/jetstream";
import { makeBusMetrics, countRefusal } from "./bus-metrics.ts";
import { describeSlowListener, type SlowListener } from "./open-listener.ts";
import { openCredential, type Credential, type NatsAccess } from "./nats-access.ts";
import { toNatsError } from "./nats-fault.ts";
import { buildCertificateFault, findCertificateTrouble, buildCredentialFault, isRefusal } from "./refusals.ts";
import { settleRequestsWithoutError } from "./settle-requests.ts";
import { writePerTurn } from "./write-per-turn.ts";

const CONNECT_RETRY = { firstMs: 50, maxMs: 1000 };
const RECONNECT_MS = { least: 50, most: 2000 };
/** Back-off after the server refused the credential; it is slow, because an immediate retry would fail too. */
export const REFUSED_RETRY = { firstMs: 1000, maxMs: 30_000 };
/** Time limit of one attempt to find the reason why reconnecting fails. */
const QUESTION_TIMEOUT_MS = 2000;
/** Interval of pings; a server that misses two counts as lost. */
const PING_INTERVAL_MS = 15_000;
const MAX_UNANSWERED_PINGS = 2;
/** Time that a stopping service waits for an unreachable server: as long as a restart takes. */
const STOP_PATIENCE_MS = 1500;
/** The default `max_payload`, until the server has announced its limit. */
const MAX_PAYLOAD_BYTES = 1024 * 1024;

/**
 * Status of a connection. `refused`: by the server. `refusing`: a user exceeds the rate here. `abandoned`: the service stops while the server is unreachable.
 * The detail names the server, the subject or the user, and the remedy.
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
  /** Prefix of reply inboxes; default `_INBOX`, on which restricted users may not listen. */
  readonly inboxPrefix?: string;
  readonly onStatus?: (status: BusStatus, detail: string) => void;
  readonly timeoutMs?: number;
  /** Aborted when the owner stops. */
  readonly signal?: AbortSignal;
};

/**
 * A connection that knows whether it is up. While it is down, the client library buffers writes and clears the buffer at each reconnect attempt. So everything
 * that must not be lost awaits `whenUp` before it is written.
 */
export class NatsLink {
  readonly connection: NatsConnection;
  readonly metrics = makeBusMetrics();
  /** Signals that slow listeners of this process lost, by subject pattern. */
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
  /** Consecutive attempts at which the server refused the credential. */
  #credentialRefusals = 0;
  /** Aborted once the lost connection is restored, or the wait for it has ended. */
  #away = new AbortController();

  private constructor(connection: NatsConnection, credential: Credential, options: LinkOptions) {
    this.connection = connection;
    this.#credential = credential;
    this.#options = options;
    this.#onStatus = options.onStatus;
  }

  /**
   * Tries until timeoutMs (default 10 s), then rejects with FaultError unavailable. Fails immediately if the server refuses the credential or its certificate
   * is untrusted; `isCredentialRefused` is true of that error. Rejects with FaultError invalid_request if the credential cannot be read, and cancelled once the
   * signal is aborted.
   */
  static async open(options: LinkOptions): Promise<NatsLink> {
    const { url, tls, inboxPrefix, timeoutMs = 10_000, signal } = options;
    const credential = openCredential(options);
    const endMs = performance.now() + timeoutMs;
    // The link sets this function after it is created, because the delay depends on its age.
    const delay = { of: (): number => RECONNECT_MS.least };
    for (let attempt = 1; ; attempt += 1) {
      try {
        const connection = await connect({
          ...accessOptions(options, credential),
          ...(inboxPrefix === undefined ? {} : { inboxPrefix }),
          timeout: Math.max(100, Math.min(5000, endMs - performance.now())),
          maxReconnectAttempts: -1,
          reconnectDelayHandler: () => delay.of(),
          // The server may refuse credentials while it starts, so a connected service retries.
          ignoreAuthErrorAbort: true,
          pingInterval: PING_INTERVAL_MS,
          maxPingOut: MAX_UNANSWERED_PINGS,
          // Capturing a stack for every request costs more than the request.
          noAsyncTraces: true,
        });
        if (inboxPrefix !== undefined) rememberInbox(connection, inboxPrefix);
        settleRequestsWithoutError();
        writePerTurn(connection);
        const link = new NatsLink(connection, credential, options);
        delay.of = () => link.#reconnectDelayMs();
        void link.#follow();
        return link;
      } catch (cause) {
        const waitMs = computeBackoffMs(attempt, CONNECT_RETRY);
        const certificateProblem = findCertificateTrouble(cause);
        if (isRefusal(cause) || certificateProblem !== undefined) {
          countRefusal(certificateProblem === undefined ? "credential" : "certificate");
          const why =
            certificateProblem === undefined
              ? buildCredentialFault(credential.name)
              : buildCertificateFault(certificateProblem, tls);
          throw new FaultError(
            { code: "unavailable", dependency: "nats", retryAfterMs: REFUSED_RETRY.firstMs },
            { cause: new Error(why, { cause }), doing: `connecting to ${listAddresses(url)}: ${why}` },
          );
        }
        if (performance.now() + waitMs >= endMs)
          throw new FaultError(
            { code: "unavailable", dependency: "nats", retryAfterMs: CONNECT_RETRY.maxMs },
            { cause, doing: `connecting to ${listAddresses(url)}` },
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

  /** Number of lost connections. While it is unchanged, no sent message and no subscription was lost. */
  get losses(): number {
    return this.#losses;
  }

  /** `max_payload` of the server: the largest message in bytes, headers included. */
  get maxPayload(): number {
    return this.connection.info?.max_payload ?? MAX_PAYLOAD_BYTES;
  }

  /** Resolves true immediately if the connection is up, or once it is restored; false after limitMs, or once the signal is aborted. */
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
   * Limits the wait for an unreachable server from now on: if the connection is not restored within STOP_PATIENCE_MS, closes it, so that every pending call
   * ends. The status reports how much work was abandoned.
   */
  leave(): void {
    if (this.#leaving) return;
    this.#leaving = true;
    if (!this.up) void this.#closeIfAway();
  }

  /**
   * Waits for work that needs the server, at most limitMs. Stops waiting when the connection is closed, because the client library then never settles the work.
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

  /** Calls the listener after each reconnect; returns the function that stops. */
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

  /** Completes a round trip to the server: all earlier writes have arrived. Does nothing while the connection is down. */
  async flush(): Promise<void> {
    if (!this.up) return;
    try {
      await this.connection.flush();
    } catch (error) {
      // The connection broke: the client library restores it from its memory.
      if (this.connection.isClosed()) throw toNatsError(error, { operation: "flushing" });
    }
  }

  /** Counts the signals that a slow listener lost, and reports each episode once. */
  slow(listener: SlowListener): void {
    // The first loss is reported immediately, the others once the listener has caught up.
    const fresh = Math.max(1, listener.dropped - 1);
    this.metrics.dropped(listener.subject, fresh);
    this.dropped.set(listener.subject, (this.dropped.get(listener.subject) ?? 0) + fresh);
    this.#onStatus?.("slow_consumer", describeSlowListener(listener));
  }

  /** Reports why requests are refused before they are decoded. */
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
   * Connects separately to find out whether the certificate is untrusted, because the client library does not report why reconnecting fails. It reports
   * refusals by the server.
   */
  async #checkCertificate(back: AbortSignal): Promise<void> {
    for (let attempt = 1; ; attempt += 1) {
      await pause(computeBackoffMs(attempt, REFUSED_RETRY), back);
      if (back.aborted) return;
      if (this.#credentialRefusals > 0) continue;
      const certificateProblem = await this.#askOnce();
      if (certificateProblem === undefined || this.up) continue;
      countRefusal("certificate");
      this.#onStatus?.("certificate_refused", buildCertificateFault(certificateProblem, this.#options.tls));
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
      return findCertificateTrouble(error);
    }
  }

  #refused(error: Error): void {
    if (isRefusal(error)) {
      this.#credentialRefusals += 1;
      countRefusal("credential");
      this.#onStatus?.("credential_refused", buildCredentialFault(this.#credential.name));
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

  /** Grows with the time since the loss, and differs between clients that lost the connection together. */
  #reconnectDelayMs(): number {
    if (this.#credentialRefusals > 0) return computeBackoffMs(this.#credentialRefusals, REFUSED_RETRY);
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

/** Returns only the addresses of the servers, because a URL may contain a password, and thrown errors are logged. */
export function listAddresses(url: string): string {
  const addresses = url.split(",").map((server) => {
    const full = server.includes("://") ? server.trim() : `nats://${server.trim()}`;
    const read = URL.parse(full);
    return read === null ? "an address that is no URL" : `${read.protocol}//${read.host}`;
  });
  return addresses.join(", ");
}
