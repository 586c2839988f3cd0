import type { KubeConfig } from "@kubernetes/client-node";
import { kubeCalls, type KubeCalls } from "@muster/kube";
import type { KubeConfiguration } from "../config.ts";
import { clusterAccess, type AccessOf } from "./cluster-access.ts";
import { openCrashWatch, type CrashWatch } from "./crash-watch.ts";
import { withLeaseRights } from "./lease-rights.ts";
import { leaseObjects, type LeaseObjects } from "./lease-objects.ts";

/** The Kubernetes cluster that leases live in. */
export type Cluster = Omit<KubeConfiguration, "kubeconfig"> & {
  /** Id of ours. */
  readonly installation: string;
  readonly calls: KubeCalls;
  readonly objects: LeaseObjects;
  readonly crashes: CrashWatch;
  readonly accessOf: AccessOf;
};

const CALL_TIMEOUT_MS = 10_000;

/** Opens what is needed of it, also while the API server is away. Disposing cuts the calls that are under way. */
export function openCluster(
  config: KubeConfig,
  rest: Omit<KubeConfiguration, "kubeconfig"> & Pick<Cluster, "installation">,
  onProblem: (error: unknown, retryInMs: number) => void,
): Cluster & AsyncDisposable {
  const opened = new AsyncDisposableStack();
  const calls = withLeaseRights(opened.use(kubeCalls(config, { timeoutMs: CALL_TIMEOUT_MS })), rest.namespace);
  const crashes = opened.use(openCrashWatch(config, rest.namespace, onProblem));
  const accessOf = clusterAccess(config, calls, rest.slices.url);
  const dispose = (): Promise<void> => opened.disposeAsync();
  const objects = leaseObjects(calls, rest.installation);
  return { ...rest, calls, objects, crashes, accessOf, [Symbol.asyncDispose]: dispose };
}
