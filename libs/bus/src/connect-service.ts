import { connectNats, type NatsBus } from "./nats-bus.ts";
import type { BusStatus } from "./nats-link.ts";

/** What a service knows when it starts to run: the context that `@muster/service` gives it fits. */
export type ServiceConnection = {
  readonly config: { readonly nats: { readonly url: string; readonly token: string | undefined } };
  readonly logger: { warn(fields: object, message: string): void };
  readonly instance: string;
  readonly natsReplicas: number;
};

/** A service's connection, named after its instance; changes of its status are logged, and told to `onStatus`. Rejects as `connectNats` does. */
export function connectService(
  { config, logger, instance, natsReplicas }: ServiceConnection,
  onStatus?: (status: BusStatus) => void,
): Promise<NatsBus> {
  const { url, token } = config.nats;
  return connectNats({
    url,
    name: instance,
    replicas: natsReplicas,
    ...(token === undefined ? {} : { token }),
    onStatus: (status, detail) => {
      onStatus?.(status);
      logger.warn({ status, detail }, "connection to NATS");
    },
  });
}
