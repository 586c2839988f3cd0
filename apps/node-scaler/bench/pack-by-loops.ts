import type { PendingPod } from "../src/domain/pack-pods.ts";
import type { InstanceType, PoolPolicy } from "../src/domain/pool.ts";

type Amounts = { readonly cpuMilli: number; readonly memoryBytes: number; readonly gpus: number };
type Bin = { readonly first: PendingPod; readonly types: readonly InstanceType[]; load: Amounts };

/** Checks the promises of `packPods` by comparing each pod with each begun node: names of the demands, and the types that fit. */
export function packByLoops(pods: readonly PendingPod[], pools: ReadonlyMap<string, PoolPolicy>): readonly string[][] {
  const keyOf = (pod: PendingPod): string => `${pod.namespace}/${pod.name}`;
  const sorted = [...pods].sort(
    (a, b) =>
      b.gpus - a.gpus ||
      b.cpuMilli - a.cpuMilli ||
      b.memoryBytes - a.memoryBytes ||
      a.createdAtMs - b.createdAtMs ||
      (keyOf(a) < keyOf(b) ? -1 : 1),
  );
  const places = [...new Set(sorted.map(({ pool, zone }) => JSON.stringify([pool, zone])))];
  return places.flatMap((place) => {
    const bins: Bin[] = [];
    for (const pod of sorted.filter(({ pool, zone }) => JSON.stringify([pool, zone]) === place)) {
      const bin = bins.find(({ load, types }) => types.some((type) => doFit(add(load, pod), type)));
      if (bin !== undefined) {
        bin.load = add(bin.load, pod);
        continue;
      }
      const possible = (pools.get(pod.pool)?.instanceTypes ?? []).filter((type) => doFit(pod, type));
      const types = possible.filter(({ gpus }) => possible.every((other) => gpus <= other.gpus));
      if (types.length > 0) bins.push({ first: pod, types, load: pod });
    }
    return bins.map(({ first, types, load }) => [
      `pods/${keyOf(first)}`,
      ...types.filter((type) => doFit(load, type)).map(({ name }) => name),
    ]);
  });
}

function add(one: Amounts, other: Amounts): Amounts {
  const [cpuMilli, memoryBytes] = [one.cpuMilli + other.cpuMilli, one.memoryBytes + other.memoryBytes];
  return { cpuMilli, memoryBytes, gpus: one.gpus + other.gpus };
}

/** Whether the pods fit; the system uses a tenth of a node. */
function doFit({ cpuMilli, memoryBytes, gpus }: Amounts, type: InstanceType): boolean {
  if (type.cpuMilli !== undefined && cpuMilli > type.cpuMilli * 0.9) return false;
  if (type.memoryBytes !== undefined && memoryBytes > type.memoryBytes * 0.9) return false;
  return gpus <= type.gpus;
}
