import type { V1Deployment } from "@kubernetes/client-node";
import { throwFault } from "@muster/faults";
import { isForbidden, makeKubeCalls, loadKube } from "@muster/kube";

const DEPLOYMENTS = { apiVersion: "apps/v1", plural: "deployments" };
/** The label that the chart sets. */
const OF_MUSTER = "app.kubernetes.io/part-of=muster";

/**
 * Rejects with FaultError invalid_request where a Muster is installed in the cluster: both would grant the same machines and run each job. A kubeconfig that
 * may not list deployments passes unchecked.
 */
export async function refuseBesideAnother(kubeconfig: string, signal: AbortSignal): Promise<void> {
  await using calls = makeKubeCalls(loadKube(kubeconfig));
  let found: readonly V1Deployment[];
  try {
    found = (await calls.list<V1Deployment>(DEPLOYMENTS, { query: { labelSelector: OF_MUSTER }, signal })).items;
  } catch (error) {
    if (isForbidden(error)) return;
    throw error;
  }
  const running = found.filter(({ spec }) => spec?.replicas !== 0);
  if (running.length === 0) return;
  const names = running.map(({ metadata }) => `${metadata?.namespace ?? ""}/${metadata?.name ?? ""}`).sort();
  throwFault({
    code: "invalid_request",
    field: `cluster of ${kubeconfig}`,
    reason:
      `a Muster is installed in it (deployments ${names.join(", ")}); both would grant the same machines and run each job. ` +
      "Use the installed one, or end its work and uninstall it first",
  });
}
