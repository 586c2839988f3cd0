import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { AppsV1Api, CoreV1Api } from "@kubernetes/client-node";
import { loadKube, unlessMissing } from "@muster/kube";
import { makeKubeClient, until } from "@muster/testkit";
import { expect, it } from "vitest";
import { startApiServer, startDevCluster } from "../src/index.ts";

it("runs workloads in their own namespace as processes, and ends them with it", async () => {
  const directory = await mkdtemp(join(tmpdir(), "muster-workloads-"));
  await using cleanup = new AsyncDisposableStack();
  cleanup.defer(() => rm(directory, { recursive: true, force: true }));
  const errors: string[] = [];
  const cluster = await startDevCluster({
    directory,
    pools: [{ name: "workers", nodes: 1 }],
    stopGraceMs: 200,
    onError: (error, doing) => errors.push(`${doing}: ${String(error)}`),
  });
  cleanup.use(cluster);
  const kubeconfig = loadKube(cluster.kubeconfig);
  const core = makeKubeClient(kubeconfig, CoreV1Api, { timeoutMs: 30_000 });
  const apps = makeKubeClient(kubeconfig, AppsV1Api, { timeoutMs: 30_000 });
  const namespace = "tenant";
  await core.createNamespace({ body: { metadata: { name: namespace } } });
  const template = (app: string) => ({
    metadata: { labels: { app } },
    spec: {
      terminationGracePeriodSeconds: 0,
      containers: [{ name: "main", image: "program:1", command: ["sleep", "3600"] }],
    },
  });
  const selector = (app: string) => ({ matchLabels: { app } });
  await apps.createNamespacedDeployment({
    namespace,
    body: {
      metadata: { name: "web" },
      spec: { strategy: { type: "Recreate" }, selector: selector("web"), template: template("web") },
    },
  });
  await apps.createNamespacedStatefulSet({
    namespace,
    body: {
      metadata: { name: "db" },
      spec: { replicas: 1, selector: selector("db"), template: template("db") },
    },
  });
  await until("everything is available", async () => {
    const web = await apps.readNamespacedDeployment({ namespace, name: "web" });
    const db = await apps.readNamespacedStatefulSet({ namespace, name: "db" });
    return web.status?.availableReplicas === 1 && db.status?.availableReplicas === 1;
  });
  const rolling = { strategy: { type: "RollingUpdate" }, selector: selector("rolls"), template: template("rolls") };
  await expect(
    apps.createNamespacedDeployment({ namespace, body: { metadata: { name: "rolls" }, spec: rolling } }),
  ).rejects.toThrow(/501[^]*spec\.strategy.*--kubeconfig/);
  await core.deleteNamespace({ name: namespace });
  await until(
    "the namespace is gone",
    async () => (await unlessMissing(core.readNamespace({ name: namespace }))) === undefined,
  );
  expect((await core.listPodForAllNamespaces()).items).toEqual([]);
  expect(errors).toEqual([]);
});

it("names --kubeconfig in its answer to features that only a real cluster serves", async () => {
  const directory = await mkdtemp(join(tmpdir(), "muster-not-served-"));
  await using cleanup = new AsyncDisposableStack();
  cleanup.defer(() => rm(directory, { recursive: true, force: true }));
  const server = cleanup.use(await startApiServer({ directory }));
  const apps = makeKubeClient(loadKube(server.kubeconfig), AppsV1Api, { timeoutMs: 30_000 });
  const labels = { app: "web" };
  const template = { metadata: { labels }, spec: { containers: [{ name: "main", image: "program:1" }] } };
  const create = (spec: object) =>
    apps.createNamespacedDeployment({
      namespace: "default",
      body: { metadata: { name: "web" }, spec: { selector: { matchLabels: labels }, template, ...spec } },
    });
  await expect(create({ replicas: 2 })).rejects.toThrow(/501[^]*spec\.replicas 2.*--kubeconfig/);
  await create({ replicas: 0 });
  await expect(apps.readNamespacedDeploymentScale({ namespace: "default", name: "web" })).rejects.toThrow(
    /501[^]*scale.*--kubeconfig/,
  );
  await expect(apps.listNamespacedDaemonSet({ namespace: "default" })).rejects.toThrow(/404[^]*--kubeconfig/);
});
