import { countTainted, readScalerDump } from "../adapters/node-calls.ts";
import type { ConnectedCli } from "../cli.ts";
import { CommandError } from "../command-error.ts";
import { describeSilence } from "../domain/build-node-views.ts";
import { buildRecord } from "../domain/build-record.ts";
import { buildPoolTable, type ShownPool } from "../domain/build-views.ts";
import { listSome } from "../domain/list-some.ts";
import { requireListed } from "./require-listed.ts";
import type { ServiceLink } from "./kind.ts";
import type { ResourceRow } from "./resource.ts";

const MAX_NAMED_POOLS = 20;

/** Machines of one kind, which the ledger grants. */
export const POOL: ResourceRow<ShownPool> = {
  noun: "pool",
  plural: "pools",
  none: "no pools",
  list: listPools,
  get: async (connected, name) => {
    const pools = await listPools(connected);
    const names = pools.map((pool) => pool.name);
    const known = names.length === 0 ? "no pool exists" : `known pools: ${listSome(names, MAX_NAMED_POOLS, ",")}`;
    return requireListed("pool", pools, name, known);
  },
  nameOf: ({ name }) => name,
  table: (pools, { nowMs, style }) => buildPoolTable(pools, nowMs, style),
  record: buildRecord,
  notes: (pools, nowMs) => {
    const [unanswered] = pools.flatMap(({ scaling }) => scaling?.trouble ?? []);
    const silence = describeSilence(pools, nowMs);
    return [
      ...(unanswered === undefined ? [] : [`note: the node scaler does not answer: ${unanswered}`]),
      ...(silence === undefined ? [] : [`note: ${silence}`]),
    ];
  },
};

/** Lists the pools with their tainted machines; pools that may grow include the scaler's current steps. */
async function listPools({ services, link }: ConnectedCli): Promise<ShownPool[]> {
  const pools = await Promise.all(
    (await services.pools()).map(async (pool) => {
      const hasCordoned = pool.unusableByReason.some(({ reason }) => reason === "CORDONED");
      return hasCordoned ? { ...pool, tainted: await countTainted(link, pool.name) } : pool;
    }),
  );
  const isElastic = pools.some(({ elasticMax }) => elasticMax > 0);
  const dump = isElastic ? await readScaling(link) : undefined;
  return pools.map((pool) => {
    if (pool.elasticMax === 0 || dump === undefined) return { ...pool, scaling: undefined };
    if ("trouble" in dump) return { ...pool, scaling: { ...dump, troubles: [] } };
    const scaling = dump.value.pools.find((one) => one.pool === pool.name);
    const troubles = dump.value.troubles.filter((trouble) => trouble.pool === pool.name);
    return { ...pool, scaling: { trouble: undefined, troubles, ...scaling } };
  });
}

/** Returns undefined through a gateway, which does not serve the state of the scaler. */
async function readScaling(link: ServiceLink): Promise<Awaited<ReturnType<typeof readScalerDump>> | undefined> {
  try {
    return await readScalerDump(link);
  } catch (error) {
    if (error instanceof CommandError) return undefined;
    throw error;
  }
}
