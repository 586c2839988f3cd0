import { makeRandom } from "./random.ts";

/** Kubernetes quantities by resource. */
export type Quantities = Readonly<Record<string, string>>;

/** One pod that Muster does not create. */
export type ForeignPod = {
  readonly name: string;
  readonly requests: Quantities;
  /** The only node that it may run on; undefined: any. */
  readonly node: string | undefined;
  /** Milliseconds after the start of the run. */
  readonly atMs: number;
  /** Milliseconds after which it is deleted. */
  readonly forMs: number;
  /** Milliseconds for which it keeps its node after its deletion. */
  readonly termMs: number;
};

/** The pods beside the sessions and jobs of one run. */
export type ForeignPlan = {
  /** Pods that stay from before the first session until all work has ended, each on its node. */
  readonly residents: readonly { readonly name: string; readonly node: string; readonly requests: Quantities }[];
  readonly pods: readonly ForeignPod[];
};

/** Requests of the pod in a system namespace that runs on each node. */
export const AGENT_REQUESTS: Quantities = { cpu: "250m", memory: "128Mi" };

const RESIDENTS = { drivers: 1, workers: 3 } as const;
const EVERY_MS = 500;
const MAX_LIFE_MS = 8000;
/** Limits a pod to half of a machine, so that several pods and parts share it. */
const MAX_CPU_QUARTERS = 8;
const MAX_MEMORY_GIB = 4;

/** Plans the foreign pods of one run. They have a source of their own, so that the sessions and jobs of a seed stay the same. */
export function planForeign(
  seed: number,
  { windowMs, pools }: { readonly windowMs: number; readonly pools: Readonly<Record<string, number>> },
): ForeignPlan {
  const random = makeRandom(seed, "foreign");
  const nodes = Object.entries(pools).flatMap(([pool, count]) =>
    Array.from({ length: count }, (_, index) => `${pool}-${index}`),
  );
  const shuffled = random.shuffle(nodes);
  const chosen = Object.entries(RESIDENTS).flatMap(([pool, count]) =>
    shuffled.filter((node) => node.startsWith(`${pool}-`)).slice(0, count),
  );
  const residents = chosen.map((node, index) => ({
    name: `resident-${index}`,
    node,
    requests: drawRequests(seed, index),
  }));
  const pods = Array.from({ length: Math.ceil(windowMs / EVERY_MS) }, (_, index) => ({
    name: `foreign-${index}`,
    requests: drawRequests(seed, RESIDENTS.drivers + RESIDENTS.workers + index),
    node: random.chance(0.7) ? shuffled[random.integer(0, shuffled.length - 1)] : undefined,
    atMs: random.integer(0, windowMs),
    forMs: random.integer(200, MAX_LIFE_MS),
    termMs: random.chance(0.5) ? 0 : random.integer(0, 3000),
  }));
  return { residents, pods };
}

function drawRequests(seed: number, index: number): Quantities {
  const random = makeRandom(seed, `foreign requests ${index}`);
  return {
    cpu: `${random.integer(1, MAX_CPU_QUARTERS) * 250}m`,
    memory: `${random.integer(1, MAX_MEMORY_GIB)}Gi`,
  };
}
