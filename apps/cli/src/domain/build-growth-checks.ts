import { escapeControls } from "./build-table.ts";
import { buildPassedCheck, buildWarningCheck, type Check, type ObservedValue } from "./check.ts";
import { describeSilence } from "./build-node-views.ts";
import { listSome } from "./list-some.ts";
import { describePoolTrouble } from "./describe-pool-trouble.ts";
import type { Pool } from "../adapters/reservation-messages.ts";
import type { PoolScaling, PoolTrouble } from "../adapters/node-messages.ts";

/** A pool that may grow is healthy without a node while no work needs one. */
export function isElastic({ elasticMax }: Pool): boolean {
  return elasticMax > 0;
}

/** Limits the shown troubles of one pool; `muster nodes dump` shows the rest. */
const MAX_SHOWN = 3;

export type SeenScaler = { readonly pools: readonly PoolScaling[]; readonly troubles: readonly PoolTrouble[] };
type SeenPools = { readonly pools: ObservedValue<readonly Pool[]>; readonly scaler: ObservedValue<SeenScaler> };

/** Returns one check for each elastic pool. If the node-scaler does not answer, returns one warning instead. */
export function buildGrowthChecks({ pools, scaler }: SeenPools, nowMs: number): Check[] {
  if ("trouble" in pools) return [];
  if ("trouble" in scaler) {
    const silence = describeSilence(pools.value, nowMs);
    if (silence === undefined) return [];
    return [
      buildWarningCheck("nodes of pools", silence, "check that node-scaler runs and reaches NATS, and read its log"),
    ];
  }
  return pools.value.filter(isElastic).map(({ name }) => checkPool(name, scaler.value, nowMs));
}

function checkPool(pool: string, { pools, troubles }: SeenScaler, nowMs: number): Check {
  const check = `nodes of ${pool}`;
  const mine = troubles.filter((trouble) => trouble.pool === pool);
  const blocked = pools.find((one) => one.pool === pool)?.blocked;
  const [first] = mine;
  if (first !== undefined) {
    const lines = mine.map((trouble) => describePoolTrouble(trouble, nowMs));
    return buildWarningCheck(check, listSome(lines, MAX_SHOWN, ";"), adviceFor(first));
  }
  // Work beyond the maximum of a pool must wait, which is no failure.
  if (blocked?.code === "UNAVAILABLE")
    return buildWarningCheck(
      check,
      escapeControls(blocked.message),
      "read the log of node-scaler; `muster nodes dump` shows its loops",
    );
  if (blocked?.code === "TOO_LARGE")
    return buildWarningCheck(
      check,
      escapeControls(blocked.message),
      `request less, or give pool ${pool} a larger type in the file of pools`,
    );
  return buildPassedCheck(
    check,
    blocked === undefined ? "nothing prevents the node scaler from creating them" : escapeControls(blocked.message),
  );
}

function adviceFor({ code, pool, provider, instanceType }: PoolTrouble): string {
  switch (code) {
    case "ZONE_UNKNOWN":
      return `correct zones of pool ${pool} in the file of pools, or the zone that the work selects`;
    case "NO_CAPACITY":
      return `wait, or give pool ${pool} another instance type or zone in the file of pools`;
    case "BOOT_FAILED":
      return `the text in brackets comes from provider ${provider}; if it does not help, inspect an instance of type ${instanceType} in its console, and read BOOT_FAILED in docs/elastic-pools.md; \`muster nodes -p ${pool} --all\` shows those that failed`;
    case "BOOT_TIMEOUT":
      return `find out from the console of an instance of type ${instanceType} why it does not join; give a slow one a longer bootTimeout in pool ${pool}; \`muster nodes -p ${pool}\` shows those that boot`;
    case "UNHEALTHY":
      return `such nodes are ready, and end before their first use: check for taints, for the label of pool ${pool}, and at the kubelet of one; \`muster nodes -p ${pool} --all\` shows them`;
    case "PROVIDER_FAILED":
      return `check that the node scaler reaches provider ${provider} and has valid credentials; its log has the details`;
    case "POOL_WRONG":
      return `correct the problem in brackets: in pool ${pool} of the file of pools, or in the node configuration of provider ${provider}`;
    default:
      return `\`muster nodes dump\` shows what the node scaler does for pool ${pool}`;
  }
}
