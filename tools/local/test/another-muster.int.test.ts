import type { V1Deployment } from "@kubernetes/client-node";
import { makeKubeCalls, loadKube } from "@muster/kube";
import { startKubeApiServer, findKubeAssets } from "@muster/testkit";
import { describe, expect, it } from "vitest";
import { refuseBesideAnother } from "../src/another-muster.ts";
import { startWorld } from "./stack-world.ts";

const assets = findKubeAssets();
const RESOURCE = { apiVersion: "apps/v1", plural: "deployments", namespace: "default" };

describe.skipIf(!assets.found)(`on a real kube-apiserver (${assets.found ? assets.directory : assets.reason})`, () => {
  it("refuses a cluster in which a Muster is installed, and names its deployments", async () => {
    await using server = await startKubeApiServer();
    await using calls = makeKubeCalls(loadKube(server.kubeconfig));
    await calls.create(RESOURCE, deployment("unlike", { app: "unlike" }));
    await refuseBesideAnother(server.kubeconfig, AbortSignal.timeout(60_000));
    await calls.create(RESOURCE, deployment("session-controller", { "app.kubernetes.io/part-of": "muster" }));
    await expect(startWorld({ kubeconfig: server.kubeconfig })).rejects.toThrow(
      /a Muster is installed in it \(deployments default\/session-controller\)/,
    );
    // An installation that is scaled to zero does not conflict.
    await calls.patch(RESOURCE, "session-controller", { kind: "merge", body: { spec: { replicas: 0 } } });
    await refuseBesideAnother(server.kubeconfig, AbortSignal.timeout(60_000));
  });
});

function deployment(name: string, labels: Readonly<Record<string, string>>): V1Deployment {
  const selector = { app: name };
  const template = { metadata: { labels: selector }, spec: { containers: [{ name: "main", image: "i" }] } };
  return {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { name, labels: { ...labels } },
    spec: { selector: { matchLabels: selector }, template },
  };
}
