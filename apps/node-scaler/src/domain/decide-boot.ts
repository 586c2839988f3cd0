import type { Demand, Unavailability } from "./demand.ts";
import { describeLeft } from "./describe-duration.ts";
import type { Pool } from "./fit.ts";
import type { CapacityShortages } from "./unavailability.ts";

/** The request of a demand, or of a standby entry, to the provider. */
type Wish = Pick<Demand, "instanceTypes" | "spot" | "zone">;

export type BootVerdict =
  | { readonly kind: "boot"; readonly instanceType: string; readonly spot: boolean; readonly zone: string | undefined }
  | { readonly kind: "wait"; readonly code: HindranceCode; readonly because: string };

type HindranceCode = "UNAVAILABLE" | "ZONE_UNKNOWN" | "TOO_LARGE" | "NODE_SELECTION" | "TOPOLOGY";

export type BootConditions = {
  readonly shortages: CapacityShortages;
  /** The time for which spot must have been short before on-demand is requested instead, if the demand allows it. */
  readonly spotRequestPauseMs: number;
  readonly nowMs: number;
};

/**
 * Decides which instance to boot: the first type in order of preference without a known shortage, in the first zone without one. With the policy Preferred,
 * every type is tried as spot first. On-demand follows only after all spot has been short for the pause.
 */
export function decideBoot(wish: Wish, pool: Pool, conditions: BootConditions): BootVerdict {
  const spot = wish.spot !== "Never";
  const hindrance = findObstacle(wish, pool);
  if (hindrance !== undefined) return hindrance;
  const tried = decideFirstType(wish, spot, pool, conditions);
  if (tried.kind === "boot") return tried;
  if (wish.spot !== "Preferred") return buildBootWait([tried], conditions);
  const pauseLeftMs = tried.sinceMs + conditions.spotRequestPauseMs - conditions.nowMs;
  if (pauseLeftMs > 0) {
    const because = `${describeShortages([tried])}; on-demand is requested in ${describeLeft(pauseLeftMs)}`;
    return { kind: "wait", code: "UNAVAILABLE", because };
  }
  const onDemand = decideFirstType(wish, false, pool, conditions);
  return onDemand.kind === "boot" ? onDemand : buildBootWait([tried, onDemand], conditions);
}

type Short = {
  readonly kind: "wait";
  readonly spot: boolean;
  /** All tried kinds, in the order of the attempts. */
  readonly kinds: readonly {
    readonly instanceType: string;
    readonly zone: string | undefined;
    readonly shortage: Unavailability;
  }[];
  /** The time at which the last of these kinds became short. */
  readonly sinceMs: number;
};

/** An undefined zone means any zone with capacity. */
type Zones = readonly (string | undefined)[];

/** Returns a hindrance that neither another type nor a retry changes. */
function findObstacle(wish: Wish, pool: Pool): BootVerdict | undefined {
  const { name } = pool.policy;
  if (wish.instanceTypes.length === 0)
    return { kind: "wait", code: "TOO_LARGE", because: `no instance type of pool ${name} is large enough` };
  if (pool.bootImage === undefined)
    return { kind: "wait", code: "UNAVAILABLE", because: `the boot image of pool ${name} is not known` };
  if (zonesFor(wish, pool).length === 0)
    return { kind: "wait", code: "UNAVAILABLE", because: `pool ${name} has no zone ${wish.zone ?? ""}` };
  return undefined;
}

function decideFirstType(
  wish: Wish,
  spot: boolean,
  pool: Pool,
  { shortages }: BootConditions,
): Extract<BootVerdict, { kind: "boot" }> | Short {
  const zones = zonesFor(wish, pool);
  const kinds: Short["kinds"][number][] = [];
  for (const instanceType of wish.instanceTypes) {
    for (const zone of zones) {
      const shortage = shortages.find(pool.policy.provider, instanceType, spot, zone, pool.policy.name);
      if (shortage === undefined) return { kind: "boot", instanceType, spot, zone };
      kinds.push({ instanceType, zone, shortage });
    }
  }
  return { kind: "wait", spot, kinds, sinceMs: Math.max(...kinds.map(({ shortage }) => shortage.sinceMs)) };
}

function zonesFor({ zone }: Wish, { policy }: Pool): Zones {
  const zones = policy.zones?.length === 0 ? undefined : policy.zones;
  if (zone === undefined) return zones ?? [undefined];
  return zones === undefined || zones.includes(zone) ? [zone] : [];
}

function buildBootWait(shorts: readonly Short[], { nowMs }: BootConditions): BootVerdict {
  const untilMs = Math.min(...shorts.flatMap(({ kinds }) => kinds.map(({ shortage }) => shortage.untilMs)));
  const because = `${describeShortages(shorts)}; requested again in ${describeLeft(untilMs - nowMs)}`;
  const isZoneUnknown = shorts.every(({ kinds }) => kinds.every(({ shortage }) => shortage.isUnknownZone === true));
  return { kind: "wait", code: isZoneUnknown ? "ZONE_UNKNOWN" : "UNAVAILABLE", because };
}

/** A type that is short as spot and on demand, in two zones, has at most four causes. */
const MAX_NAMED_CAUSES = 4;

/** Describes types and zones with the same cause of their shortage together. */
function describeShortages(shorts: readonly Short[]): string {
  const causes = shorts.flatMap(({ spot, kinds }) =>
    [...Map.groupBy(kinds, ({ shortage }) => shortage.message)].map(([message, alike]) => {
      const types = [...new Set(alike.map(({ instanceType }) => instanceType))];
      const zones = [...new Set(alike.flatMap(({ zone }) => zone ?? []))];
      const place = zones.length === 0 ? "" : ` in zone ${zones.join(", ")}`;
      const cause = message === "" ? "" : ` (${message})`;
      return `no ${types.join(", ")} ${spot ? "as spot" : "on demand"}${place}${cause}`;
    }),
  );
  const more = causes.length - MAX_NAMED_CAUSES;
  return `there is ${causes.slice(0, MAX_NAMED_CAUSES).join(", ")}${more > 0 ? `, and ${more} more causes` : ""}`;
}
