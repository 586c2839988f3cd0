import type { V1Node } from "@kubernetes/client-node";
import { type KubeCalls, type KubeObject, unlessMissing } from "@muster/kube";

const CLASSES = { apiVersion: "storage.k8s.io/v1", plural: "storageclasses" };
const VOLUMES = { apiVersion: "v1", plural: "persistentvolumes" };

/** A directory of one node, as a volume in a class of its own. */
export type LocalDisk = AsyncDisposable & {
  readonly storageClass: string;
  readonly node: string;
  readonly directory: string;
};

/**
 * A directory below /tmp of the first node of the pool, by name, as whoever keeps a cluster gives local disks. It goes, with what is on it, when whoever has claimed it lets it go, or with
 * this. Nothing sees to it that no more than `storage` is written there.
 */
export async function localDisk(
  calls: KubeCalls,
  of: { readonly name: string; readonly pool: string; readonly storage: string },
): Promise<LocalDisk> {
  await using starting = new AsyncDisposableStack();
  const name = `${of.name}-${Date.now()}`;
  const directory = `/tmp/${name}`;
  const make = async (resource: typeof CLASSES, rest: object): Promise<void> => {
    await calls.create(resource, { metadata: { name }, ...rest });
    starting.defer(() => unlessMissing(calls.delete(resource, name)));
  };
  const query = { labelSelector: `pool=${of.pool}` };
  const { items } = await calls.list<V1Node & KubeObject>({ apiVersion: "v1", plural: "nodes" }, { query });
  const [node = ""] = items.map(({ metadata }) => metadata?.name ?? "").sort();
  await make(CLASSES, { provisioner: "kubernetes.io/no-provisioner", volumeBindingMode: "WaitForFirstConsumer" });
  const hostname = { key: "kubernetes.io/hostname", operator: "In", values: [node] };
  await make(VOLUMES, {
    spec: {
      storageClassName: name,
      capacity: { storage: of.storage },
      accessModes: ["ReadWriteOnce"],
      persistentVolumeReclaimPolicy: "Delete",
      hostPath: { path: directory, type: "DirectoryOrCreate" },
      nodeAffinity: { required: { nodeSelectorTerms: [{ matchExpressions: [hostname] }] } },
    },
  });
  const all = starting.move();
  return { storageClass: name, node, directory, [Symbol.asyncDispose]: () => all.disposeAsync() };
}
