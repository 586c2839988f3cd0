import { diskUnits, GIB } from "./resource-units.ts";
import { workloadType } from "./workload-type.ts";

export const VOLUME = workloadType({
  type: "volume",
  counter: "volume",
  rank: 4,
  claimOf: ({ size, type, network }) => ({
    units: diskUnits(type, BigInt(size) * GIB),
    network: undefined,
    needs: { networks: network === undefined ? [] : [network], volumes: [] },
  }),
});
