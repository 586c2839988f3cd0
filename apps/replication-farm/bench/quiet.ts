import { selectSize } from "@muster/testkit";
import { makePlacement, makeSet, makeSpec } from "../test/a-set.ts";
import { openPassWorld, type PassWorld } from "../test/pass-world.ts";
import { computeMedian } from "./median.ts";

const SETS = Number(process.env["BENCH_SETS"] ?? selectSize(1000, 20));
const NODES = 100;
const ROUNDS = selectSize(5, 1);
const AT_ONCE = 32;

/** A pass over each of many sets at rest, beside the bare reading of the same records, with the same number under way. Counts the writes. */
export async function measureQuiet(): Promise<void> {
  await using world = await openPassWorld();
  const names = Array.from({ length: SETS }, (_, index) => `set-${index}`);
  await fill(world, names);
  const passes: number[] = [];
  const reads: number[] = [];
  await each(names, (name) => world.pass(name));
  const before = await world.writes();
  for (let round = 0; round < ROUNDS; round += 1) {
    reads.push(await timed(() => each(names, (name) => world.sets.get(name))));
    passes.push(await timed(() => each(names, (name) => world.pass(name))));
  }
  const ratio = computeMedian(passes.map((ms, round) => ms / (reads[round] ?? NaN)));
  console.log(
    `quiet: a pass over each of ${SETS} sets of one pod, ${AT_ONCE} at once; medians of ${ROUNDS} rounds in turns`,
  );
  console.log(`  reading the records bare  ${computeMedian(reads).toFixed(0)} ms`);
  console.log(`  passes                    ${computeMedian(passes).toFixed(0)} ms, ratio ${ratio.toFixed(2)}`);
  console.log(`  writes of ${ROUNDS * SETS} passes   ${(await world.writes()) - before}`);
}

async function fill(world: PassWorld, names: readonly string[]): Promise<void> {
  const nodes = Array.from({ length: NODES }, (_, index) => `n-${String(index).padStart(4, "0")}`);
  await each(nodes, (node) => world.putNode(node));
  await world.complete();
  await each(names, async (name) => {
    const placements = [makePlacement(nodes[Number(name.split("-")[1]) % NODES] ?? "", 1)];
    const spec = makeSpec({ podId: name, nodeSelector: "", replicasDesired: 1 });
    const set = makeSet({ name, uid: name, spec, placements, nextOrdinal: 2 });
    await world.sets.create(name, set);
    await world.putPod(set, 1);
  });
  while (names.some((name) => world.world.podsOf(name).size === 0))
    await new Promise((resolve) => setTimeout(resolve, 20));
}

async function each(names: readonly string[], work: (name: string) => Promise<unknown>): Promise<void> {
  const left = names.values();
  const lane = async (): Promise<void> => {
    for (const name of left) await work(name);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, lane));
}

async function timed(work: () => Promise<void>): Promise<number> {
  const start = performance.now();
  await work();
  return performance.now() - start;
}
