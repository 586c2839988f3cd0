import { readNatsAccess, type NatsAccess } from "@muster/bus";
import { toNanosecondsFromMs } from "@muster/leases";
import { readSigner, type Signer } from "@muster/leases/keys";
import { readEnv, type EnvReader } from "@muster/service";
import { CLEANUP_MODES, type CleanupMode } from "./lead/cleaner.ts";
import type { LeaseCluster, ZdbImage } from "./types/workload.ts";
import type { EngineCapacity } from "./domain/claim.ts";
import type { OrderAges, OrderPolicy } from "./domain/decide-order.ts";
import type { QuotaPolicy } from "./domain/decide-quota.ts";
import type { EnginePolicy } from "./lead/engine-ops.ts";

export type Config = {
  readonly nats: NatsAccess;
  readonly key: Signer | { readonly file: string };
  readonly order: OrderPolicy;
  /** The limits of each user. */
  readonly quota: QuotaPolicy;
  readonly engine: EnginePolicy;
  readonly capacity: EngineCapacity;
  /** The queue of leases of machines; undefined: none. */
  readonly queue: string | undefined;
  /** Undefined: no cluster; types that need one are not served. */
  readonly kube: KubeConfiguration | undefined;
  /** The HTTP controller, an additional source of orders and receiver of results; undefined: none. */
  readonly controller: ControllerConfig | undefined;
  readonly cleanup: CleanupConfig;
  readonly lockTtlMs: number;
};

type CleanupConfig = {
  readonly mode: CleanupMode;
  readonly graceMs: number;
  readonly everyMs: number;
  readonly maxObjects: number;
  readonly maxPercent: number;
};

export type ControllerAddress = {
  readonly url: string;
  readonly token: string | undefined;
  readonly timeoutMs: number;
  readonly maxBytes: number;
};

type ControllerConfig = {
  readonly address: ControllerAddress;
  readonly pollMs: number;
};

export type KubeConfiguration = Omit<LeaseCluster, "objects" | "accessOf"> & {
  readonly kubeconfig: string | undefined;
};

const DAY_MS = 86_400_000;
/** Kubernetes restarts a container after up to 5 minutes: the first 4 exits of one that keeps crashing fall within this time. */
const CRASH_WINDOW = { fallback: 1_200_000, min: 1000, max: 7 * DAY_MS };
/** Age of orders; the maximum is ten years. */
const AGE = { min: 1000, max: 3650 * DAY_MS };
/** Engine ids are tokens of subjects and lock names. */
const ENGINE_ID = {
  fallback: "main",
  pattern: /^[a-z0-9][a-z0-9_-]{0,62}$/,
  needed: "up to 63 lower case letters, digits, - and _ are needed, the first a letter or a digit",
};

const POOL = "[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?";
/** Pool names are label values. */
const POOLS = {
  pattern: new RegExp(`^${POOL}(,${POOL})*$`),
  needed: "comma-separated names of pools are needed, such as leased,spare",
};

/** Queue names are label values, and names of Kubernetes objects. */
const QUEUE = {
  pattern: /^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$/,
  needed: "the name of a Queue without queues below it is needed, such as leases",
};

/** Reads the configuration; throws one fault that names every problem, and never a key. */
export function readConfig(env: Readonly<Record<string, string | undefined>>): Config {
  return readEnv(env, (read) => {
    /** Private key in hexadecimal (32 or 64 bytes) that signs results. */
    const key = read.optional("PROVISION_KEY");
    const retry = {
      /** First pause before a retry. It doubles each time. */
      firstMs: read.integer("PROVISION_RETRY_MS", { fallback: 1000, min: 1, max: DAY_MS }),
      /** Maximum pause between retries. */
      maxMs: read.integer("PROVISION_RETRY_MOST_MS", { fallback: 60_000, min: 1, max: DAY_MS }),
    };
    const ages: OrderAges = {
      /** Maximum age of an unknown order that a client sends. */
      maxOrderAgeNs: toNanosecondsFromMs(read.integer("PROVISION_ORDER_AGE_MS", { ...AGE, fallback: DAY_MS })),
      /** Maximum age of an unknown order that a controller lists. */
      maxListedAgeNs: toNanosecondsFromMs(read.integer("PROVISION_LISTED_AGE_MS", { ...AGE, fallback: 365 * DAY_MS })),
    };
    return {
      nats: readNatsAccess(read),
      /** File of that key; used and required without `PROVISION_KEY`. */
      key: key === undefined ? { file: read.text("PROVISION_KEY_FILE") } : readSigner("PROVISION_KEY", key),
      order: {
        /** Id of the engine. Its replicas share it. */
        engine: read.matching("PROVISION_ENGINE_ID", ENGINE_ID),
        /** `false`: any client on the bus may order for any user. */
        verifySignatures: read.flag("PROVISION_VERIFY_SIGNATURES", true),
        /** `true`: accept signatures that omit id, times, reference and version. */
        legacySignatures: read.flag("PROVISION_LEGACY_SIGNATURES", false),
        ...ages,
        /** `true`: accept plain secrets (docs/leases.md#secrets). */
        unsealedSecrets: read.flag("PROVISION_UNSEALED_SECRETS", false),
      },
      quota: {
        /** Maximum unfinished leases of one user. */
        maxLeases: read.integer("PROVISION_USER_LEASES", { fallback: 10_000, min: 1, max: 10_000_000 }),
        /** Maximum size of all records of one user. */
        maxBytes: read.integer("PROVISION_USER_BYTES", { fallback: 33_554_432, min: 65_536, max: 2 ** 40 }),
      },
      engine: {
        ...ages,
        /** Concurrent calls each to provision, decommission and check. */
        parallel: read.integer("PROVISION_PARALLEL", { fallback: 4, min: 1, max: 1000 }),
        /** Deadline of one of these calls. */
        deadlineMs: read.integer("PROVISION_DEADLINE_MS", { fallback: 180_000, min: 10, max: DAY_MS }),
        /** Interval of checks of active leases. */
        recheckMs: read.integer("PROVISION_RECHECK_MS", { fallback: 600_000, min: 10, max: 7 * DAY_MS }),
        pass: {
          /** How long a record is kept after its order would be refused. */
          tombstoneNs: toNanosecondsFromMs(
            read.integer("PROVISION_KEPT_MS", { fallback: DAY_MS, min: 0, max: 365 * DAY_MS }),
          ),
          /** Four exits of a container within this time end its lease. */
          crash: { windowNs: toNanosecondsFromMs(read.integer("PROVISION_CRASH_WINDOW_MS", CRASH_WINDOW)) },
          retry,
          /** Failed attempts after which an order fails. */
          maxProvisionAttempts: read.integer("PROVISION_ATTEMPTS_MAX", { fallback: 10, min: 1, max: 1000 }),
        },
        feedback: {
          retry,
          /** Pause after refused feedback. */
          refusedRetryMs: read.integer("PROVISION_REFUSED_RETRY_MS", { fallback: 600_000, min: 1, max: DAY_MS }),
          /** Refusals after which feedback is abandoned. */
          maxRefusals: read.integer("PROVISION_REFUSED_MAX", { fallback: 6, min: 1, max: 1000 }),
        },
      },
      capacity: {
        /** Processors for leases. Without it, no limit. */
        ...readUnit(read, "cru", "PROVISION_CAPACITY_CRU"),
        /** Memory for leases. Without it, no limit. */
        ...readUnit(read, "mru", "PROVISION_CAPACITY_MRU_BYTES"),
        /** SSD capacity for leases. Without it, no limit. */
        ...readUnit(read, "sru", "PROVISION_CAPACITY_SRU_BYTES"),
        /** HDD capacity for leases. Without it, no limit. */
        ...readUnit(read, "hru", "PROVISION_CAPACITY_HRU_BYTES"),
      },
      queue: readQueue(read),
      kube: readKube(read),
      controller: readController(read),
      cleanup: {
        /** Clean-up of leftovers: `on` removes them, `dry-run` reports them, `off` ignores them. */
        mode: read.oneOf("PROVISION_CLEANUP", CLEANUP_MODES, "dry-run"),
        /** Minimum time as a leftover before an object is removed. */
        graceMs: read.integer("PROVISION_CLEANUP_GRACE_MS", { fallback: 600_000, min: 0, max: 365 * DAY_MS }),
        /** Interval of clean-up. */
        everyMs: read.integer("PROVISION_CLEANUP_EVERY_MS", { fallback: DAY_MS, min: 10, max: 365 * DAY_MS }),
        /** A clean-up that would remove more objects needs confirmation. */
        maxObjects: read.integer("PROVISION_CLEANUP_MOST", { fallback: 50, min: 0, max: 1_000_000 }),
        /** A clean-up that would remove a larger part of all objects needs confirmation. */
        maxPercent: read.integer("PROVISION_CLEANUP_MOST_PERCENT", { fallback: 50, min: 0, max: 100 }),
      },
      /** A leader that is silent for this long is replaced. */
      lockTtlMs: read.integer("PROVISION_LOCK_TTL_MS", { fallback: 5000, min: 300, max: 600_000 }),
    };
  });
}

export function isEngineId(text: string): boolean {
  return ENGINE_ID.pattern.test(text);
}

function readQueue(read: EnvReader): string | undefined {
  /** Queue of leases of machines (docs/queues-work.md#leases). Required once a Queue exists; without it, leases have no queue, and wait then. */
  if (read.optional("PROVISION_QUEUE") === undefined) return undefined;
  return read.matching("PROVISION_QUEUE", QUEUE);
}

function readKube(read: EnvReader): KubeConfiguration | undefined {
  /** Kubeconfig file of the cluster of workloads. Without it, the cluster that the engine runs in, or none. */
  const kubeconfig = read.optional("MUSTER_KUBECONFIG");
  /** Kubernetes sets it in every pod: the engine runs in a cluster. */
  const inCluster = read.optional("KUBERNETES_SERVICE_HOST") !== undefined;
  if (kubeconfig === undefined && !inCluster) return undefined;
  return {
    kubeconfig,
    /** The namespace of workloads without a network. */
    namespace: read.text("MUSTER_NAMESPACE", "default"),
    nodes: {
      /** Node label whose value is the name of the pool. */
      poolLabel: read.text("PROVISION_POOL_LABEL", "pool"),
      pools: readPools(read),
    },
    storageClasses: {
      /** Storage class of SSD volumes. Without it, the cluster's default. */
      ssd: read.optional("PROVISION_STORAGE_CLASS_SSD"),
      /** Storage class of HDD volumes. Without it, the cluster's default. */
      hdd: read.optional("PROVISION_STORAGE_CLASS_HDD"),
    },
    slices: {
      /** ClusterRole of the user of a slice, in the slice. */
      role: read.text("PROVISION_KUBERNETES_ROLE", "muster-lease"),
      /** Address of the API server in the kubeconfig of a slice. */
      url: read.optional("PROVISION_KUBERNETES_URL") && read.httpUrl("PROVISION_KUBERNETES_URL"),
    },
    zdb: readZdb(read),
  };
}

function readPools(read: EnvReader): string[] {
  /** Comma-separated pools whose nodes containers may share (docs/lease-types.md#nodes-of-containers-and-zdbs). */
  if (read.optional("PROVISION_CONTAINER_POOLS") === undefined) return [];
  return read.matching("PROVISION_CONTAINER_POOLS", POOLS).split(",");
}

function readZdb(read: EnvReader): ZdbImage | undefined {
  /** Image of a zdb. Without it, no zdb can be ordered (docs/lease-types.md#zdb). */
  const image = read.optional("PROVISION_ZDB_IMAGE");
  /** Port of the program of a zdb. */
  const port = read.integer("PROVISION_ZDB_PORT", { fallback: 9900, min: 1, max: 65_535 });
  /** Command of a zdb, words separated by spaces. Without it, the command of the image. */
  const command = read.optional("PROVISION_ZDB_COMMAND");
  /** Processors of each zdb. */
  const cpus = read.integer("PROVISION_ZDB_CPUS", { fallback: 1, min: 1, max: 1024 });
  /** Memory of each zdb. */
  const memoryBytes = read.integer("PROVISION_ZDB_MEMORY_BYTES", { fallback: 2 ** 30, min: 2 ** 20, max: 2 ** 46 });
  /** Size of the root file system and log of each zdb. */
  const diskBytes = read.integer("PROVISION_ZDB_DISK_BYTES", { fallback: 2 ** 30, min: 2 ** 20, max: 2 ** 46 });
  return image === undefined
    ? undefined
    : { image, port, command: command?.split(/\s+/), cpus, memoryBytes, diskBytes };
}

function readController(read: EnvReader): ControllerConfig | undefined {
  if (read.optional("PROVISION_HTTP_URL") === undefined) return undefined;
  return {
    address: {
      /** Base address of the paths of an HTTP controller (docs/leases-http.md), without a password. Without it, no controller. */
      url: read.httpUrl("PROVISION_HTTP_URL"),
      /** Sent to the controller as `Authorization: Bearer`. */
      token: read.optional("PROVISION_HTTP_TOKEN"),
      /** Time limit of one request. A controller that delays a poll until it has news must answer within it. */
      timeoutMs: read.integer("PROVISION_HTTP_TIMEOUT_MS", { fallback: 30_000, min: 10, max: DAY_MS }),
      /** Maximum size of one response body, decompressed. */
      maxBytes: read.integer("PROVISION_HTTP_ANSWER_BYTES_MAX", { fallback: 33_554_432, min: 1024, max: 2 ** 30 }),
    },
    /** Interval between the starts of two polls. */
    pollMs: read.integer("PROVISION_HTTP_POLL_MS", { fallback: 10_000, min: 10, max: DAY_MS }),
  };
}

function readUnit(read: EnvReader, unit: keyof EngineCapacity, name: string): EngineCapacity {
  if (read.optional(name) === undefined) return {};
  return { [unit]: BigInt(read.integer(name, { min: 0, max: Number.MAX_SAFE_INTEGER })) };
}
