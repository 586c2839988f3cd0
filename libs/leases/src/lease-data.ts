import { z } from "zod";
import {
  amount,
  diskType,
  envName,
  leaseId,
  networkName,
  networkOfData,
  poolName,
  port,
  secretText,
  sizeGib,
  text,
} from "./data-fields.ts";
import { KUBERNETES_SIZES } from "./kubernetes-sizes.ts";

const MAX_CPUS = 1024;
/** 1 GiB, the same minimum as in zos, so that clients that sign for both get the same answer. */
const MIN_MEMORY_MIB = 1024;
/** 64 TiB. */
const MAX_MEMORY_MIB = 67_108_864;
/** 1 PiB. */
const MAX_DISK_MIB = 1_073_741_824;
/** Default size. Disk use that is not counted could fill the disks of nodes. */
const ROOT_DISK_MIB = 1024;
const MAX_IMAGE_CHARACTERS = 500;
const MAX_PORTS = 100;
const MAX_MOUNTS = 50;
const MAX_ARGUMENTS = 500;
const MAX_MACHINES = 1000;

const MOUNTPOINT = /^\/[^:]*$/;

const network = z.strictObject({
  name: networkName.describe("Name of the network, among those of its user."),
  open_ports: z
    .array(port)
    .max(MAX_PORTS)
    .superRefine(refuseTwins)
    .default([])
    .describe("Ports that are open to all; other ports are open only within the network."),
});

const volume = z.strictObject({
  size: sizeGib,
  type: diskType.describe("Kind of disk."),
  network: networkName
    .describe("The network of the same user that it can be mounted in; without it: outside of networks.")
    .optional(),
});

const container = z
  .strictObject({
    image: z.string().min(1).max(MAX_IMAGE_CHARACTERS).describe("Container image."),
    entrypoint: z.array(text).max(MAX_ARGUMENTS).default([]).describe("Program, instead of that of the image."),
    args: z.array(text).max(MAX_ARGUMENTS).default([]).describe("Arguments."),
    env: z.record(envName, text).default({}).describe("Environment variables."),
    secret_env: z
      .record(envName, secretText)
      .default({})
      .describe(
        "Environment variables with secret values: sealed to the engine in the order, and a Secret in Kubernetes.",
      ),
    ports: z
      .array(port)
      .max(MAX_PORTS)
      .superRefine(refuseTwins)
      .default([])
      .describe("Ports that its network reaches."),
    network: networkOfData,
    mounts: z
      .array(
        z.strictObject({
          volume_id: leaseId.describe("Id of a lease of a volume of the same user."),
          mountpoint: text
            .regex(MOUNTPOINT, "an absolute path without ':' is needed")
            .describe("Absolute path in the container."),
        }),
      )
      .max(MAX_MOUNTS)
      .default([])
      .describe("Mounted volumes."),
    capacity: z.strictObject({
      cpu: z.int().min(1).max(MAX_CPUS).describe("Processors."),
      memory: amount("MiB", { min: MIN_MEMORY_MIB, max: MAX_MEMORY_MIB }).describe("MiB."),
      disk_type: diskType.default("ssd").describe("Kind of disk of its root file system."),
      disk_size: amount("MiB", { min: 0, max: MAX_DISK_MIB })
        .transform((mib) => (mib === 0 ? ROOT_DISK_MIB : mib))
        .default(ROOT_DISK_MIB)
        .describe(`MiB of its root file system and its log; 0: ${ROOT_DISK_MIB}.`),
    }),
  })
  .superRefine(({ env, secret_env }, context) => {
    for (const name of Object.keys(secret_env))
      if (Object.hasOwn(env, name))
        context.addIssue({ code: "custom", path: ["secret_env", name], message: "is in env, too" });
  });

const zdb = z.strictObject({
  size: sizeGib,
  mode: z.enum(["user", "seq"]).describe("Mode of the zdb program: keys of the user, or sequential keys."),
  disk_type: diskType.describe("Kind of disk."),
  password: secretText.default("").describe("Sealed to the engine in the order."),
  public: z.boolean().default(false).describe("Whether clients without the password may read."),
  network: networkOfData,
});

const only = `only size 1 to ${KUBERNETES_SIZES}`;

const kubernetes = z.strictObject({
  size: z
    .int()
    .min(1, only)
    .max(KUBERNETES_SIZES, only)
    .describe("Size of the slice, by the table in docs/lease-types.md."),
});

const machine = z.strictObject({
  pool: poolName.describe("Pool of the machines."),
  machines: z.int().min(1).max(MAX_MACHINES).describe("Number of machines, granted all or none."),
});

const debug = z.json();

/** A repeated port is a mistake for another number. */
function refuseTwins(ports: readonly number[], context: z.RefinementCtx): void {
  for (const [at, each] of ports.entries())
    if (ports.indexOf(each) < at) context.addIssue({ code: "custom", path: [at], message: `${each} is there twice` });
}

const SCHEMAS = { network, volume, container, zdb, kubernetes, machine, debug };

export type LeaseType = keyof typeof SCHEMAS;
export type LeaseData<Type extends LeaseType> = z.output<(typeof SCHEMAS)[Type]>;

/** Schemas of the data of each type, with all limits. */
export const LEASE_DATA: { readonly [Type in LeaseType]: z.ZodType<LeaseData<Type>> } = SCHEMAS;

/** JSON Schema (2020-12) of the data of a type, for editors; less strict than `readData`. */
export function buildDataSchema(type: LeaseType): Readonly<Record<string, unknown>> {
  if (type === "debug") return { description: "Any data; the result is the same data." };
  const { $schema: _, ...schema } = z.toJSONSchema(LEASE_DATA[type], { io: "input" });
  return schema;
}
