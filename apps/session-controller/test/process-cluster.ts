import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { CoreV1Api } from "@kubernetes/client-node";
import { startKubelet, startScheduler } from "@muster/devcluster";
import { kubeClient, loadKube } from "@muster/kube";
import { kubeApiServer } from "@muster/testkit";
import type { TestCluster } from "./world.ts";

/** A real API server whose pods are real processes, with real logs. */
export async function processCluster(pools: Readonly<Record<string, number>>): Promise<TestCluster> {
  const stack = new AsyncDisposableStack();
  const server = stack.use(await kubeApiServer());
  const directory = await mkdtemp(join(tmpdir(), "muster-sessions-"));
  stack.defer(() => rm(directory, { recursive: true, force: true }));
  const kubeconfig = loadKube(server.kubeconfig);
  const nodes = Object.entries(pools).flatMap(([pool, count]) =>
    Array.from({ length: count }, (_, index) => ({ pool, nodeName: `${pool}-${index}` })),
  );
  for (const [nodeIndex, { pool, nodeName }] of nodes.entries()) {
    stack.use(
      await startKubelet({
        kubeconfig,
        nodeName,
        nodeIndex,
        directory: join(directory, nodeName),
        labels: { pool },
        access: { clientCa: server.kubeletClientCa },
        stopGraceMs: 200,
      }),
    );
  }
  stack.use(await startScheduler({ kubeconfig }));
  return {
    kubeconfig: server.kubeconfig,
    api: kubeClient(kubeconfig, CoreV1Api, { timeoutMs: 10_000 }),
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}
