import { KubeConfig, CoreV1Api } from "@kubernetes/client-node";
import { describe, expect, it } from "vitest";
import { kubeApiServer, kubeAssets } from "./kube-apiserver.ts";

describe("the folder of a real API server", () => {
  it("is not there when the variable is unset, and the reason says how to have it", () => {
    const assets = kubeAssets({});
    expect(assets.found ? "" : assets.reason).toContain("KUBEBUILDER_ASSETS is not set; set KUBEBUILDER_ASSETS");
  });

  it("names the programs that it lacks", () => {
    const assets = kubeAssets({ KUBEBUILDER_ASSETS: import.meta.dirname });
    expect(assets.found ? "" : assets.reason).toContain("has no kube-apiserver and no etcd");
  });

  it("must be there in CI", () => {
    expect(() => kubeAssets({ CI: "true" })).toThrow("KUBEBUILDER_ASSETS is not set");
  });
});

const assets = kubeAssets();
const skipped = assets.found ? "" : ` (skipped: ${assets.reason})`;

describe.skipIf(!assets.found)(`a real kube-apiserver${skipped}`, () => {
  it("starts, lets its administrator in, and refuses others", async () => {
    await using server = await kubeApiServer();
    const config = new KubeConfig();
    config.loadFromFile(server.kubeconfig);
    const namespaces = await config.makeApiClient(CoreV1Api).listNamespace();
    expect(namespaces.items.map((namespace) => namespace.metadata?.name)).toContain("default");
    config.users[0] = { ...config.users[0], name: "admin", token: "wrong" };
    await expect(config.makeApiClient(CoreV1Api).listNamespace()).rejects.toMatchObject({ code: 401 });
  });
});
