import { readFile } from "node:fs/promises";
import type { KubeConfig } from "@kubernetes/client-node";
import { throwFault } from "@muster/faults";
import { makeKubeCalls, withKubeFault, type KubeCalls, type KubeObject } from "@muster/kube";
import type { LeaseCluster, RequestClusterAccess } from "../types/workload.ts";
import type { KubeConfiguration } from "../config.ts";
import { openCrashWatch } from "./crash-watch.ts";
import type { CrashWatch } from "../lead/wake-leases.ts";
import { withLeaseRights } from "./lease-rights.ts";
import { makeLeaseObjects } from "./lease-objects.ts";

export type Cluster = LeaseCluster & {
  /** Id of this installation. */
  readonly installation: string;
  readonly calls: KubeCalls;
  readonly crashes: CrashWatch;
};

const CALL_TIMEOUT_MS = 10_000;

/** Opens the clients of the cluster, even while the API server is unavailable. Disposing cancels calls in flight. */
export function openCluster(
  config: KubeConfig,
  rest: Omit<KubeConfiguration, "kubeconfig"> & Pick<Cluster, "installation">,
  onProblem: (error: unknown, retryInMs: number) => void,
): Cluster & AsyncDisposable {
  const opened = new AsyncDisposableStack();
  const calls = withLeaseRights(opened.use(makeKubeCalls(config, { timeoutMs: CALL_TIMEOUT_MS })), rest.namespace);
  const crashes = opened.use(openCrashWatch(config, rest.namespace, onProblem));
  const accessOf = makeRequestAccess(config, calls, rest.slices.url);
  const dispose = (): Promise<void> => opened.disposeAsync();
  const objects = makeLeaseObjects(calls, rest.installation);
  return { ...rest, calls, objects, crashes, accessOf, [Symbol.asyncDispose]: dispose };
}

type TokenRequest = KubeObject & {
  readonly spec: { readonly expirationSeconds: number };
  readonly status?: { readonly token?: string; readonly expirationTimestamp?: string };
};

/**
 * Requests tokens of service accounts. `url` is the address of the API server for users, if it differs from the engine's address. Rejects as LeaseObjects do.
 */
export function makeRequestAccess(config: KubeConfig, calls: KubeCalls, url: string | undefined): RequestClusterAccess {
  const cluster = config.getCurrentCluster();
  return async ({ name, namespace }, expirationSeconds, signal) => {
    const request: TokenRequest = {
      apiVersion: "authentication.k8s.io/v1",
      kind: "TokenRequest",
      metadata: { name },
      spec: { expirationSeconds },
    };
    const accounts = { apiVersion: "v1", plural: "serviceaccounts", namespace };
    const { status } = await withKubeFault(calls.create(accounts, request, { subresource: "token", signal }));
    const { token, expirationTimestamp } = status ?? {};
    if (token === undefined || expirationTimestamp === undefined)
      return throwFault({ code: "unavailable", dependency: "tokens of kubernetes", retryAfterMs: 0 });
    return {
      url: url ?? cluster?.server ?? "",
      ca: await readAuthority(cluster),
      token,
      expiresAt: expirationTimestamp,
    };
  };
}

async function readAuthority(cluster: ReturnType<KubeConfig["getCurrentCluster"]>): Promise<string | undefined> {
  if (cluster?.caData !== undefined) return Buffer.from(cluster.caData, "base64").toString();
  return cluster?.caFile === undefined ? undefined : readFile(cluster.caFile, "utf8");
}
