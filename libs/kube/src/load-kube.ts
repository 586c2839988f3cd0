import { KubeConfig } from "@kubernetes/client-node";

/** Loads a kubeconfig file, or the pod's own service account when no file is named. Never KUBECONFIG: which cluster is meant is said on purpose. */
export function loadKube(file: string | undefined): KubeConfig {
  const config = new KubeConfig();
  if (file === undefined) config.loadFromCluster();
  else config.loadFromFile(file);
  return config;
}
