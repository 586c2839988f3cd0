import { z } from "zod";
import { networkName, port } from "./data-fields.ts";
import { NO_UNITS } from "./resource-units.ts";
import { workloadType } from "./workload-type.ts";

const PORTS_MAX = 100;

const schema = z.strictObject({
  name: networkName,
  /** Ports that everybody reaches; the others only who is in the network. */
  open_ports: z.array(port).max(PORTS_MAX).default([]),
});

export type NetworkData = z.output<typeof schema>;

export const NETWORK = workloadType({
  type: "network",
  counter: "network",
  rank: 1,
  schema,
  claimOf: ({ name }) => ({ units: NO_UNITS, network: name, needs: { networks: [], volumes: [] } }),
});
