import { z } from "zod";
import { diskType, envName, leaseId, networkName, port, text } from "./data-fields.ts";
import { addUnits, diskUnits, MIB, NO_UNITS } from "./resource-units.ts";
import { workloadType } from "./workload-type.ts";

const CPUS_MAX = 1024;
const MEMORY_MIB_LEAST = 1024;
/** 64 TiB. */
const MEMORY_MIB_MOST = 67_108_864;
/** 1 PiB. */
const DISK_MIB_MAX = 1_073_741_824;
const PORTS_MAX = 100;
const MOUNTS_MAX = 50;
const ARGUMENTS_MAX = 500;

const MOUNTPOINT = /^\/[^:]*$/;

const schema = z
  .strictObject({
    image: z.string().min(1).max(500),
    entrypoint: z.array(text).max(ARGUMENTS_MAX).default([]),
    args: z.array(text).max(ARGUMENTS_MAX).default([]),
    env: z.record(envName, text).default({}),
    /** A Secret in Kubernetes. In the order it is data as any other: who may read leases reads it. */
    secret_env: z.record(envName, text).default({}),
    ports: z.array(port).max(PORTS_MAX).default([]),
    network: networkName.optional(),
    mounts: z
      .array(
        z.strictObject({
          /** Lease of a volume of the same user. */
          volume_id: leaseId,
          mountpoint: text.regex(MOUNTPOINT, "an absolute path without ':' is needed"),
        }),
      )
      .max(MOUNTS_MAX)
      .default([]),
    capacity: z.strictObject({
      cpu: z.int().min(1).max(CPUS_MAX),
      /** MiB. */
      memory: z.int().min(MEMORY_MIB_LEAST).max(MEMORY_MIB_MOST),
      disk_type: diskType.default("ssd"),
      /** MiB of the root file system; 0: as much as the node lets it have. */
      disk_size: z.int().min(0).max(DISK_MIB_MAX).default(0),
    }),
  })
  .superRefine(({ env, secret_env }, context) => {
    for (const name of Object.keys(secret_env))
      if (Object.hasOwn(env, name))
        context.addIssue({ code: "custom", path: ["secret_env", name], message: "is in env, too" });
  });

export type ContainerData = z.output<typeof schema>;

export const CONTAINER = workloadType({
  type: "container",
  counter: "container",
  rank: 5,
  schema,
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
