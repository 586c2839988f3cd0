import { z } from "zod";
import { diskType, networkName, sizeGib, text } from "./data-fields.ts";
import { diskUnits, GIB } from "./resource-units.ts";
import { workloadType } from "./workload-type.ts";

const schema = z.strictObject({
  /** GiB. */
  size: sizeGib,
  mode: z.enum(["user", "seq"]),
  disk_type: diskType,
  password: text.default(""),
  /** Whoever has no password may read. */
  public: z.boolean().default(false),
  network: networkName.optional(),
});

export type ZdbData = z.output<typeof schema>;

export const ZDB = workloadType({
  type: "zdb",
  counter: "zdb",
  rank: 3,
  schema,
  claimOf: ({ size, disk_type, network }) => ({
    units: diskUnits(disk_type, BigInt(size) * GIB),
    network: undefined,
    needs: { networks: network === undefined ? [] : [network], volumes: [] },
  }),
});
