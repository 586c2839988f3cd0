import { fork } from "node:child_process";
import { once } from "node:events";
import { readdir, readFile, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { KubeConfig, CoreV1Api } from "@kubernetes/client-node";
import { describe, expect, it } from "vitest";
import { startKubeApiServer, findKubeAssets } from "./kube-apiserver.ts";
import { until } from "./until.ts";

describe("the folder of a real API server", () => {
  it("is skipped when the variable is unset, with a reason that names the variable", () => {
    const assets = findKubeAssets({});
    expect(assets.found ? "" : assets.reason).toContain("KUBEBUILDER_ASSETS is not set; set KUBEBUILDER_ASSETS");
  });

  it("names the programs that it lacks", () => {
    const assets = findKubeAssets({ KUBEBUILDER_ASSETS: import.meta.dirname });
    expect(assets.found ? "" : assets.reason).toContain("has no kube-apiserver and no etcd");
  });

  it("must be there in CI", () => {
    expect(() => findKubeAssets({ CI: "true" })).toThrow("KUBEBUILDER_ASSETS is not set");
  });
});

const assets = findKubeAssets();
const skipped = assets.found ? "" : ` (skipped: ${assets.reason})`;

describe.skipIf(!assets.found)(`a real kube-apiserver${skipped}`, () => {
  it("starts, lets its administrator in, and refuses others", async () => {
    await using server = await startKubeApiServer();
    const config = new KubeConfig();
    config.loadFromFile(server.kubeconfig);
    const namespaces = await config.makeApiClient(CoreV1Api).listNamespace();
    expect(namespaces.items.map((namespace) => namespace.metadata?.name)).toContain("default");
    config.users[0] = { ...config.users[0], name: "admin", token: "wrong" };
    await expect(config.makeApiClient(CoreV1Api).listNamespace()).rejects.toMatchObject({ code: 401 });
  });

  it.skipIf(process.platform !== "linux")("ends with a test process that is killed", async () => {
    const parent = fork(join(import.meta.dirname, "kube-parent.process.ts"));
    const [{ kubeconfig }] = (await once(parent, "message")) as [{ kubeconfig: string }];
    const directory = dirname(kubeconfig);
    const before = await processesOf(directory);
    parent.kill("SIGKILL");
    await once(parent, "exit");
    await until("nothing of it runs", async () => (await processesOf(directory)).length === 0);
    await rm(directory, { recursive: true });
    expect(before.length).toBeGreaterThanOrEqual(2);
  });
});

/** Processes that name the directory on their command line, from /proc. */
async function processesOf(directory: string): Promise<string[]> {
  const numbers = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  const lines = await Promise.all(numbers.map((id) => readFile(`/proc/${id}/cmdline`, "utf8").catch(() => "")));
  return lines.filter((line) => line.includes(directory));
}
