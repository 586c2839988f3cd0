import { computeBackoffMs, pause } from "@muster/backoff";
import { describeFault, FaultError, isFaultError } from "@muster/faults";
import { subjects } from "@muster/proto";
import { countRefusal } from "./bus-metrics.ts";
import type { NatsAccess } from "./nats-access.ts";
import { connectNats, type NatsBus } from "./nats-bus.ts";
import type { RequestRate } from "./request-rates.ts";
import { listAddresses, REFUSED_RETRY, type BusStatus } from "./nats-link.ts";
import { isCredentialRefused } from "./refusals.ts";

/** Logs the reason after this time without a connection. */
const ATTEMPT_MS = 5000;

/** The context of a starting service, as `@muster/service` passes it. */
export type ServiceConnection = {
  readonly config: { readonly nats: NatsAccess };
  readonly logger: {
    warn(fields: object, message: string): void;
    error(fields: object, message: string): void;
  };
  readonly service: string;
  readonly instance: string;
  readonly natsReplicas: number;
  readonly requestRate: RequestRate;
  readonly signal: AbortSignal;
  alsoCheck(name: string, check: () => string | undefined): void;
};

/**
 * Connects a service under the name of its instance, logs changes of the status and passes them to `onStatus`. Retries with back-off while the server is
 * unreachable or refuses the credential, its certificate is untrusted, or the credential file is empty; the log and /readyz report the cause. Does the same
 * after a lost connection. Otherwise rejects as `connectNats` does, or with FaultError cancelled once the service stops.
 */
export async function connectService(
  context: ServiceConnection,
  onStatus?: (status: BusStatus, detail: string) => void,
): Promise<NatsBus> {
  const { config, logger, service, instance, natsReplicas, requestRate, signal } = context;
  let trouble: string | undefined;
  context.alsoCheck("nats", () => trouble);
  for (let attempt = 1; ; attempt += 1) {
    try {
      const bus = await connectNats({
        ...config.nats,
        name: instance,
        inboxPrefix: subjects.inbox(service),
        replicas: natsReplicas,
        requestRate,
        signal,
        timeoutMs: ATTEMPT_MS,
        onStatus: (status, detail) => {
          if (status === "credential_refused" || status === "certificate_refused") trouble = detail;
          if (status === "reconnected") trouble = undefined;
          onStatus?.(status, detail);
          logger.warn({ status, detail }, "connection to NATS");
        },
      });
      trouble = undefined;
      return bus;
    } catch (error) {
      const found = describeTrouble(error, config.nats);
      if (found === undefined) throw error;
      trouble = found.detail;
      const retryInMs = computeBackoffMs(attempt, REFUSED_RETRY);
      logger.error({ detail: found.detail, retryInMs }, found.what);
      await pause(retryInMs, signal);
      if (signal.aborted)
        throw new FaultError({ code: "cancelled", operation: "connecting to NATS" }, { cause: error });
    }
  }
}

/** Describes a NATS problem that can pass without a restart; undefined if only a restart helps. */
function describeTrouble(
  error: unknown,
  nats: NatsAccess,
): { readonly what: string; readonly detail: string } | undefined {
  if (!isFaultError(error)) return undefined;
  const { fault, cause } = error;
  // The variables were validated before, so only the file that a variable names can be invalid.
  if (fault.code === "invalid_request" && nats.nkey !== undefined && "file" in nats.nkey) {
    countRefusal("credential");
    return { what: "the key for NATS cannot be used", detail: describeFault(fault) };
  }
  if (fault.code !== "unavailable") return undefined;
  const reason = cause instanceof Error ? cause.message : describeFault(fault);
  const what = isCredentialRefused(error) ? "NATS refuses this service" : "NATS does not answer";
  return { what, detail: `connecting to ${listAddresses(nats.url)}: ${reason}` };
}
