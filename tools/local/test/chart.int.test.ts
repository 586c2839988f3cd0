import { execFile } from "node:child_process";
import { mkdtempDisposable, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import type { V1StatefulSet } from "@kubernetes/client-node";
import { type ServiceName, SERVICES } from "@muster/repo/services";
import { startKubeApiServer, findKubeAssets, buildProcessEnv, type TestKubeApiServer } from "@muster/testkit";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { grantAccess } from "../src/cluster-access.ts";
import { ROOT } from "../src/root.ts";
import { CHART, buildValueArguments, runHelm, describeMissingHelm, renderChart } from "./helm.ts";

const assets = findKubeAssets();
const missing = assets.found ? await describeMissingHelm() : assets.reason;
const SYSTEM = "muster-system";

describe.skipIf(missing !== undefined)(
  `the Helm chart on a real API server${missing === undefined ? "" : ` (skipped: ${missing})`}`,
  { timeout: 120_000 },
  () => {
    let server: TestKubeApiServer;
    let home: Awaited<ReturnType<typeof mkdtempDisposable>>;
    let env: NodeJS.ProcessEnv;
    const kubectl = async (words: string) =>
      (await promisify(execFile)("kubectl", words.split(" "), { env, maxBuffer: 64 * 1024 * 1024 })).stdout;
    /** Omits hooks, because no controller runs their Job here. */
    const install = (verb: "install" | "upgrade", values: object, namespace = SYSTEM) =>
      runHelm(
        [
          verb,
          "muster",
          CHART,
          "--namespace",
          namespace,
          "--no-hooks",
          "--take-ownership",
          ...buildValueArguments(values),
        ],
        env,
      );

    beforeAll(async () => {
      server = await startKubeApiServer();
      // Without a home directory, kubectl writes its discovery cache into the working directory.
      home = await mkdtempDisposable(join(tmpdir(), "muster-chart-"));
      env = { ...buildProcessEnv(), KUBECONFIG: server.kubeconfig, HOME: home.path };
      await kubectl(`create namespace ${SYSTEM}`);
    }, 120_000);
    afterEach(() => runHelm(["uninstall", "muster", "--namespace", SYSTEM, "--no-hooks", "--ignore-not-found"], env));
    afterAll(async () => {
      await server[Symbol.asyncDispose]();
      await home.remove();
    });

    it("refuses to change the number of NATS servers in place, and changes it by the steps of the docs", async () => {
      await using directory = await mkdtempDisposable(join(tmpdir(), "muster-chart-"));
      await install("install", { "nats.replicas": 1 });
      // No StatefulSet controller creates claims here.
      await writeFile(join(directory.path, "claim.json"), JSON.stringify(claimOf("data-nats-0")));
      await kubectl(`apply -f ${directory.path}/claim.json`);
      const differs = /nats.replicas is 3, and NATS was installed with 1: .*docs\/beyond-one-cluster.md/;
      await expect(install("upgrade", { "nats.replicas": 3 })).rejects.toThrow(differs);
      await kubectl(`-n ${SYSTEM} scale statefulset nats --replicas 0`);
      await expect(install("upgrade", { "nats.replicas": 3 })).rejects.toThrow(differs);
      await expect(install("upgrade", { "nats.replicas": 3, "defaults.replicas": 0 })).rejects.toThrow(differs);

      await kubectl(`-n ${SYSTEM} delete statefulset nats`);
      const empty = /claim data-nats-0 belongs to a NATS with another number .* job-controller, .*defaults.replicas=0/;
      await expect(install("upgrade", { "nats.replicas": 3 })).rejects.toThrow(empty);
      await install("upgrade", { "nats.replicas": 3, "defaults.replicas": 0 });
      await install("upgrade", { "nats.replicas": 3, "defaults.replicas": 2 });
      await expect(install("upgrade", { "nats.replicas": 1 })).rejects.toThrow(
        /nats.replicas is 1, and NATS was installed with 3/,
      );
    });

    it("is installed as documented where the definitions exist already, and then in another namespace", async () => {
      const docs = await readFile(join(ROOT, "docs/real-cluster.md"), "utf8");
      const [line = ""] = /^helm install muster .*$/m.exec(docs) ?? [];
      const words = line.replace("deploy/helm/muster", CHART).replace(" --wait", "").split(" ").slice(1);
      await kubectl("delete crd jobs.muster.dev queues.muster.dev --ignore-not-found");
      await kubectl(`apply --server-side --force-conflicts -f ${join(ROOT, "deploy/crds")}`);
      // The accounts and roles of services outside the cluster exist, too.
      await grantAccess(server.kubeconfig, join(home.path, "access"), { more: ["slices.yaml"] });
      const unasked = words.filter((word) => word !== "--take-ownership");
      await expect(runHelm([...unasked, "--no-hooks"], env)).rejects.toThrow(/invalid ownership metadata/);
      await runHelm([...words, "--no-hooks"], env);
      await runHelm(["uninstall", "muster", "--namespace", SYSTEM, "--no-hooks"], env);

      await kubectl("create namespace other");
      const elsewhere = words.map((word) => (word === SYSTEM ? "other" : word));
      await runHelm([...elsewhere, "--no-hooks"], env);
      await runHelm(["uninstall", "muster", "--namespace", "other", "--no-hooks"], env);
    });

    it("takes no rights from a Muster in another namespace, unless takeOverFrom names it", async () => {
      await kubectl("create namespace second");
      await install("install", {});
      const second = (values: object) => install("install", values, "second");
      const subject = () => kubectl("get clusterrolebinding muster-watcher -o jsonpath={.subjects[*].namespace}");
      const refusal = /Binding muster-[a-z-]+ .* accounts in "muster-system".*takeOverFrom=muster-system/;
      await expect(second({})).rejects.toThrow(refusal);
      await expect(second({ takeOverFrom: "other" })).rejects.toThrow(refusal);
      await expect(second({ services: onlyService("watcher") })).rejects.toThrow(/ClusterRoleBinding muster-watcher/);
      expect(await subject()).toBe(SYSTEM);
      await second({ takeOverFrom: SYSTEM });
      expect(await subject()).toBe("second");
      await runHelm(["uninstall", "muster", "--namespace", "second", "--no-hooks"], env);
    });

    it("does not switch to another NATS, unless nats.movedTo confirms that the state has moved", async () => {
      const url = "tls://nats.example.org:4222";
      const external = { "nats.enabled": false, "nats.url": url };
      await install("install", {});
      const refusal = /nats.url is tls:\/\/nats.example.org:4222, and .* StatefulSet nats .*nats.movedTo=tls:\/\/nats/;
      await expect(install("upgrade", external)).rejects.toThrow(refusal);
      await expect(install("upgrade", { ...external, "nats.movedTo": "tls://elsewhere:4222" })).rejects.toThrow(
        refusal,
      );
      expect(await kubectl(`-n ${SYSTEM} get statefulset -o name`)).toContain("statefulset.apps/nats");
      await install("upgrade", { ...external, "nats.movedTo": url });
      await install("upgrade", external);
      await runHelm(["uninstall", "muster", "--namespace", SYSTEM, "--no-hooks"], env);

      // The user's own StatefulSet may have the same name.
      await using directory = await mkdtempDisposable(join(tmpdir(), "muster-chart-"));
      const objects = await renderChart(SYSTEM);
      const [nats] = objects.filter((each): each is V1StatefulSet => each.kind === "StatefulSet");
      const theirs = { ...nats, metadata: { ...nats?.metadata, labels: {} } };
      await writeFile(join(directory.path, "nats.json"), JSON.stringify(theirs));
      await kubectl(`apply -f ${directory.path}/nats.json`);
      await install("install", external);
      await kubectl(`-n ${SYSTEM} delete statefulset nats`);
    });

    it("enlarges the volume of NATS by the steps of the docs", async () => {
      await using directory = await mkdtempDisposable(join(tmpdir(), "muster-chart-"));
      const docs = await readFile(join(ROOT, "docs/operations.md"), "utf8");
      const [, steps = ""] = /### A larger volume\n[^]*?```sh\n([^]*?)```/.exec(docs) ?? [];
      const [patch = "", , upgrade = ""] = steps.split("\n").map((line) => line.replace(/ +#.*/, ""));
      const sizes = /--set (\S+)/.exec(upgrade)?.[1] ?? "";
      const upgraded = () =>
        runHelm(
          [
            "upgrade",
            "muster",
            CHART,
            "--namespace",
            SYSTEM,
            "--no-hooks",
            "--reset-then-reuse-values",
            "--set",
            sizes,
          ],
          env,
        );
      await install("install", {});
      // No controller here creates volumes, binds claims, or orphans dependents.
      const provisioner = "muster.dev/test";
      const large = { apiVersion: "storage.k8s.io/v1", kind: "StorageClass", metadata: { name: "large" }, provisioner };
      await writeFile(join(directory.path, "class.json"), JSON.stringify({ ...large, allowVolumeExpansion: true }));
      await writeFile(join(directory.path, "claim.json"), JSON.stringify(claimOf("data-nats-0", "large")));
      await kubectl(`delete pvc data-nats-0 -n ${SYSTEM} --ignore-not-found --wait=false`);
      await kubectl(`patch pvc data-nats-0 -n ${SYSTEM} -p {"metadata":{"finalizers":null}}`).catch(() => undefined);
      await kubectl(`apply -f ${directory.path}/class.json -f ${directory.path}/claim.json`);
      await kubectl(`-n ${SYSTEM} patch pvc data-nats-0 --subresource status --patch {"status":{"phase":"Bound"}}`);

      await expect(upgraded()).rejects.toThrow(/updates to statefulset spec .* are forbidden|spec: Forbidden/);
      await kubectl(patch.replace(/^kubectl /, "").replaceAll("'", ""));
      await kubectl(`-n ${SYSTEM} delete statefulset nats --cascade=orphan --wait=false`);
      await kubectl(`-n ${SYSTEM} patch statefulset nats --patch {"metadata":{"finalizers":null}}`);
      await upgraded();
      const requested = "-o jsonpath={.spec.resources.requests.storage}";
      expect(await kubectl(`-n ${SYSTEM} get pvc data-nats-0 ${requested}`)).toBe("20Gi");
      const template = "-o jsonpath={.spec.volumeClaimTemplates[0].spec.resources.requests.storage}";
      expect(await kubectl(`-n ${SYSTEM} get statefulset nats ${template}`)).toBe("20Gi");
      expect(await kubectl(`-n ${SYSTEM} get configmap nats -o yaml`)).toContain("max_file_store: 16GB");
    });

    it("leaves no account that may create Secrets when the keys cannot be made, and keeps the job for its log", async () => {
      // No controller runs the job.
      const words = ["install", "muster", CHART, "--namespace", SYSTEM, "--take-ownership", "--timeout", "3s"];
      await expect(runHelm([...words, ...buildValueArguments({})], env)).rejects.toThrow(/pre-install/);
      const left = await kubectl(
        `-n ${SYSTEM} get serviceaccount,role,rolebinding,configmap,job -l app.kubernetes.io/part-of=muster -o name`,
      );
      expect(left.trim()).toBe("job.batch/keys");
      await kubectl(`-n ${SYSTEM} delete job keys`);
    });

    it.each([
      [1, 3],
      [3, 1],
    ])(
      "lets Kubernetes refuse another number of servers where the chart cannot query the cluster: %i, then %i",
      async (before, after) => {
        await using directory = await mkdtempDisposable(join(tmpdir(), "muster-chart-"));
        const apply = async (replicas: number): Promise<void> => {
          const file = join(directory.path, `${replicas}.json`);
          const objects = await renderChart(SYSTEM, { "nats.replicas": replicas });
          const [nats] = objects.filter((each): each is V1StatefulSet => each.kind === "StatefulSet");
          await writeFile(file, JSON.stringify(nats));
          await kubectl(`apply --server-side -f ${file}`);
        };
        await apply(before);
        await expect(apply(after)).rejects.toThrow(/updates to statefulset spec .* are forbidden/);
        await apply(before);
        await kubectl(`-n ${SYSTEM} delete statefulset nats`);
      },
    );
  },
);

function onlyService(name: ServiceName): object {
  return Object.fromEntries(SERVICES.filter((each) => each !== name).map((each) => [each, { enabled: false }]));
}

function claimOf(name: string, storageClassName?: string): object {
  const requests = { storage: "1Gi" };
  const spec = { accessModes: ["ReadWriteOnce"], resources: { requests }, storageClassName, volumeName: "disk" };
  return { apiVersion: "v1", kind: "PersistentVolumeClaim", metadata: { name, namespace: SYSTEM }, spec };
}
