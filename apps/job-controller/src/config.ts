import { readNatsAccess, type NatsAccess } from "@muster/bus";
import { readEnv } from "@muster/service";
import type { JobPolicy } from "./domain/snapshot.ts";
import type { KindDefaults } from "./domain/kind.ts";

export type Config = {
  readonly nats: NatsAccess;
  readonly kube: {
    readonly kubeconfig: string | undefined;
    readonly namespace: string;
    readonly jobNamespaces: "own" | "all";
    readonly maxInFlight: number;
    readonly timeoutMs: number;
  };
  readonly batchJobs: "none" | "namespace" | "all";
  readonly workers: number;
  readonly syncPeriodMs: number;
  readonly refreshMs: number;
  readonly discoverMs: number;
  readonly nodeLostMs: number;
  readonly statusEveryMs: number;
  readonly maxPostponeMs: number;
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
      /** Kubeconfig file of the cluster. Without it, the cluster that the controller runs in. */
      kubeconfig: read.optional("MUSTER_KUBECONFIG"),
      /** The namespace of the jobs. */
      namespace: read.text("MUSTER_NAMESPACE", "default"),
      /** Namespaces whose jobs run: MUSTER_NAMESPACE (`own`), or also every namespace that a queue serves (`all`). */
      jobNamespaces: read.oneOf("JOB_NAMESPACES", ["own", "all"], "own"),
      /** Maximum concurrent requests to the API server. */
      maxInFlight: read.integer("JOB_REQUESTS_IN_FLIGHT", { fallback: 64, min: 1, max: 1000 }),
      /** Time limit of one request to the API server. */
      timeoutMs: read.integer("JOB_REQUEST_TIMEOUT_MS", { fallback: 30_000, min: 100, max: HOUR_MS }),
    },
    /** Jobs of the API group `batch`, JobSets and pods with a queue: `none`, those of MUSTER_NAMESPACE (`namespace`), or of every namespace (`all`). */
    batchJobs: read.oneOf("JOB_BATCH_JOBS", ["none", "namespace", "all"], "none"),
    /** Concurrent passes, for each kind. */
    workers: read.integer("JOB_WORKERS", { fallback: 32, min: 1, max: 1000 }),
    /** Maximum interval between two passes over a job. */
    syncPeriodMs: read.integer("JOB_SYNC_PERIOD_MS", { fallback: 15_000, min: 100, max: HOUR_MS }),
    /** Interval of lists of the ledger, and of the release of machines of deleted jobs. */
    refreshMs: read.integer("JOB_REFRESH_MS", { fallback: 30_000, min: 100, max: HOUR_MS }),
    /** Interval of checks of the installed kinds of job. */
    discoverMs: read.integer("JOB_DISCOVER_MS", { fallback: 15_000, min: 100, max: HOUR_MS }),
    /** A node that is not ready for longer, or unschedulable while it has no pod of the job, is lost: its member gets another machine. */
    nodeLostMs: read.integer("JOB_NODE_LOST_MS", { fallback: 2 * MINUTE_MS, min: 0, max: HOUR_MS }),
    /** Minimum interval between writes of a status in which only counts differ. */
    statusEveryMs: read.integer("JOB_STATUS_EVERY_MS", { fallback: 1000, min: 0, max: MINUTE_MS }),
    /** Maximum delay, under load, of budgets and status writes of jobs that have not started. */
    maxPostponeMs: read.integer("JOB_POSTPONE_MOST_MS", { fallback: 15_000, min: 0, max: MINUTE_MS }),
    /** A leader that is silent for this long is replaced. */
    lockTtlMs: read.integer("JOB_LOCK_TTL_MS", { fallback: 5000, min: 300, max: 10 * MINUTE_MS }),
    defaults: {
      /** Pool of replica types for which neither a field, nor a nodeSelector, nor the job names one. */
      pool: read.optional("JOB_DEFAULT_POOL"),
      /** Node label whose value is the name of the pool. */
      poolLabel: read.text("JOB_POOL_LABEL", "pool"),
      /** Scheduler of the pods of jobs whose templates name none. Without it, the cluster's own. */
      scheduler: read.optional("JOB_GANG_SCHEDULER"),
      /** Appended to the names by which members find one another, such as `cluster.local`. */
      clusterDomain: read.optional("JOB_CLUSTER_DOMAIN"),
      images: {
        /** Image of the container in which workers of a PyTorchJob wait for the master. */
        waitForMaster: read.optional("JOB_WAIT_IMAGE"),
        /** Image that delivers kubectl to the launcher of an MPIJob. */
        kubectlDelivery: read.optional("JOB_KUBECTL_IMAGE"),
      },
    },
    policy: {
      /** First pause before a failed member restarts. It doubles each time. */
      restartBackoffMs: read.integer("JOB_RESTART_BACKOFF_MS", { fallback: 10_000, min: 0, max: HOUR_MS }),
      /** The longest of these pauses. */
      maxRestartBackoffMs: read.integer("JOB_RESTART_BACKOFF_MOST_MS", { fallback: 360_000, min: 0, max: HOUR_MS }),
      /** A job fails when a member needs more uncounted restarts in a row. */
      maxUncountedRestarts: read.integer("JOB_UNCOUNTED_RESTARTS_MOST", { fallback: 20, min: 1, max: 100_000 }),
      calmAfterMs: CALM_AFTER_MS,
      /** A gang that waits longer for another machine, as this process sees it, releases all and requests them again. */
      replacementWaitMs: read.integer("JOB_REPLACEMENT_WAIT_MS", { fallback: 600_000, min: 1000, max: 24 * HOUR_MS }),
      /** Pause before a request is repeated that the ledger refused (too large, unknown pool). */
      refusedRetryMs: read.integer("JOB_REFUSED_RETRY_MS", { fallback: 30_000, min: 100, max: HOUR_MS }),
      /** Minimum interval between writes of the text of a wait, or of the next restart, to the status. */
      explainEveryMs: read.integer("JOB_EXPLAIN_EVERY_MS", { fallback: 30_000, min: 0, max: HOUR_MS }),
      maxRecheckMs: HOUR_MS,
      /** 1: a PodDisruptionBudget protects each gang, and its scheduler gets a group. 0: neither. */
      gangScheduling: read.integer("JOB_GANG_SCHEDULING", { fallback: 1, min: 0, max: 1 }) === 1,
    },
  }));
}

/** The namespace of the caches of jobs and their objects; undefined for every namespace. */
export function findFollowedNamespace({
  namespace,
  jobNamespaces,
}: Pick<Config["kube"], "namespace" | "jobNamespaces">): string | undefined {
  return jobNamespaces === "all" ? undefined : namespace;
}
