import {
  ApiException,
  CoordinationV1Api,
  CoreV1Api,
  KubeConfig,
  makeInformer,
  PatchStrategy,
  setHeaderOptions,
  V1MicroTime,
  Watch,
} from "@kubernetes/client-node";
import { until } from "@muster/testkit";
import { beforeAll, expect, it } from "vitest";
import type { Api } from "./api.ts";

/** The client that services use. */
export function describeClient(api: () => Api): void {
  let config: KubeConfig;
  let core: CoreV1Api;
  let namespace: string;
  beforeAll(async () => {
    config = new KubeConfig();
    config.loadFromFile(api().cluster.kubeconfig);
    core = config.makeApiClient(CoreV1Api);
    namespace = await api().namespace();
  });
  const podBody = (name: string): Parameters<CoreV1Api["createNamespacedPod"]>[0]["body"] => ({
    metadata: { name, labels: { by: "client" } },
    spec: { containers: [{ name: "main", image: "program:1" }] },
  });

  it("creates, reads, replaces, patches, lists and deletes with types", async () => {
    const made = await core.createNamespacedPod({ namespace, body: podBody("typed") });
    expect(made.metadata?.creationTimestamp).toBeInstanceOf(Date);
    const read = await core.readNamespacedPod({ namespace, name: "typed" });
    expect(read.spec?.terminationGracePeriodSeconds).toBe(30);
    read.metadata!.labels = { by: "client", changed: "yes" };
    const replaced = await core.replaceNamespacedPod({ namespace, name: "typed", body: read });
    expect(replaced.metadata?.labels).toEqual({ by: "client", changed: "yes" });
    const patched = await core.patchNamespacedPod(
      { namespace, name: "typed", body: { metadata: { annotations: { a: "b" } } } },
      setHeaderOptions("Content-Type", PatchStrategy.MergePatch),
    );
    expect(patched.metadata?.annotations).toEqual({ a: "b" });
    const listed = await core.listNamespacedPod({ namespace, labelSelector: "changed=yes" });
    expect(listed.items.map((item) => item.metadata?.name)).toEqual(["typed"]);
    await core.deleteNamespacedPod({ namespace, name: "typed" });
    await expect(core.readNamespacedPod({ namespace, name: "typed" })).rejects.toBeInstanceOf(ApiException);
  });

  it("gets the code and the reason of a refusal", async () => {
    await core.createNamespacedPod({ namespace, body: podBody("twice") });
    const refused = await core
      .createNamespacedPod({ namespace, body: podBody("twice") })
      .catch((error: unknown) => error);
    expect(refused).toMatchObject({ code: 409 });
    expect(String(refused)).toContain("AlreadyExists");
  });

  it("binds a pod and writes its status", async () => {
    await core.createNamespacedPod({ namespace, body: podBody("bound") });
    await core.createNamespacedPodBinding({
      namespace,
      name: "bound",
      body: { metadata: { name: "bound" }, target: { apiVersion: "v1", kind: "Node", name: "node-1" } },
    });
    const read = await core.readNamespacedPod({ namespace, name: "bound" });
    expect(read.spec?.nodeName).toBe("node-1");
    read.status!.phase = "Running";
    const written = await core.replaceNamespacedPodStatus({ namespace, name: "bound", body: read });
    expect(written.status?.phase).toBe("Running");
  });

  it("renews leases with their microseconds", async () => {
    const leases = config.makeApiClient(CoordinationV1Api);
    const renewTime = new V1MicroTime("2026-01-02T03:04:05.123456Z");
    const made = await leases.createNamespacedLease({
      namespace,
      body: { metadata: { name: "lease" }, spec: { renewTime, holderIdentity: "a" } },
    });
    made.spec!.holderIdentity = "b";
    const renewed = await leases.replaceNamespacedLease({ namespace, name: "lease", body: made });
    expect(renewed.spec?.holderIdentity).toBe("b");
  });

  it("watches", async () => {
    const seen: string[] = [];
    const stop = await new Watch(config).watch(
      `/api/v1/namespaces/${namespace}/configmaps`,
      { labelSelector: "watched" },
      (type) => seen.push(type),
      () => undefined,
    );
    const metadata = { name: "watched", labels: { watched: "" } };
    await core.createNamespacedConfigMap({ namespace, body: { metadata } });
    await core.replaceNamespacedConfigMap({ namespace, name: "watched", body: { metadata, data: { a: "b" } } });
    await core.deleteNamespacedConfigMap({ namespace, name: "watched" });
    await until("all three events came", () => seen.length === 3);
    expect(seen).toEqual(["ADDED", "MODIFIED", "DELETED"]);
    stop.abort();
  });

  it("keeps an informer up to date", async () => {
    const path = `/api/v1/namespaces/${namespace}/secrets`;
    const informer = makeInformer(config, path, () => core.listNamespacedSecret({ namespace }));
    await core.createNamespacedSecret({ namespace, body: { metadata: { name: "before" } } });
    await informer.start();
    await core.createNamespacedSecret({ namespace, body: { metadata: { name: "after" } } });
    await until("both are there", () =>
      ["before", "after"].every((name) => informer.get(name, namespace) !== undefined),
    );
    await informer.stop();
  });
}
