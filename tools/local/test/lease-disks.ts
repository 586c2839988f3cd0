import { makeKubeCalls, loadKube } from "@muster/kube";
import { openLocalDisk } from "./local-disk.ts";

/** Pools by disk type; each disk is on the first node of its pool. */
const POOLS = { ssd: "workers", hdd: "drivers" };

/** A disk of each type on a real cluster, each with its own storage class. */
export type LeaseDisks = AsyncDisposable & {
  /** Variables with which an engine uses them. */
  readonly env: Readonly<Record<string, string>>;
  /** The node of the disk for volumes. */
  readonly node: string;
};

/** Disks of 1 GiB on the first nodes of the pools `workers` (ssd) and `drivers` (hdd). */
export async function openLeaseDisks(kubeconfig: string): Promise<LeaseDisks> {
  await using starting = new AsyncDisposableStack();
  const calls = starting.use(makeKubeCalls(loadKube(kubeconfig)));
  const nodes: Record<string, string> = {};
  const env: Record<string, string> = {};
  for (const [type, pool] of Object.entries(POOLS)) {
    const disk = starting.use(await openLocalDisk(calls, { name: `muster-e2e-${type}`, pool, storage: "1Gi" }));
    nodes[type] = disk.node;
    env[`PROVISION_STORAGE_CLASS_${type.toUpperCase()}`] = disk.storageClass;
  }
  const all = starting.move();
  return { env, node: nodes["ssd"] ?? "", [Symbol.asyncDispose]: () => all.disposeAsync() };
}
