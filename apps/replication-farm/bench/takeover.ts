import { startApiServer } from "@muster/devcluster";
import { listApiServers, selectSize } from "@muster/testkit";
import { openFarmWorld, waitUntilReady, waitForSettled, buildSpec, type FarmProcess } from "../test/farm-world.ts";
import { computeMedian } from "./median.ts";

const TTL_MS = Number(process.env["BENCH_TTL_MS"] ?? selectSize(3000, 1000));
/** A quick run uses the same number, because one farm may own all sets if they are few. */
const SETS = 20;
const ROUNDS = selectSize(5, 1);
const LOOK_MS = 20;

/** From the SIGKILL of a farm until all its sets have another owner. */
export async function measureTakeover(): Promise<void> {
  const [embedded] = listApiServers(startApiServer);
  await using world = await openFarmWorld(await embedded.start(), 2);
  const env = { FARM_SESSION_TTL_MS: String(TTL_MS) };
  let farms: FarmProcess[] = [await world.startFarm(env), await world.startFarm(env)];
  await waitUntilReady(world);
  for (let index = 0; index < SETS; index += 1) {
    const name = `set-${index}`;
    await world.farms.applyReplicaSet({ requestId: name, name, spec: buildSpec("", 1) }, { timeoutMs: 10_000 });
  }
  for (let index = 0; index < SETS; index += 1) await waitForSettled(world, `set-${index}`, 1);
  const times: number[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const [victim] = farms;
    if (victim === undefined) break;
    const owners = async (): Promise<Set<string>> => {
      const { sets } = await world.farms.listReplicaSets({}, { timeoutMs: 30_000 });
      return new Set(sets.map(({ farm }) => farm));
    };
    const ownedBy = async (some: readonly FarmProcess[]): Promise<boolean> => {
      const names = [...(await owners())];
      const isOne = (name: string): boolean => some.some(({ pid }) => name.includes(`-${pid}-`));
      return names.length === some.length && names.every(isOne);
    };
    // Wait until a new farm has its share.
    await look(() => ownedBy(farms));
    await victim.kill();
    const killed = performance.now();
    await look(() => ownedBy(farms.slice(1)));
    times.push(performance.now() - killed);
    farms = [...farms.slice(1), await world.startFarm(env)];
  }
  const ratios = times.map((ms) => ms / TTL_MS);
  console.log(`takeover: ${SETS} sets, two farms, one killed; time to live ${TTL_MS} ms; ${times.length} rounds`);
  console.log(
    `  median ${computeMedian(times).toFixed(0)} ms (${computeMedian(ratios).toFixed(2)} of the time to live)`,
  );
  console.log(`  most   ${Math.max(...times).toFixed(0)} ms (${Math.max(...ratios).toFixed(2)})`);
}

async function look(condition: () => Promise<boolean>): Promise<void> {
  while (!(await condition())) await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
}
