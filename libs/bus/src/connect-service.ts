import { backoffMs, pause } from "@muster/backoff";
import { describeFault, FaultError, isFaultError } from "@muster/faults";
import { subjects } from "@muster/proto";
import { countRefusal } from "./bus-metrics.ts";
import type { NatsAccess } from "./nats-access.ts";
import { connectNats, type NatsBus } from "./nats-bus.ts";
import type { RequestRate } from "./request-rates.ts";
import { addressesOf, REFUSED_RETRY, type BusStatus } from "./nats-link.ts";
import { isCredentialRefused } from "./refusals.ts";

/** After this time without a connection, the log states the reason. */
const ATTEMPT_MS = 5000;

/** The context of a service that starts: the one that `@muster/service` passes fits. */
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
 * A service's connection, named after its instance; changes of its status are logged, and passed to `onStatus`. Reports a server that is away or refuses the
 * credential, an untrusted certificate, and a file without a credential in the log and by /readyz, and retries with back-off: a restart would come no sooner.
 * So is one that comes back so after the service has been connected. Rejects as `connectNats` does otherwise, and with FaultError cancelled when the service
 * is stopped meanwhile.
 */
export async function connectService(
  context: ServiceConnection,
  onStatus?: (status: BusStatus) => void,
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
          onStatus?.(status);
          logger.warn({ status, detail }, "connection to NATS");
        },
      });
      trouble = undefined;
      return bus;
    } catch (error) {
      const found = troubleOf(error, config.nats);
      if (found === undefined) throw error;
      trouble = found.detail;
      const retryInMs = backoffMs(attempt, REFUSED_RETRY);
      logger.error({ detail: found.detail, retryInMs }, found.what);
      await pause(retryInMs, signal);
      if (signal.aborted)
        throw new FaultError({ code: "cancelled", operation: "connecting to NATS" }, { cause: error });
    }
  }
}

/** The trouble with NATS that can pass without a restart, and the time of the next attempt; undefined where only a restart helps. */
function troubleOf(error: unknown, nats: NatsAccess): { readonly what: string; readonly detail: string } | undefined {
  if (!isFaultError(error)) return undefined;
  const { fault, cause } = error;
  // All that is invalid beside the variables, which were read before, is the file that one of them names.
  if (fault.code === "invalid_request" && nats.nkey !== undefined && "file" in nats.nkey) {
    countRefusal("credential");
    return { what: "the key for NATS cannot be used", detail: describeFault(fault) };
  }
  if (fault.code !== "unavailable") return undefined;
  const reason = cause instanceof Error ? cause.message : describeFault(fault);
  const what = isCredentialRefused(error) ? "NATS refuses this service" : "NATS does not answer";
  return { what, detail: `connecting to ${addressesOf(nats.url)}: ${reason}` };
}
