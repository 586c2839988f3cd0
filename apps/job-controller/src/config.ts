import { readNatsAccess, type NatsAccess } from "@muster/bus";
import { readEnv } from "@muster/service";
import type { JobPolicy } from "./domain/snapshot.ts";
import type { KindDefaults } from "./domain/kind.ts";

export type Config = {
  readonly nats: NatsAccess;
  readonly kube: {
    readonly kubeconfig: string | undefined;
    readonly namespace: string;
    /** Requests to the API server in flight. */
    readonly maxInFlight: number;
    readonly timeoutMs: number;
  };
  /** Concurrent passes, for each kind. */
  readonly workers: number;
  /** Each job has a pass at least this often. */
  readonly syncPeriodMs: number;
  /** The ledger is listed this often. */
  readonly refreshMs: number;
  /** The installed kinds are checked this often. */
  readonly discoverMs: number;
  /** A node that is not ready for longer is lost. */
  readonly nodeLostMs: number;
  /** Counts alone are written to a status at most this often. */
  readonly statusEveryMs: number;
  /** While more jobs wait than there are workers, budgets and status of a new job may wait for this long. */
  readonly maxPostponeMs: number;
  /** Another replica leads after the leader has been silent for this long. */
  readonly lockTtlMs: number;
  readonly defaults: KindDefaults;
  readonly policy: JobPolicy;
};

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
/** The time after which the kubelet resets the back-off of a container; the definition of jobs names it, too. */
const CALM_AFTER_MS = 10 * MINUTE_MS;

/** Reads the configuration; throws one fault that names every problem. */
export function readConfig(env: Readonly<Record<string, string | undefined>>): Config {
  return readEnv(env, (read) => ({
    nats: readNatsAccess(read),
    kube: {
      kubeconfig: read.optional("MUSTER_KUBECONFIG"),
      namespace: read.text("MUSTER_NAMESPACE", "default"),
      maxInFlight: read.integer("JOB_REQUESTS_IN_FLIGHT", { fallback: 64, min: 1, max: 1000 }),
      timeoutMs: read.integer("JOB_REQUEST_TIMEOUT_MS", { fallback: 30_000, min: 100, max: HOUR_MS }),
    },
    workers: read.integer("JOB_WORKERS", { fallback: 32, min: 1, max: 1000 }),
    syncPeriodMs: read.integer("JOB_SYNC_PERIOD_MS", { fallback: 15_000, min: 100, max: HOUR_MS }),
    refreshMs: read.integer("JOB_REFRESH_MS", { fallback: 30_000, min: 100, max: HOUR_MS }),
    discoverMs: read.integer("JOB_DISCOVER_MS", { fallback: 15_000, min: 100, max: HOUR_MS }),
    nodeLostMs: read.integer("JOB_NODE_LOST_MS", { fallback: 2 * MINUTE_MS, min: 0, max: HOUR_MS }),
    statusEveryMs: read.integer("JOB_STATUS_EVERY_MS", { fallback: 1000, min: 0, max: MINUTE_MS }),
    maxPostponeMs: read.integer("JOB_POSTPONE_MOST_MS", { fallback: 15_000, min: 0, max: MINUTE_MS }),
    lockTtlMs: read.integer("JOB_LOCK_TTL_MS", { fallback: 5000, min: 300, max: 10 * MINUTE_MS }),
    defaults: {
      pool: read.optional("JOB_DEFAULT_POOL"),
      poolLabel: read.text("JOB_POOL_LABEL", "pool"),
      scheduler: read.optional("JOB_GANG_SCHEDULER"),
      clusterDomain: read.optional("JOB_CLUSTER_DOMAIN"),
      images: {
        waitForMaster: read.optional("JOB_WAIT_IMAGE"),
        kubectlDelivery: read.optional("JOB_KUBECTL_IMAGE"),
      },
    },
    policy: {
      restartBackoffMs: read.integer("JOB_RESTART_BACKOFF_MS", { fallback: 10_000, min: 0, max: HOUR_MS }),
      maxRestartBackoffMs: read.integer("JOB_RESTART_BACKOFF_MOST_MS", { fallback: 360_000, min: 0, max: HOUR_MS }),
      maxUncountedRestarts: read.integer("JOB_UNCOUNTED_RESTARTS_MOST", { fallback: 20, min: 1, max: 100_000 }),
      calmAfterMs: CALM_AFTER_MS,
      replacementWaitMs: read.integer("JOB_REPLACEMENT_WAIT_MS", { fallback: 600_000, min: 1000, max: 24 * HOUR_MS }),
      refusedRetryMs: read.integer("JOB_REFUSED_RETRY_MS", { fallback: 30_000, min: 100, max: HOUR_MS }),
      explainEveryMs: read.integer("JOB_EXPLAIN_EVERY_MS", { fallback: 30_000, min: 0, max: HOUR_MS }),
      maxRecheckMs: HOUR_MS,
      gangScheduling: read.integer("JOB_GANG_SCHEDULING", { fallback: 1, min: 0, max: 1 }) === 1,
    },
  }));
}
