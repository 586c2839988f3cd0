import { isDeepStrictEqual } from "node:util";
import { selectSize } from "@muster/testkit";
import { aPool } from "../test/scaling-snapshots.ts";
import { packPods, type PendingPod } from "../src/domain/pack-pods.ts";
import type { PoolPolicy } from "../src/domain/pool.ts";
import { measureMs, computeMedian, roundValue } from "./measure.ts";
import { packByLoops } from "./pack-by-loops.ts";
import { makeRandom } from "./random.ts";

const SIZES = selectSize([100, 1000, 10_000], [100, 1000]);
const GIB = 2 ** 30;

const POOL = aPool({
  instanceTypes: [
    { name: "small", cpuMilli: 4000, memoryBytes: 16 * GIB, gpus: 0 },
    { name: "large", cpuMilli: 16_000, memoryBytes: 64 * GIB, gpus: 0 },
    { name: "gpu", cpuMilli: 32_000, memoryBytes: 128 * GIB, gpus: 8 },
  ],
});

type Request = Pick<PendingPod, "cpuMilli" | "memoryBytes" | "gpus">;

/** Requests of pods. The hard ones leave much of one amount and nothing of the other: no node is full, and none has room. */
const KINDS: Readonly<Record<string, (random: () => number) => Request>> = {
  "all different": (random) => ({
    cpuMilli: 100 + Math.floor(random() * 8000),
    memoryBytes: Math.floor((0.1 + random() * 32) * GIB),
    gpus: random() < 0.1 ? 1 + Math.floor(random() * 8) : 0,
  }),
  "much CPU or much memory": (random) =>
    random() < 0.5
      ? { cpuMilli: 5000 + Math.floor(random() * 8000), memoryBytes: Math.floor(random() * GIB), gpus: 0 }
      : { cpuMilli: 50 + Math.floor(random() * 500), memoryBytes: Math.floor((20 + random() * 36) * GIB), gpus: 0 },
  "all alike": () => ({ cpuMilli: 3000, memoryBytes: 4 * GIB, gpus: 0 }),
};

/** The cost of packing pending pods onto nodes, beside a comparison of each pod with each begun node. */
export function benchPods(): void {
  const pools = new Map([[POOL.name, POOL]]);
  for (let warmUp = 0; warmUp < 5; warmUp += 1) {
    for (const request of Object.values(KINDS)) measureBoth(podsOf(request, 500), pools, 1);
  }
  console.log("Pending pods packed onto nodes of three types");
  console.table(
    Object.entries(KINDS).flatMap(([kind, request]) =>
      SIZES.map((size) => {
        const pods = podsOf(request, size);
        const { ours, loops, nodes, same } = measureBoth(pods, pools, size === 10_000 ? 1 : 5);
        return {
          "pods ask for": kind,
          pods: size,
          nodes,
          "packPods ms": roundValue(ours),
          "µs a pod": roundValue((ours * 1000) / size),
          "nested loops ms": roundValue(loops),
          ratio: roundValue(loops / ours),
          "same result": same,
        };
      }),
    ),
  );
}

function measureBoth(
  pods: readonly PendingPod[],
  pools: ReadonlyMap<string, PoolPolicy>,
  rounds: number,
): { ours: number; loops: number; nodes: number; same: boolean } {
  const ours = computeMedian(Array.from({ length: rounds * 9 }, () => measureMs(() => packPods(pods, pools))));
  const loops = computeMedian(Array.from({ length: rounds }, () => measureMs(() => packByLoops(pods, pools))));
  const demands = packPods(pods, pools).map(({ name, instanceTypes }) => [name, ...instanceTypes]);
  return { ours, loops, nodes: demands.length, same: isDeepStrictEqual(demands, packByLoops(pods, pools)) };
}

function podsOf(request: (random: () => number) => Request, size: number): readonly PendingPod[] {
  const random = makeRandom(1);
  return Array.from({ length: size }, (_, index) => ({
    namespace: "default",
    name: `pod-${index}`,
    createdAtMs: 0,
    pool: POOL.name,
    zone: undefined,
    ...request(random),
  }));
}
