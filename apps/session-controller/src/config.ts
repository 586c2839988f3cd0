import { SESSION_DEFAULTS } from "@muster/session-limits";
import { readNatsAccess, type NatsAccess } from "@muster/bus";
import { readEnv } from "@muster/service";
import type { SessionPolicy } from "./domain/snapshot.ts";
import type { SweepPolicy } from "./domain/plan-sweep.ts";
import type { SessionDefaults } from "./domain/validate-session.ts";
import type { SubmitLimits } from "./requests.ts";

/** Size of the bucket of sessions. */
export const SESSIONS_BYTES = 2 ** 30;

export type Config = {
  readonly nats: NatsAccess;
  readonly kube: {
    readonly kubeconfig: string | undefined;
    readonly namespace: string;
    readonly sessionNamespaces: "own" | "all";
    readonly poolLabel: string;
    readonly imageDefault: string;
    readonly resultFile: string;
  };
  readonly maxExecutors: number;
  readonly machineLostMs: number;
  readonly lockTtlMs: number;
  readonly workers: number;
  readonly maxFailures: number;
  readonly limits: SubmitLimits;
  readonly defaults: SessionDefaults;
  readonly session: SessionPolicy;
  readonly sweep: SweepPolicy & { readonly everyMs: number };
  readonly logs: {
    readonly perContainerBytes: number;
    /** Maximum number of concurrent log reads in one process. */
    readonly readAtOnce: number;
    readonly totalBytes: number;
    readonly patienceMs: number;
    readonly resultPatienceMs: number;
  };
};

const DAY_MS = 86_400_000;
/** Limit for all logs of a session together, because its terminal event waits for them. */
export const MAX_LOGS_MS = 60_000;
/** Maximum size of all concurrent log reads in one process; a single log may be larger. */
const MAX_LOGS_READ_BYTES = 64 * 2 ** 20;
/** Above this size, new sessions are refused, so that existing sessions can still be written. */
const MAX_STORED_BYTES = 0.8 * SESSIONS_BYTES;

/** Reads the configuration; throws one fault that names every problem. */
export function readConfig(env: Readonly<Record<string, string | undefined>>): Config {
  return readEnv(env, (read) => {
    /** A leader that is silent for this long is replaced. */
    const lockTtlMs = read.integer("SESSION_LOCK_TTL_MS", { fallback: 5000, min: 300, max: 600_000 });
    /** Size of the kept end of a container's log. */
    const perContainerBytes = read.integer("SESSION_LOG_LIMIT_BYTES", { fallback: 2 ** 20, min: 1024, max: 2 ** 28 });
    /** How long a node is not ready before its overdue pods are removed by force. */
    const nodeLostMs = read.integer("SESSION_NODE_LOST_MS", { fallback: 300_000, min: 0, max: DAY_MS });
    return {
      nats: readNatsAccess(read),
      kube: {
        /** Kubeconfig file of the cluster. Without it, the service account of the pod. */
        kubeconfig: read.optional("MUSTER_KUBECONFIG"),
        /** The namespace of the pods of sessions. */
        namespace: read.text("MUSTER_NAMESPACE", "default"),
        /** Namespaces whose sessions run: MUSTER_NAMESPACE (`own`), or also every namespace that a queue serves (`all`). */
        sessionNamespaces: read.oneOf("SESSION_NAMESPACES", ["own", "all"], "own"),
        /** Node label whose value is the name of the pool. */
        poolLabel: read.text("SESSION_POOL_LABEL", "pool"),
        /** Image of components that have only a command. */
        imageDefault: read.text("SESSION_DEFAULT_IMAGE", "busybox:stable"),
        /** File of a driver's result. A relative name is below the HOME of the container. */
        resultFile: read.text("SESSION_RESULT_FILE", "/dev/termination-log"),
      },
      /** Maximum sessions with machines, over all replicas. 0: no limit. */
      maxExecutors: read.integer("SESSION_EXECUTORS", { fallback: 1, min: 0, max: 100_000 }),
      /** A component that has not started gets another machine after its machine was unready, cordoned, tainted or used by foreign pods for this time. */
      machineLostMs: read.integer("SESSION_MACHINE_LOST_MS", { fallback: 30_000, min: 0, max: DAY_MS }),
      lockTtlMs,
      /** Maximum concurrent passes. */
      workers: read.integer("SESSION_WORKERS", { fallback: 64, min: 1, max: 1000 }),
      /** Defects after which a session ends as INTERNAL_ERROR. */
      maxFailures: read.integer("SESSION_FAILURES", { fallback: 5, min: 1, max: 1000 }),
      limits: {
        /** Maximum unfinished sessions. More are refused with a retry time. */
        maxUnfinished: read.integer("SESSION_UNFINISHED", { fallback: 10_000, min: 1, max: 1_000_000 }),
        maxStoredBytes: MAX_STORED_BYTES,
      },
      defaults: {
        /** Default time for provisioning and running. 0: no limit. */
        timeoutMs: read.integer("SESSION_TIMEOUT_MS", {
          fallback: SESSION_DEFAULTS.timeoutMs,
          min: 0,
          max: 7 * DAY_MS,
        }),
        /** Default time in the queue. */
        queueTimeoutMs: read.integer("SESSION_QUEUE_TIMEOUT_MS", {
          fallback: SESSION_DEFAULTS.queueTimeoutMs,
          min: 1000,
          max: 30 * DAY_MS,
        }),
        /** Default time that a finished session is kept, unless it is deleted before. */
        ttlMs: read.integer("SESSION_TTL_MS", { fallback: SESSION_DEFAULTS.ttlMs, min: 1000, max: 30 * DAY_MS }),
        /** Default time from SIGTERM to SIGKILL. */
        killAfterMs: read.integer("SESSION_KILL_AFTER_MS", {
          fallback: SESSION_DEFAULTS.killAfterMs,
          min: 1000,
          max: 600_000,
        }),
        /** Default port on which workers are driven. */
        workerPort: read.integer("SESSION_WORKER_PORT", { fallback: SESSION_DEFAULTS.workerPort, min: 1, max: 65_535 }),
      },
      session: {
        /** Maximum time of a clean-up, before the sweep continues it. */
        cleanupLimitMs: read.integer("SESSION_CLEANUP_LIMIT_MS", { fallback: 120_000, min: 100, max: DAY_MS }),
        /** Interval of checks of terminating pods whose end no event reports. */
        lookAgainMs: read.integer("SESSION_LOOK_AGAIN_MS", { fallback: 1000, min: 50, max: 60_000 }),
        nodeLostMs,
        /** Maximum wait for the replacement of a machine. Then the session ends as MACHINE_LOST. */
        replacementWaitMs: read.integer("SESSION_REPLACEMENT_WAIT_MS", { fallback: 120_000, min: 0, max: DAY_MS }),
      },
      sweep: {
        /** Interval of sweeps. */
        everyMs: read.integer("SESSION_SWEEP_MS", { fallback: 30_000, min: 100, max: DAY_MS }),
        nodeLostMs,
        /** Age at which objects without an owner are removed. */
        leakAgeMs: read.integer("SESSION_LEAK_AGE_MS", { fallback: 300_000, min: 0, max: DAY_MS }),
      },
      logs: {
        /** How long reading a log is retried. Then the log is lost (`LOGS_LOST`). */
        patienceMs: read.integer("SESSION_LOG_PATIENCE_MS", { fallback: 20_000, min: 0, max: MAX_LOGS_MS }),
        /** The same for the driver's log (`RESULT_LOST`). All logs of a session have 60000 together. */
        resultPatienceMs: read.integer("SESSION_RESULT_PATIENCE_MS", {
          fallback: MAX_LOGS_MS,
          min: 0,
          max: MAX_LOGS_MS,
        }),
        perContainerBytes,
        readAtOnce: Math.max(1, Math.floor(MAX_LOGS_READ_BYTES / perContainerBytes)),
        /** Maximum size of all kept logs. */
        totalBytes: read.integer("SESSION_LOGS_LIMIT_BYTES", { fallback: 2 ** 30, min: 2 ** 20, max: 2 ** 40 }),
      },
    };
  });
}
