import { computeBackoffMs, pause } from "@muster/backoff";
import { publishEvent, type Bus } from "@muster/bus";
import { muster, subjects } from "@muster/proto";
import type { Logger } from "@muster/service";

export type SetAlert = {
  /** Equal for the same trouble: at most 128 lower case letters, digits, `-` and `_`. */
  readonly incidentKey: string;
  readonly description: string;
  readonly urgency: "HIGH" | "LOW";
  readonly details: Readonly<Record<string, unknown>>;
  /** Empty: the alert concerns no set. */
  readonly replicaSet: string;
};

/** Alerts go to the log and a metric immediately, and to the bus and a webhook when these are available. No caller waits for them. */
export type SetAlerts = AsyncDisposable & {
  /** Publishes the alert once per incident, and again every REPEAT_MS while it is raised. */
  raise(alert: SetAlert): void;
  /** Ends the incident: the next alert of this key is published immediately. */
  resolve(incidentKey: string): void;
};

type AlertsOptions = {
  readonly bus: Bus;
  readonly logger: Pick<Logger, "warn" | "error">;
  readonly webhook: string | undefined;
  readonly counted: (urgency: SetAlert["urgency"]) => void;
  readonly now: () => number;
  /** Sends the text to the webhook; rejects, or resolves with false, when the webhook refuses it. */
  readonly post?: (url: string, body: string, signal: AbortSignal) => Promise<boolean>;
};

const REPEAT_MS = 3_600_000;
/** Maximum number of alerts that wait for the webhook; further ones go only to the log, the bus and the metric. */
const MAX_QUEUED = 100;
const MAX_ATTEMPTS = 6;
const RETRY = { firstMs: 1000, maxMs: 60_000 };
const POST_TIMEOUT_MS = 10_000;

export function openAlerts(options: AlertsOptions): SetAlerts {
  const { bus, logger, webhook, counted, now, post = postJson } = options;
  const raisedAtMs = new Map<string, number>();
  const queue: SetAlert[] = [];
  const stop = new AbortController();
  let sending: Promise<void> | undefined;

  const announce = (message: muster.farm.v1.Alert.$Properties): Promise<void> =>
    sendWithRetries(
      stop.signal,
      () => publish(bus, message).then(() => true),
      (error) => {
        const { incidentKey } = message;
        logger.warn({ incidentKey, attempts: MAX_ATTEMPTS, err: error }, "an alert was not published on the bus");
      },
    );
  const drain = async (url: string): Promise<void> => {
    for (let alert = queue.shift(); alert !== undefined && !stop.signal.aborted; alert = queue.shift())
      await deliver(url, alert);
    sending = undefined;
  };
  const deliver = (url: string, alert: SetAlert): Promise<void> => {
    const body = JSON.stringify(alert);
    return sendWithRetries(
      stop.signal,
      () => post(url, body, stop.signal),
      () => {
        const { incidentKey } = alert;
        logger.error({ incidentKey, attempts: MAX_ATTEMPTS }, "the webhook did not accept an alert");
      },
    );
  };

  return {
    raise: (alert) => {
      const { incidentKey, description, urgency, details, replicaSet } = alert;
      const atMs = now();
      if (atMs - (raisedAtMs.get(incidentKey) ?? -Infinity) < REPEAT_MS) return;
      for (const [key, sinceMs] of raisedAtMs) if (atMs - sinceMs >= REPEAT_MS) raisedAtMs.delete(key);
      raisedAtMs.set(incidentKey, atMs);
      counted(urgency);
      logger[urgency === "HIGH" ? "error" : "warn"]({ incidentKey, replicaSet, details }, description);
      const detailsJson = JSON.stringify(details);
      const message = { incidentKey, description, urgency, detailsJson, atMs, replicaSet };
      void announce(message);
      if (webhook === undefined) return;
      if (queue.length >= MAX_QUEUED) {
        logger.error(
          { incidentKey, limit: MAX_QUEUED },
          "too many alerts wait for the webhook; this one is not sent there",
        );
        return;
      }
      queue.push(alert);
      sending ??= drain(webhook);
    },
    resolve: (incidentKey) => {
      raisedAtMs.delete(incidentKey);
    },
    [Symbol.asyncDispose]: async () => {
      stop.abort();
      await sending;
    },
  };
}

/** Retries with back-off until the alert is sent or the signal is aborted; calls `givenUp` after the last attempt fails. */
async function sendWithRetries(
  signal: AbortSignal,
  send: () => Promise<boolean>,
  givenUp: (error: unknown) => void,
): Promise<void> {
  for (let attempt = 1; !signal.aborted; attempt += 1) {
    try {
      if (await send()) return;
      if (attempt >= MAX_ATTEMPTS) givenUp(undefined);
    } catch (error) {
      if (attempt >= MAX_ATTEMPTS) givenUp(error);
    }
    if (attempt >= MAX_ATTEMPTS) return;
    await pause(computeBackoffMs(attempt, RETRY), signal);
  }
}

async function publish(bus: Bus, message: muster.farm.v1.Alert.$Properties): Promise<void> {
  const { incidentKey, atMs } = message;
  await publishEvent(bus, subjects.farmAlerted(incidentKey ?? ""), muster.farm.v1.Alert, message, {
    messageId: `${incidentKey ?? ""}-${atMs ?? 0}`,
  });
}

async function postJson(url: string, body: string, signal: AbortSignal): Promise<boolean> {
  const timeout = AbortSignal.any([signal, AbortSignal.timeout(POST_TIMEOUT_MS)]);
  const headers = { "content-type": "application/json" };
  const response = await fetch(url, { method: "POST", body, headers, signal: timeout });
  await response.body?.cancel();
  return response.ok;
}
