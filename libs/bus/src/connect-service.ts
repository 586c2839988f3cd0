import { backoffMs, pause } from "@muster/backoff";
import { FaultError, isFaultError } from "@muster/faults";
import { subjects } from "@muster/proto";
import type { NatsAccess } from "./nats-access.ts";
import { connectNats, type NatsBus } from "./nats-bus.ts";
import type { RequestRate } from "./request-rates.ts";
import { REFUSED_RETRY, type BusStatus } from "./nats-link.ts";
import { isCredentialRefused } from "./refusals.ts";

/** After so long without a connection it is said. */
const ATTEMPT_MS = 5000;

/** What a service knows when it starts to run: the context that `@muster/service` gives it fits. */
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
 * A service's connection, named after its instance; changes of its status are logged, and told to `onStatus`. A server that is away, one that does not take the credential, and
 * one whose certificate is not trusted, is said, in the log and by /readyz, and tried again with back-off: a service that ended would come no sooner. So is one that comes back
 * so after the service has been connected. Rejects as `connectNats` does otherwise, and with FaultError cancelled when the service is stopped meanwhile.
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
      if (!isFaultError(error) || error.fault.code !== "unavailable") throw error;
      trouble = error.message;
      const retryInMs = backoffMs(attempt, REFUSED_RETRY);
      const what = isCredentialRefused(error) ? "NATS refuses this service" : "NATS does not answer";
      logger.error({ detail: error.message, retryInMs }, what);
      await pause(retryInMs, signal);
      if (signal.aborted)
        throw new FaultError({ code: "cancelled", operation: "connecting to NATS" }, { cause: error });
    }
  }
}
