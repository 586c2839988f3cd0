import { readNatsAccess, type NatsAccess } from "@muster/bus";
import { throwFault } from "@muster/faults";
import { readLabelSelector } from "@muster/names";
import { readEnv } from "@muster/service";
import type { SetPolicy } from "./domain/set-snapshot.ts";

export type Config = {
  readonly nats: NatsAccess;
  readonly kube: { readonly kubeconfig: string | undefined; readonly namespace: string };
  readonly rcSelector: string;
  readonly sessionTtlMs: number;
  readonly nodesFreshMs: number;
  readonly nodeLostMs: number;
  readonly unhealthyMs: number;
  readonly resyncMs: number;
  readonly sweepMs: number;
  readonly policy: SetPolicy;
  readonly webhook: string | undefined;
};

const DAY_MS = 86_400_000;

/** Reads the configuration; throws one fault that names every problem. */
export function readConfig(env: Readonly<Record<string, string | undefined>>): Config {
  const config = readEnv(env, (read) => ({
    nats: readNatsAccess(read),
    kube: {
      /** Kubeconfig file of the cluster. Without it, the service account of the pod. */
      kubeconfig: read.optional("MUSTER_KUBECONFIG"),
      /** The namespace of the pods of sets. */
      namespace: read.text("MUSTER_NAMESPACE", "default"),
    },
    /** Selector on the labels of sets. The farm owns only sets that match; empty: all. */
    rcSelector: read.optional("FARM_RC_SELECTOR") ?? "",
    /** Other farms take the sets of a farm that is silent for this long. */
    sessionTtlMs: read.integer("FARM_SESSION_TTL_MS", { fallback: 5000, min: 300, max: 600_000 }),
    /** Maximum age of the watcher's mark that all nodes are known. */
    nodesFreshMs: read.integer("FARM_NODES_FRESH_MS", { fallback: 120_000, min: 1000, max: DAY_MS }),
    /** How long a node is not ready before a pod without a placement is force-deleted, after its grace period. */
    nodeLostMs: read.integer("FARM_NODE_LOST_MS", { fallback: 300_000, min: 0, max: DAY_MS }),
    /** Pods that are not ready (`NOT_HEALTHY`) and rollouts that wait (`ROLL_STUCK`) for this long raise an alert. */
    unhealthyMs: read.integer("FARM_UNHEALTHY_MS", { fallback: 300_000, min: 100, max: DAY_MS }),
    /** Interval of passes over a set without changes, and of lists of the ledger. */
    resyncMs: read.integer("FARM_RESYNC_MS", { fallback: 30_000, min: 100, max: DAY_MS }),
    /** Interval of sweeps. The second one removes pods and machines of a set that does not exist. */
    sweepMs: read.integer("FARM_SWEEP_MS", { fallback: 60_000, min: 100, max: DAY_MS }),
    policy: {
      /** How long a node that is not ready stays eligible for a set that is on it. */
      nodeGraceMs: read.integer("FARM_NODE_GRACE_MS", { fallback: 60_000, min: 0, max: DAY_MS }),
      /** How long the ledger must lack all machines of a set before others are requested. */
      machinesGoneMs: read.integer("FARM_MACHINES_GONE_MS", { fallback: 300_000, min: 0, max: DAY_MS }),
      /** A transfer whose new pod is not ready after this time is rolled back. */
      transferMs: read.integer("FARM_TRANSFER_MS", { fallback: 300_000, min: 100, max: DAY_MS }),
      transferRetry: {
        /** Pause after a failed transfer. It doubles each time. */
        firstMs: read.integer("FARM_TRANSFER_RETRY_MS", { fallback: 10_000, min: 10, max: DAY_MS }),
        /** Maximum pause after failed transfers. */
        maxMs: read.integer("FARM_TRANSFER_RETRY_MOST_MS", { fallback: 600_000, min: 10, max: DAY_MS }),
      },
    },
    /** Where alerts are posted as JSON, in addition to bus, log and metric. */
    webhook: read.optional("FARM_ALERT_WEBHOOK_URL"),
  }));
  const { rcSelector, webhook } = config;
  readLabelSelector("FARM_RC_SELECTOR", rcSelector);
  if (webhook !== undefined && !/^https?:/.test(URL.parse(webhook)?.protocol ?? "")) {
    // The URL may contain a secret.
    const reason = "is no http or https URL, such as https://alerts.example/hook";
    throwFault({ code: "invalid_request", field: "FARM_ALERT_WEBHOOK_URL", reason });
  }
  return config;
}
