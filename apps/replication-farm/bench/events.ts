import { selectSize } from "@muster/testkit";
import { makeRollout, makeSet, makeSpec } from "../test/a-set.ts";
import { openPassWorld, type PassWorld } from "../test/pass-world.ts";
import { computeMedian } from "./median.ts";

const SIZES = selectSize([250, 1000], [20]);
const ROUNDS = selectSize(5, 1);
const EVENTS = 50;
const APPLIES = 10;
const WRITES_AT_ONCE = 64;

/** Which sets an event concerns, and which sets an apply has to be compared with: by the indexes, beside a loop over all sets and all rolling updates. */
export async function measureEvents(): Promise<void> {
  for (const size of SIZES) {
    await using world = await openPassWorld();
    const names = Array.from({ length: size }, (_, index) => `set-${index}`);
    await fill(world, names);
    const sample = (count: number): string[] => names.slice(0, count);
    const [byLoop, byIndex, byList, byView]: number[][] = [[], [], [], []];
    for (let round = 0; round < ROUNDS; round += 1) {
      byLoop?.push(await timed(sample(EVENTS), (name) => Promise.resolve(concernedByLoop(world, names, name))));
      byIndex?.push(await timed(sample(EVENTS), (name) => Promise.resolve(world.world.concernedBy(name))));
      byList?.push(await timed(sample(APPLIES), () => world.listSets()));
      byView?.push(await timed(sample(APPLIES), (name) => world.world.storedSetsOf(name)));
    }
    const [loop, index, list, view] = [byLoop, byIndex, byList, byView].map((times) => computeMedian(times ?? []));
    console.log(`events: ${size} sets, a tenth of them in rolling updates; medians of ${ROUNDS} rounds in turns`);
    console.log(`  an event, by a loop   ${showUs(loop, EVENTS)}`);
    console.log(
      `  an event, by indexes  ${showUs(index, EVENTS)}, ratio ${((loop ?? NaN) / (index ?? NaN)).toFixed(0)}`,
    );
    console.log(`  an apply, by a list   ${showUs(list, APPLIES)}`);
    console.log(
      `  an apply, by indexes  ${showUs(view, APPLIES)}, ratio ${((list ?? NaN) / (view ?? NaN)).toFixed(0)}`,
    );
  }
}

function showUs(ms: number | undefined, count: number): string {
  return `${(((ms ?? NaN) * 1000) / count).toFixed(1)} us`;
}

/** Checks each set for the change, as a baseline for the index. */
function concernedByLoop({ world }: PassWorld, names: readonly string[], changed: string): string[] {
  const recordOf = (name: string) => {
    const read = world.set(name)?.read;
    return read !== undefined && "record" in read ? read.record : undefined;
  };
  return names.filter((name) => {
    if (name === changed) return true;
    const [own, other] = [recordOf(name), recordOf(changed)];
    if (own !== undefined && own.spec.podId === other?.spec.podId) return true;
    const read = world.rollouts().find(({ id }) => id === name)?.read;
    const roll = read !== undefined && "record" in read ? read.record : undefined;
    return own?.rollout === changed || roll?.oldSet === changed || roll?.newSet === changed;
  });
}

async function fill(world: PassWorld, names: readonly string[]): Promise<void> {
  await each(names, async (name, index) => {
    await world.sets.create(name, makeSet({ name, uid: name, spec: makeSpec({ podId: name }) }));
    if (index % 10 === 0)
      await world.rollouts.create(name, makeRollout({ id: name, oldSet: `${name}-old`, newSet: name }));
  });
  const rolls = Math.ceil(names.length / 10);
  while (world.world.sets().length < names.length || world.world.rollouts().length < rolls)
    await new Promise((resolve) => setTimeout(resolve, 20));
}

async function each(names: readonly string[], work: (name: string, index: number) => Promise<unknown>): Promise<void> {
  const left = names.entries();
  const lane = async (): Promise<void> => {
    for (const [index, name] of left) await work(name, index);
  };
  await Promise.all(Array.from({ length: WRITES_AT_ONCE }, lane));
}

async function timed(names: readonly string[], work: (name: string) => Promise<unknown>): Promise<number> {
  const start = performance.now();
  for (const name of names) await work(name);
  return performance.now() - start;
}
