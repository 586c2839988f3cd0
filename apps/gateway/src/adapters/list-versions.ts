import { fillPage, computePageLimit, type Handlers, type NatsBus } from "@muster/bus";
import { muster, type AuditService } from "@muster/proto";

const MAX_LIMIT = 500;
const { ReplicaVersion } = muster.gateway.v1;

/** Lists the version of each replica of a service that is connected to NATS. */
export function listVersions(bus: Pick<NatsBus, "services">): Handlers<typeof AuditService>["listVersions"] {
  return async ({ limit, continue: after }, { pageBytes }) => {
    const replicas = (await bus.services()).filter(({ id }) => id > after).sort((a, b) => (a.id < b.id ? -1 : 1));
    const { messages, last, isMore } = fillPage(
      replicas,
      ({ name, id, version }) => ReplicaVersion.create({ service: name, id, version }),
      {
        limit: computePageLimit(limit, MAX_LIMIT),
        bytes: pageBytes,
        encode: (replica) => ReplicaVersion.encode(replica).finish(),
      },
    );
    return { versions: [...messages], continue: isMore ? (last?.id ?? "") : "" };
  };
}
