import { readNatsAccess, type NatsAccess } from "@muster/bus";
import { readEnv } from "@muster/service";
import type { WatcherPolicy } from "./domain/plan-pass.ts";

export type Config = {
  readonly nats: NatsAccess;
  readonly kube: {
    readonly kubeconfig: string | undefined;
    readonly relistEveryMs: number;
  };
  readonly ageLimitMs: number;
  readonly systemNamespaces: readonly string[];
  readonly policy: WatcherPolicy;
};

const DAY_MS = 86_400_000;

const DNS_LABEL = "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?";
const SYSTEM_NAMESPACES = {
  fallback: "kube-system",
  pattern: new RegExp(`^${DNS_LABEL}(,${DNS_LABEL})*$`),
  needed: "comma-separated namespaces are needed, each a DNS label, such as kube-system,monitoring",
};

/** Reads the configuration; throws one fault that names every problem. */
export function readConfig(env: Readonly<Record<string, string | undefined>>): Config {
  return readEnv(env, (read) => ({
    nats: readNatsAccess(read),
    kube: {
      /** Kubeconfig file of the cluster. Without it, the service account of the pod. */
      kubeconfig: read.optional("MUSTER_KUBECONFIG"),
      /** Interval of full lists, in addition to the watch. */
      relistEveryMs: read.integer("WATCHER_RELIST_MS", { fallback: 600_000, min: 1000, max: DAY_MS }),
    },
    // A quiet API server speaks once a minute, when it sends its bookmarks.
    /** A view that has received nothing for longer is not published, and `/readyz` reports it. */
    ageLimitMs: read.integer("WATCHER_AGE_LIMIT_MS", { fallback: 180_000, min: 1000, max: DAY_MS }),
    /** Comma-separated namespaces whose pods count as overhead of their nodes, like the pods of DaemonSets. */
    systemNamespaces: read.matching("WATCHER_SYSTEM_NAMESPACES", SYSTEM_NAMESPACES).split(","),
    policy: {
      /** The namespace whose pods are published, beside those of sessions in others. All other pods only use nodes. */
      namespace: read.text("MUSTER_NAMESPACE", "default"),
      /** How long trouble with images, configuration or scheduling may last before the pod is FAILED. */
      startGraceMs: read.integer("WATCHER_START_GRACE_MS", { fallback: 120_000, min: 0, max: DAY_MS }),
      // As long as Kubernetes' own garbage collector of pods waits.
      /** How long the node of a pod may be missing before the pod is FAILED. */
      nodeGraceMs: read.integer("WATCHER_NODE_GRACE_MS", { fallback: 40_000, min: 0, max: DAY_MS }),
      /** Time for which the last state of a deleted object is kept. */
      keepDeletedMs: read.integer("WATCHER_KEEP_DELETED_MS", { fallback: 600_000, min: 0, max: DAY_MS }),
    },
  }));
}
