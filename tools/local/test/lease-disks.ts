import type { V1Node } from "@kubernetes/client-node";
import { kubeCalls, loadKube, unlessMissing, type KubeObject } from "@muster/kube";

const CLASSES = { apiVersion: "storage.k8s.io/v1", plural: "storageclasses" };
const VOLUMES = { apiVersion: "v1", plural: "persistentvolumes" };
/** By types of disk: pools on whose first nodes they are. */
const POOLS = { ssd: "workers", hdd: "drivers" };

/** A disk of each type on a real cluster, each in a class of its own. */
export type LeaseDisks = AsyncDisposable & {
  /** With which an engine uses them. */
  readonly env: Readonly<Record<string, string>>;
  /** Node of the one that volumes are on. */
  readonly node: string;
};

/**
 * Directories of 1 GiB, by name, below /tmp of the first nodes of the pools `workers` (ssd) and `drivers` (hdd), as whoever keeps a cluster gives local disks. They go, with what is on them, when
 * whoever has claimed them lets them go, or with this.
 */
export async function leaseDisks(kubeconfig: string): Promise<LeaseDisks> {
  await using starting = new AsyncDisposableStack();
  const calls = starting.use(kubeCalls(loadKube(kubeconfig)));
  const make = async (resource: typeof CLASSES, name: string, rest: object): Promise<void> => {
    await calls.create(resource, { metadata: { name }, ...rest });
    starting.defer(() => unlessMissing(calls.delete(resource, name)));
  };
  const nodes: Record<string, string> = {};
  const env: Record<string, string> = {};
  for (const [type, pool] of Object.entries(POOLS)) {
    const query = { labelSelector: `pool=${pool}` };
    const { items } = await calls.list<V1Node & KubeObject>({ apiVersion: "v1", plural: "nodes" }, { query });
    const [node = ""] = items.map(({ metadata }) => metadata?.name ?? "").sort();
    const name = `muster-e2e-${type}-${Date.now()}`;
    await make(CLASSES, name, {
      provisioner: "kubernetes.io/no-provisioner",
      volumeBindingMode: "WaitForFirstConsumer",
    });
    const hostname = { key: "kubernetes.io/hostname", operator: "In", values: [node] };
    await make(VOLUMES, name, {
      spec: {
        storageClassName: name,
        capacity: { storage: "1Gi" },
        accessModes: ["ReadWriteOnce"],
        persistentVolumeReclaimPolicy: "Delete",
        hostPath: { path: `/tmp/${name}`, type: "DirectoryOrCreate" },
        nodeAffinity: { required: { nodeSelectorTerms: [{ matchExpressions: [hostname] }] } },
      },
    });
    nodes[type] = node;
    env[`PROVISION_STORAGE_CLASS_${type.toUpperCase()}`] = name;
  }
  const all = starting.move();
  return { env, node: nodes["ssd"] ?? "", [Symbol.asyncDispose]: () => all.disposeAsync() };
}
