import { kubeCalls, loadKube } from "@muster/kube";
import { localDisk } from "./local-disk.ts";

/** By types of disk: pools on whose first nodes they are. */
const POOLS = { ssd: "workers", hdd: "drivers" };

/** A disk of each type on a real cluster, each in a class of its own. */
export type LeaseDisks = AsyncDisposable & {
  /** With which an engine uses them. */
  readonly env: Readonly<Record<string, string>>;
  /** Node of the one that volumes are on. */
  readonly node: string;
};

/** Disks of 1 GiB on the first nodes of the pools `workers` (ssd) and `drivers` (hdd). */
export async function leaseDisks(kubeconfig: string): Promise<LeaseDisks> {
  await using starting = new AsyncDisposableStack();
  const calls = starting.use(kubeCalls(loadKube(kubeconfig)));
  const nodes: Record<string, string> = {};
  const env: Record<string, string> = {};
  for (const [type, pool] of Object.entries(POOLS)) {
    const disk = starting.use(await localDisk(calls, { name: `muster-e2e-${type}`, pool, storage: "1Gi" }));
    nodes[type] = disk.node;
    env[`PROVISION_STORAGE_CLASS_${type.toUpperCase()}`] = disk.storageClass;
  }
  const all = starting.move();
  return { env, node: nodes["ssd"] ?? "", [Symbol.asyncDispose]: () => all.disposeAsync() };
}
