import { z } from "zod";
import { poolName } from "./data-fields.ts";
import { NO_UNITS } from "./resource-units.ts";
import { workloadType } from "./workload-type.ts";

const MACHINES_MAX = 1000;

const schema = z.strictObject({
  pool: poolName,
  machines: z.int().min(1).max(MACHINES_MAX),
});

export type MachineData = z.output<typeof schema>;

/** Whole machines take nothing of the engine's own capacity: the ledger of machines decides about them. */
export const MACHINE = workloadType({
  type: "machine",
  counter: "machine",
  rank: 7,
  schema,
  claimOf: () => ({ units: NO_UNITS, network: undefined, needs: { networks: [], volumes: [] } }),
});
