import { CoreV1Api } from "@kubernetes/client-node";
import { attachNodes } from "@muster/devcluster";
import { loadKube } from "@muster/kube";
import { makeKubeClient } from "@muster/testkit";
import type { TestApiServer } from "@muster/testkit";
import type { TestCluster } from "./world.ts";

/** A cluster whose pods are real processes with real logs. Disposing also stops the API server. */
export async function processCluster(
  server: TestApiServer,
  pools: Readonly<Record<string, number>>,
): Promise<TestCluster> {
  const stack = new AsyncDisposableStack();
  const { kubeconfig } = stack.use(server);
  const named = Object.entries(pools).map(([name, nodes]) => ({ name, nodes }));
  stack.use(await attachNodes({ kubeconfig, pools: named, stopGraceMs: 200, ...server.nodeOptions }));
  return {
    kubeconfig,
    api: makeKubeClient(loadKube(kubeconfig), CoreV1Api, { timeoutMs: 60_000 }),
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}
