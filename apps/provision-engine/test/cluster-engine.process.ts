import { runService } from "@muster/service";
import { readConfig } from "../src/config.ts";
import { run } from "../src/service.ts";
import { makeWorkloads } from "../src/types/workload-types.ts";
import { spoilRecord } from "./spoil.ts";

/** The real engine, whose calls are broken by files in a directory. */
const directory = process.env["FILES"] ?? "";

await runService({
  name: "provision-engine",
  readConfig,
  run: (context) =>
    run(context, (...made) =>
      makeWorkloads(...made).map(({ provision, decommission, ...rest }) => ({
        ...rest,
        provision: async (lease, signal) => {
          const result = await provision(lease, signal);
          await spoilRecord(directory, lease.order.id);
          return result;
        },
        decommission: async (lease, signal) => {
          await decommission(lease, signal);
          await spoilRecord(directory, lease.order.id);
        },
      })),
    ),
});
