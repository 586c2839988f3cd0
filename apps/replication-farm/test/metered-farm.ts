import { findFreePort } from "@muster/testkit";
import type { FarmProcess, FarmWorld } from "./farm-world.ts";

/** A farm whose metrics show a test its work without visible effects. */
export type MeteredFarm = FarmProcess & {
  /** How many sets it owns; undefined until it has started. */
  owned(): Promise<number | undefined>;
  /** Number of passes that waited for this reason. */
  waits(because: string): Promise<number>;
  /** How many pods of other installations its last sweep has met; undefined: it has met none so far. */
  leftAlone(): Promise<number | undefined>;
};

export async function startMeteredFarm(
  world: FarmWorld,
  env: Readonly<Record<string, string>> = {},
): Promise<MeteredFarm> {
  const port = await findFreePort();
  const farm = await world.startFarm({ MUSTER_HTTP_ADDR: `127.0.0.1:${port}`, FARM_RESYNC_MS: "100", ...env });
  const values = async (metric: string): Promise<{ readonly labels: string; readonly value: number }[]> => {
    const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
    const lines = text.matchAll(new RegExp(`^${metric}(?:\\{(.*)\\})? ([0-9.e+]+)`, "gm"));
    return [...lines].map(([, labels = "", value]) => ({ labels, value: Number(value) }));
  };
  return {
    ...farm,
    owned: async () => (await values("muster_farm_sets"))[0]?.value,
    leftAlone: async () => (await values("muster_sweep_foreign"))[0]?.value,
    waits: async (because) =>
      (await values("muster_farm_steps_total"))
        .filter(
          ({ labels }) =>
            labels.includes('muster_farm_step="wait"') && labels.includes(`muster_farm_reason="${because}"`),
        )
        .reduce((sum, { value }) => sum + value, 0),
  };
}
