import { connectService, type NatsBus } from "@muster/bus";
import { retryStart, type ServiceContext } from "@muster/service";
import type { Config } from "../config.ts";
import { ensureAuditStreams } from "./audit-log.ts";
import { openKeptRequests, type KeptRequests } from "./kept-requests.ts";
import { refuseAway, type FollowedNats } from "./nats-status.ts";
import { serveAudit } from "./serve-audit.ts";

/** The parts of a gateway that need NATS. NATS may answer only after the gateway listens. */
export type LateNats = AsyncDisposable & {
  readonly isOpen: boolean;
  /** Throws FaultError unavailable until all parts are open. */
  readonly bus: () => NatsBus;
  /** Rejects with FaultError unavailable until all parts are open. */
  readonly keptRequests: KeptRequests;
  /** Opens the parts, and retries until NATS answers. Rejects with FaultError cancelled once the service stops. */
  open(): Promise<void>;
};

type Parts = { readonly bus: NatsBus; readonly keptRequests: KeptRequests };

export function lateNats(context: ServiceContext<Config>, status: Pick<FollowedNats, "record">): LateNats {
  const { logger, version } = context;
  const all = new AsyncDisposableStack();
  let parts: Parts | undefined;
  const required = (): Parts => parts ?? refuseAway();
  const openParts = async (): Promise<Parts> => {
    await using opening = new AsyncDisposableStack();
    const bus = opening.use(await connectService(context, status.record));
    await ensureAuditStreams(bus);
    opening.use(await serveAudit(bus, { version, logger }));
    const keptRequests = await openKeptRequests(bus.connection, logger);
    all.use(opening.move());
    return { bus, keptRequests };
  };
  return {
    get isOpen() {
      return parts !== undefined;
    },
    bus: () => required().bus,
    keptRequests: { begin: async (user, key, digest) => required().keptRequests.begin(user, key, digest) },
    open: async () => {
      parts = await retryStart(context, openParts);
      status.record("connected", "");
    },
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}
