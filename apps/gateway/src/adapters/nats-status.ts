import type { BusStatus } from "@muster/bus";
import { FaultError, throwFault, type Fault } from "@muster/faults";
import type { ReadyCheck } from "@muster/service";
import type { Call } from "../api/answer-request.ts";
import type { CallBytes } from "../api/shared-reads.ts";

/** Time for which requests wait for a lost connection; a change to another NATS server takes less. */
const GRACE_MS = 2000;

const AWAY_TEXT = "NATS is away";
const AWAY: Fault = { code: "unavailable", dependency: "NATS", retryAfterMs: GRACE_MS };

export type NatsStatus = {
  /** The problem with NATS, for people; undefined while NATS is connected. */
  readonly trouble: string | undefined;
  /** Aborted when the connection is lost. A new signal replaces it when the connection is back. */
  readonly lost: AbortSignal;
  /** Aborted when the connection has been lost for GRACE_MS. A new signal replaces it when the connection is back. */
  readonly away: AbortSignal;
};

export type FollowedNats = NatsStatus & {
  /** Records a status of the connection; `connected` is the first one that is up. */
  readonly record: (status: BusStatus | "connected", detail: string) => void;
  /** The readiness check. A lost connection causes only a warning: pages and their sessions work without NATS, and pages report the outage to users. */
  readonly check: ReadyCheck;
};

/** Follows the status of a connection. It counts as away until it is connected. */
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

/** Makes calls for requests. Reads end once NATS is away. A change that was sent waits for its reply, which states its outcome. */
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

/** Makes calls for followed lists. They end when the connection is lost, so that watchers detect the loss immediately. */
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
