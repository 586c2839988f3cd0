import type { V1Node } from "@kubernetes/client-node";
import { type KubeCalls, type KubeObject, unlessMissing } from "@muster/kube";

const CLASSES = { apiVersion: "storage.k8s.io/v1", plural: "storageclasses" };
const VOLUMES = { apiVersion: "v1", plural: "persistentvolumes" };

/** A directory of one node, as a volume with its own storage class. */
export type LocalDisk = AsyncDisposable & {
  readonly storageClass: string;
  readonly node: string;
  readonly directory: string;
};

/**
 * Offers a directory below /tmp of the pool's first node as a local volume. It is removed, with its content, when its claim is deleted, or on disposal. The
 * limit `storage` is not enforced.
 */
export async function openLocalDisk(
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
