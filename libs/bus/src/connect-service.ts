import { backoffMs, pause } from "@muster/backoff";
import { FaultError } from "@muster/faults";
import { subjects } from "@muster/proto";
import type { NatsAccess } from "./nats-access.ts";
import { connectNats, type NatsBus } from "./nats-bus.ts";
import { isCredentialRefused, REFUSED_RETRY, type BusStatus } from "./nats-link.ts";

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
  readonly signal: AbortSignal;
  alsoCheck(name: string, check: () => string | undefined): void;
};

/**
 * A service's connection, named after its instance; changes of its status are logged, and told to `onStatus`. A credential that the server does not take is said, in the log
 * and by /readyz, and shown again with back-off, at the start as later: it may be the server that has to change. Rejects as `connectNats` does otherwise, and with
 * FaultError cancelled when the service is stopped meanwhile.
 */
export async function connectService(
  context: ServiceConnection,
  onStatus?: (status: BusStatus) => void,
): Promise<NatsBus> {
  const { config, logger, service, instance, natsReplicas, signal } = context;
  let trouble: string | undefined;
  context.alsoCheck("nats", () => trouble);
  for (let attempt = 1; ; attempt += 1) {
    try {
      const bus = await connectNats({
        ...config.nats,
        name: instance,
        inboxPrefix: subjects.inbox(service),
        replicas: natsReplicas,
        onStatus: (status, detail) => {
          if (status === "credential_refused") trouble = detail;
          if (status === "reconnected") trouble = undefined;
          onStatus?.(status);
          logger.warn({ status, detail }, "connection to NATS");
        },
      });
      trouble = undefined;
      return bus;
    } catch (error) {
      if (!isCredentialRefused(error) || !(error instanceof Error)) throw error;
      trouble = error.message;
      const retryInMs = backoffMs(attempt, REFUSED_RETRY);
      logger.error({ detail: error.message, retryInMs }, "NATS refuses this service");
      await pause(retryInMs, signal);
      if (signal.aborted)
        throw new FaultError({ code: "cancelled", operation: "connecting to NATS" }, { cause: error });
    }
  }
}
