import { isDeepStrictEqual } from "node:util";
import { selectSize } from "@muster/testkit";
import { aDemand, aNode, aPool, aShortage, aSnapshot, NOW } from "../test/scaling-snapshots.ts";
import { computeScaling, type ScalingSnapshot } from "../src/domain/compute.ts";
import type { Demand } from "../src/domain/demand.ts";
import type { ScaledNode } from "../src/domain/node.ts";
import { measureMs, computeMedian, roundValue } from "./measure.ts";
import { computeByLoops, buildOutcome } from "./nested-loops.ts";
import { makeRandom } from "./random.ts";

const SIZES = selectSize([100, 1000, 10_000], [100, 1000]);
const TYPES = ["small", "large", "huge"];
const ZONES = ["a", "b", "c"];

/** Compares the cost of `computeScaling` for equal numbers of nodes and demands with a naive version that compares each demand with each node. */
export function benchSpeed(): void {
  // The first runs would measure the compiler, and are discarded.
  for (let warmUp = 0; warmUp < 20; warmUp += 1) measureMs(() => computeScaling(buildWorld(200, warmUp)));
  const rows = SIZES.map((size) => {
    const world = buildWorld(size, 1);
    const rounds = size === 10_000 ? 9 : 31;
    const ours = computeMedian(Array.from({ length: rounds }, () => measureMs(() => computeScaling(world))));
    const loops = computeMedian(
      Array.from({ length: size === 10_000 ? 1 : 5 }, () => measureMs(() => computeByLoops(world))),
    );
    const same = isDeepStrictEqual(buildOutcome(computeScaling(world)), computeByLoops(world));
    return { size, ours, loops, same };
  });
  const first = rows[0]?.ours ?? 1;
  console.log(
    "One round with as many nodes as demands, in two pools, a third of the demands in gangs, a fifth bound already",
  );
  console.table(
    rows.map(({ size, ours, loops, same }) => ({
      "nodes and demands": size,
      "compute ms": roundValue(ours),
      "µs a demand": roundValue((ours * 1000) / size),
      "times the first": roundValue(ours / first),
      "nested loops ms": roundValue(loops),
      ratio: roundValue(loops / ours),
      "same result": same,
    })),
  );
}

/** Builds demands of all kinds, and nodes; half of the nodes suit some of the demands. */
function buildWorld(size: number, seed: number): ScalingSnapshot {
  const random = makeRandom(seed);
  const pick = <Value>(values: readonly Value[], otherwise: Value): Value =>
    values[Math.floor(random() * values.length)] ?? otherwise;
  const pools = ["gpu", "cpu"].map((name) =>
    aPool({ name, max: size * 2, standby: [{ instanceType: "large", count: 5, spot: false }] }),
  );
  const demands = Array.from({ length: size }, (_, index): Demand => {
    const isGang = random() < 1 / 3;
    return aDemand(`demand-${index}`, {
      group: isGang ? `gang-${Math.floor(index / 12)}` : undefined,
      pool: pick(["gpu", "cpu"], "gpu"),
      createdAtMs: NOW - Math.floor(random() * 600_000),
      instanceTypes: pick([["large"], ["large", "huge"], ["small", "large"]], ["large"]),
      spot: pick(["Never", "Always", "Preferred"] as const, "Never"),
      zone: pick([undefined, undefined, ...ZONES], undefined),
      gpus: pick([0, 1], 0),
    });
  });
  const nodes = Array.from({ length: size }, (_, index): ScaledNode => {
    const demand = random() < 1 / 5 ? demands[index] : undefined;
    return aNode(`node-${index}`, {
      pool: demand?.pool ?? pick(["gpu", "cpu"], "gpu"),
      instanceType: demand?.instanceTypes[0] ?? pick(TYPES, "large"),
      spot: demand === undefined ? random() < 0.5 : demand.spot === "Always",
      zone: demand === undefined ? pick(ZONES, "a") : demand.zone,
      gpus: demand?.gpus ?? pick([0, 1, 2], 0),
      phase: pick(["Creating", "Created", "Available", "Claimed"] as const, "Available"),
      boundTo: demand?.name,
    });
  });
  const unavailable = TYPES.map((instanceType) => aShortage({ instanceType, spot: true, zone: "c" }));
  return aSnapshot({ pools, demands, nodes, unavailable });
}
