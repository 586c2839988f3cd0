import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Kubelet, startKubelet } from "@muster/devcluster";
import { buildMachineDeployment, playClusterApi, playKarpenter } from "@muster/devcluster/machine-controllers";
import { makeKubeCalls, loadKube, type KubeCalls, type KubeObject } from "@muster/kube";
import { taints } from "@muster/proto";
import { type TestKubeApiServer, until } from "@muster/testkit";
import { applyAll, readManifests } from "../src/manifests.ts";

/** A provider that creates machines for a cluster, and its state for the tests. */
export type MachineMaker = AsyncDisposable & {
  /** The provider's entry in the pools file of the node-scaler. */
  readonly provider: Readonly<Record<string, unknown>>;
  /** Names of all machines that ever became nodes. */
  readonly joined: ReadonlySet<string>;
  /** Number of objects that request machines. */
  readonly requested: () => Promise<number>;
};

/** Nodes of a cluster; each is a kubelet that runs pods as local processes. */
type Nodes = AsyncDisposable & {
  readonly joined: ReadonlySet<string>;
  readonly join: (name: string, labels: Readonly<Record<string, string>>) => Promise<string>;
  readonly leave: (name: string) => Promise<void>;
};

/** Namespace of the MachineDeployments in the manifest of the scaler's rights. */
const NAMESPACE = "machines";
/** The startup taint of new nodes, which the scaler removes. */
const CLOSED = [{ key: taints.startup, effect: "NoSchedule" }] as const;
/** Other kubelets of this machine use the lower addresses. */
const FIRST_INDEX = 100;

async function startNodes(server: TestKubeApiServer): Promise<Nodes> {
  const directory = await mkdtemp(join(tmpdir(), "muster-machines-"));
  const kubelets = new Map<string, Kubelet>();
  const joined = new Set<string>();
  return {
    joined,
    join: async (nodeName, labels) => {
      if (kubelets.has(nodeName)) return nodeName;
      const nodeIndex = FIRST_INDEX + joined.size;
      joined.add(nodeName);
      const options = { kubeconfig: loadKube(server.kubeconfig), access: { clientCa: server.kubeletClientCa } };
      kubelets.set(
        nodeName,
        await startKubelet({
          ...options,
          nodeName,
          nodeIndex,
          labels,
          taints: CLOSED,
          directory: join(directory, nodeName),
        }),
      );
      return nodeName;
    },
    leave: async (nodeName) => {
      await kubelets.get(nodeName)?.die();
      kubelets.delete(nodeName);
    },
    [Symbol.asyncDispose]: async () => {
      for (const kubelet of kubelets.values()) await kubelet.die();
      await rm(directory, { recursive: true, force: true });
    },
  };
}

/** Installs Karpenter's own definition and simulates Karpenter. */
export async function startKarpenter(server: TestKubeApiServer, fixtures: string): Promise<MachineMaker> {
  await using starting = new AsyncDisposableStack();
  const calls = starting.use(makeKubeCalls(loadKube(server.kubeconfig)));
  const claims = { apiVersion: "karpenter.sh/v1", plural: "nodeclaims" };
  await define(calls, [join(fixtures, "karpenter/karpenter.sh_nodeclaims.yaml")], [claims]);
  const nodes = starting.use(await startNodes(server));
  const karpenter = starting.use(playKarpenter(calls));
  karpenter.join = ({ metadata }) => nodes.join(metadata?.name ?? "", metadata?.labels ?? {});
  karpenter.leave = nodes.leave;
  const all = starting.move();
  return {
    provider: {
      kind: "karpenter",
      controller: "muster",
      nodeClass: { group: "karpenter.k8s.aws", kind: "EC2NodeClass", name: "default" },
    },
    joined: nodes.joined,
    requested: async () => (await calls.list(claims)).items.length,
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}

/** Installs Cluster API's own definitions and simulates its controllers. */
export async function startClusterApi(server: TestKubeApiServer, fixtures: string): Promise<MachineMaker> {
  await using starting = new AsyncDisposableStack();
  const calls = starting.use(makeKubeCalls(loadKube(server.kubeconfig)));
  const deployments = { apiVersion: "cluster.x-k8s.io/v1beta2", plural: "machinedeployments", namespace: NAMESPACE };
  const machines = { ...deployments, plural: "machines" };
  const files = ["machinedeployments", "machines"].map((plural) =>
    join(fixtures, `cluster-api/cluster.x-k8s.io_${plural}.yaml`),
  );
  await define(calls, files, [deployments, machines]);
  await calls.create({ apiVersion: "v1", plural: "namespaces" }, buildNamespace(NAMESPACE));
  await calls.create(deployments, buildMachineDeployment("elastic-small"));
  const nodes = starting.use(await startNodes(server));
  const clusterApi = starting.use(playClusterApi(calls, NAMESPACE));
  clusterApi.join = ({ metadata }) => nodes.join(metadata?.name ?? "", { pool: "elastic" });
  clusterApi.leave = nodes.leave;
  const all = starting.move();
  return {
    provider: {
      kind: "cluster-api",
      controller: "muster",
      namespace: NAMESPACE,
      deployments: [{ name: "elastic-small", pool: "elastic", instanceType: "small" }],
    },
    joined: nodes.joined,
    requested: async () => (await calls.list(machines)).items.length,
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}

function buildNamespace(name: string): KubeObject {
  return { apiVersion: "v1", kind: "Namespace", metadata: { name } };
}

async function define(
  calls: KubeCalls,
  files: readonly string[],
  resources: readonly { readonly apiVersion: string; readonly plural: string }[],
): Promise<void> {
  for (const file of files) {
    const definitions = await readManifests(file);
    // The webhooks of these definitions do not run here.
    await applyAll(
      calls,
      definitions.map((definition) => {
        const { spec } = definition as { readonly spec?: { readonly conversion?: unknown } };
        const { conversion: _, ...rest } = spec ?? {};
        return { ...definition, spec: rest };
      }),
    );
  }
  for (const resource of resources) {
    await until(`${resource.plural} are served`, () => calls.list(resource).then(() => true));
  }
}
