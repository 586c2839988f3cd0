import { z } from "zod";
import { diskType, networkName, sizeGib } from "./data-fields.ts";
import { diskUnits, GIB } from "./resource-units.ts";
import { workloadType } from "./workload-type.ts";

const schema = z.strictObject({
  /** GiB. */
  size: sizeGib,
  type: diskType,
  /** Where it can be mounted; absent: where nobody has a network. */
  network: networkName.optional(),
});

export type VolumeData = z.output<typeof schema>;

export const VOLUME = workloadType({
  type: "volume",
  counter: "volume",
  rank: 4,
  schema,
  claimOf: ({ size, type, network }) => ({
    units: diskUnits(type, BigInt(size) * GIB),
    network: undefined,
    needs: { networks: network === undefined ? [] : [network], volumes: [] },
  }),
});
