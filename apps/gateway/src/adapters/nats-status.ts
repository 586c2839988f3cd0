import type { BusStatus } from "@muster/bus";
import { FaultError, throwFault, type Fault } from "@muster/faults";
import type { ReadyCheck } from "@muster/service";
import type { Call } from "../api/answer-request.ts";
import type { CallBytes } from "../api/shared-reads.ts";

/** Requests wait this long for a lost connection, because the change to another server of NATS is shorter. */
const GRACE_MS = 2000;

const AWAY_TEXT = "NATS is away";
const AWAY: Fault = { code: "unavailable", dependency: "NATS", retryAfterMs: GRACE_MS };

export type NatsStatus = {
  /** The trouble with NATS, for people; undefined while it is connected. */
  readonly trouble: string | undefined;
  /** Aborted when the connection is lost. A new signal replaces it when the connection is back. */
  readonly lost: AbortSignal;
  /** Aborted when the connection has been lost for GRACE_MS. A new signal replaces it when the connection is back. */
  readonly away: AbortSignal;
};

export type FollowedNats = NatsStatus & {
  /** Records a status of the connection; `connected` is the first one that is up. */
  readonly record: (status: BusStatus | "connected", detail: string) => void;
  /** The check of readiness. NATS only causes a warning, because pages and their sessions need no NATS, and users read there that it is away. */
  readonly check: ReadyCheck;
};

/** Follows the status of a connection, which is away until it is connected. */
export function followNats(graceMs = GRACE_MS): FollowedNats {
  let trouble: string | undefined = AWAY_TEXT;
  let lost = new AbortController();
  let away = new AbortController();
  let grace: NodeJS.Timeout | undefined;
  for (const each of [lost, away]) each.abort();
  return {
    get trouble() {
      return trouble;
    },
    get lost() {
      return lost.signal;
    },
    get away() {
      return away.signal;
    },
    check: () => (trouble === undefined ? undefined : { warning: trouble }),
    record: (status, detail) => {
      if (status === "connected" || status === "reconnected") {
        clearTimeout(grace);
        trouble = grace = undefined;
        if (lost.signal.aborted) lost = new AbortController();
        if (away.signal.aborted) away = new AbortController();
      } else if (status === "disconnected") {
        trouble = AWAY_TEXT;
        grace ??= setTimeout(() => away.abort(), graceMs).unref();
        lost.abort();
      } else if (status === "credential_refused" || status === "certificate_refused") trouble = detail;
    },
  };
}

/** Throws FaultError unavailable while NATS is away. */
export function requireNats({ away }: Pick<NatsStatus, "away">): void {
  if (away.aborted) refuseAway();
}

export function refuseAway(): never {
  return throwFault(AWAY);
}

/** Calls for requests: reads end once NATS is away. A change that was sent waits for its reply, which shows its outcome. */
export function callsWhileConnected(call: Call, nats: NatsStatus): Call {
  return (route, request, signal) => {
    const ask = (): ReturnType<Call> => call(route, request, signal);
    return route.change === undefined ? unlessAborted(nats.away, ask) : ask();
  };
}

/** As `callsWhileConnected`, for reads whose replies stay encoded. */
export function byteCallsWhileConnected(call: CallBytes, nats: NatsStatus): CallBytes {
  return (route, request) => unlessAborted(nats.away, () => call(route, request));
}

/** Calls for lists that are followed: they end when the connection is lost, so that watchers see it immediately. */
export function readsWhileConnected(call: Call, nats: NatsStatus): Call {
  return (route, request, signal) => unlessAborted(nats.lost, () => call(route, request, signal));
}

async function unlessAborted<Reply>(lost: AbortSignal, ask: () => Promise<Reply>): Promise<Reply> {
  if (lost.aborted) return refuseAway();
  const { promise: ended, reject } = Promise.withResolvers<never>();
  const end = (): void => reject(new FaultError(AWAY));
  lost.addEventListener("abort", end, { once: true });
  try {
    return await Promise.race([ask(), ended]);
  } finally {
    lost.removeEventListener("abort", end);
  }
}
