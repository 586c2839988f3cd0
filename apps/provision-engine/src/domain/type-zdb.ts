import { diskUnits, GIB } from "./resource-units.ts";
import { workloadType } from "./workload-type.ts";

export const ZDB = workloadType({
  type: "zdb",
  counter: "zdb",
  rank: 3,
  claimOf: ({ size, disk_type, network }) => ({
    units: diskUnits(disk_type, BigInt(size) * GIB),
    network: undefined,
    needs: { networks: network === undefined ? [] : [network], volumes: [] },
  }),
});
