import type { Demand, Unavailability } from "./demand.ts";
import type { Pool } from "./fit.ts";
import type { Shortages } from "./unavailability.ts";

/** What a demand, or a standby entry, asks of the provider. */
export type Wish = Pick<Demand, "instanceTypes" | "spot" | "zone">;

export type BootVerdict = {
  /** The kinds of free nodes that do, in the order in which they are looked for: true is spot. */
  readonly spots: readonly boolean[];
  readonly boot:
    | { readonly do: "boot"; readonly instanceType: string; readonly spot: boolean; readonly zone: string | undefined }
    | { readonly do: "wait"; readonly because: string };
};

export type BootConditions = {
  readonly shortages: Shortages;
  /** How long spot must have been short before on-demand is asked for instead, where the demand allows it. */
  readonly spotRequestPauseMs: number;
  readonly nowMs: number;
};

/**
 * Which instance would be booted: the first type in the order of preference that is not known to be short, in the first zone where it is not. With the policy
 * Preferred every type is tried as spot before any is tried on demand, and that only once all spot has been short for the pause.
 */
export function decideBoot(wish: Wish, pool: Pool, conditions: BootConditions): BootVerdict {
  const spot = wish.spot !== "Never";
  const hindrance = hindranceOf(wish, pool);
  if (hindrance !== undefined) return { spots: [spot], boot: { do: "wait", because: hindrance } };
  const tried = tryAll(wish, spot, pool, conditions);
  if (tried.do === "boot" || wish.spot !== "Preferred") return { spots: [spot], boot: bootOf(tried, conditions) };
  const pauseLeftMs = tried.sinceMs + conditions.spotRequestPauseMs - conditions.nowMs;
  if (pauseLeftMs > 0) {
    const because = `${describeShortage(tried)}; on-demand is asked for in ${seconds(pauseLeftMs)} s`;
    return { spots: [true], boot: { do: "wait", because } };
  }
  return { spots: [true, false], boot: bootOf(tryAll(wish, false, pool, conditions), conditions) };
}

type Short = {
  readonly do: "wait";
  readonly instanceTypes: readonly string[];
  readonly spot: boolean;
  readonly zones: Zones;
  /** When the last of them became short. */
  readonly sinceMs: number;
  readonly latest: Unavailability;
  /** When the first of them is asked for again. */
  readonly untilMs: number;
};

/** Undefined: wherever the provider finds room. */
type Zones = readonly (string | undefined)[];

/** What no other type and no patience would change. */
function hindranceOf(wish: Wish, pool: Pool): string | undefined {
  const { name } = pool.policy;
  if (pool.bootImage === undefined) return `the boot image of pool ${name} is not known`;
  if (wish.instanceTypes.length === 0) return `no instance type of pool ${name} is large enough`;
  return zonesFor(wish, pool).length === 0 ? `pool ${name} has no zone ${wish.zone ?? ""}` : undefined;
}

function tryAll(
  wish: Wish,
  spot: boolean,
  pool: Pool,
  { shortages }: BootConditions,
): Extract<BootVerdict["boot"], { do: "boot" }> | Short {
  const zones = zonesFor(wish, pool);
  const short: Unavailability[] = [];
  for (const instanceType of wish.instanceTypes) {
    for (const zone of zones) {
      const shortage = shortages.find(pool.policy.provider, instanceType, spot, zone, pool.policy.name);
      if (shortage === undefined) return { do: "boot", instanceType, spot, zone };
      short.push(shortage);
    }
  }
  const latest = short.reduce((one, other) => (other.sinceMs > one.sinceMs ? other : one));
  const untilMs = Math.min(...short.map((shortage) => shortage.untilMs));
  return { do: "wait", instanceTypes: wish.instanceTypes, spot, zones, sinceMs: latest.sinceMs, latest, untilMs };
}

function zonesFor({ zone }: Wish, { policy }: Pool): Zones {
  const zones = policy.zones?.length === 0 ? undefined : policy.zones;
  if (zone === undefined) return zones ?? [undefined];
  return zones === undefined || zones.includes(zone) ? [zone] : [];
}

function bootOf(tried: ReturnType<typeof tryAll>, { nowMs }: BootConditions): BootVerdict["boot"] {
  if (tried.do === "boot") return tried;
  return { do: "wait", because: `${describeShortage(tried)}; asked for again in ${seconds(tried.untilMs - nowMs)} s` };
}

function describeShortage({ instanceTypes, spot, zones, latest }: Short): string {
  const named = zones.filter((zone) => zone !== undefined);
  const place = named.length === 0 ? "" : ` in zone ${named.join(", ")}`;
  const cause = latest.message === "" ? "" : ` (${latest.message})`;
  return `there is no ${instanceTypes.join(", ")} ${spot ? "as spot" : "on demand"}${place}${cause}`;
}

function seconds(durationMs: number): number {
  return Math.ceil(durationMs / 1000);
}
