import { addUnits, diskUnits, MIB, NO_UNITS } from "./resource-units.ts";
import { workloadType } from "./workload-type.ts";

export const CONTAINER = workloadType({
  type: "container",
  counter: "container",
  rank: 5,
  claimOf: ({ capacity, mounts, network }) => ({
    units: addUnits(
      { ...NO_UNITS, cru: BigInt(capacity.cpu), mru: BigInt(capacity.memory) * MIB },
      diskUnits(capacity.disk_type, BigInt(capacity.disk_size) * MIB),
    ),
    network: undefined,
    needs: {
      networks: network === undefined ? [] : [network],
      volumes: mounts.map(({ volume_id }) => volume_id),
    },
  }),
});
