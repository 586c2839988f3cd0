import { readNatsAccess, type NatsAccess } from "@muster/bus";
import { throwFault } from "@muster/faults";
import { readEnv } from "@muster/service";
import { readSelector } from "./domain/eligible-nodes.ts";
import type { SetPolicy } from "./domain/set-snapshot.ts";

export type Config = {
  readonly nats: NatsAccess;
  readonly kube: { readonly kubeconfig: string | undefined; readonly namespace: string };
  /** A selector on the labels of sets: other sets are not for this farm. */
  readonly rcSelector: string;
  /** A farm that is silent for this long loses its sets. */
  readonly sessionTtlMs: number;
  /** The maximum age of the watcher's mark that all nodes are known. */
  readonly nodesFreshMs: number;
  /** A pod past its grace period is removed by force when its node has been not ready for this long. */
  readonly nodeLostMs: number;
  /** Pods that are not ready, and rolling updates that wait, raise an alert after this. */
  readonly unhealthyMs: number;
  /** Between passes over a set without changes. */
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
    kube: { kubeconfig: read.optional("MUSTER_KUBECONFIG"), namespace: read.text("MUSTER_NAMESPACE", "default") },
    rcSelector: read.optional("FARM_RC_SELECTOR") ?? "",
    sessionTtlMs: read.integer("FARM_SESSION_TTL_MS", { fallback: 5000, min: 300, max: 600_000 }),
    nodesFreshMs: read.integer("FARM_NODES_FRESH_MS", { fallback: 120_000, min: 1000, max: DAY_MS }),
    nodeLostMs: read.integer("FARM_NODE_LOST_MS", { fallback: 300_000, min: 0, max: DAY_MS }),
    unhealthyMs: read.integer("FARM_UNHEALTHY_MS", { fallback: 300_000, min: 100, max: DAY_MS }),
    resyncMs: read.integer("FARM_RESYNC_MS", { fallback: 30_000, min: 100, max: DAY_MS }),
    sweepMs: read.integer("FARM_SWEEP_MS", { fallback: 60_000, min: 100, max: DAY_MS }),
    policy: {
      nodeGraceMs: read.integer("FARM_NODE_GRACE_MS", { fallback: 60_000, min: 0, max: DAY_MS }),
      machinesGoneMs: read.integer("FARM_MACHINES_GONE_MS", { fallback: 300_000, min: 0, max: DAY_MS }),
      transferMs: read.integer("FARM_TRANSFER_MS", { fallback: 300_000, min: 100, max: DAY_MS }),
      transferRetry: {
        firstMs: read.integer("FARM_TRANSFER_RETRY_MS", { fallback: 10_000, min: 10, max: DAY_MS }),
        mostMs: read.integer("FARM_TRANSFER_RETRY_MOST_MS", { fallback: 600_000, min: 10, max: DAY_MS }),
      },
    },
    webhook: read.optional("FARM_ALERT_WEBHOOK_URL"),
  }));
  const { rcSelector, webhook } = config;
  readSelector("FARM_RC_SELECTOR", rcSelector);
  if (webhook !== undefined && !/^https?:/.test(URL.parse(webhook)?.protocol ?? "")) {
    // The URL may contain a secret.
    const reason = "is no http or https URL, such as https://alerts.example/hook";
    throwFault({ code: "invalid_request", field: "FARM_ALERT_WEBHOOK_URL", reason });
  }
  return config;
}
