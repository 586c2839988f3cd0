import type { Unavailability } from "./demand.ts";

/** The time for which a shortage is remembered. Afterwards the kind is requested again, even if every attempt in between has failed. */
export const REMEMBERED_MS = 600_000;

/** The shortage that a provider reported instead of starting an instance. */
export type CapacityShortage =
  | {
      readonly kind: "no-capacity";
      readonly zone: string | undefined;
      readonly subnet: string | undefined;
      readonly message: string;
      /** The provider does not have the zone: the file of pools or the work names a wrong one. */
      readonly isUnknownZone?: true;
    }
  | { readonly kind: "unsupported"; readonly message: string };

/** A kind of instance of one provider. */
export type RequestedInstance = { readonly provider: string; readonly instanceType: string; readonly spot: boolean };

/**
 * Builds the mark of a shortage, either of spot or of on-demand, as requested, because spot is often short while on-demand is not. A type that the provider
 * does not have is unavailable in all zones.
 */
export function buildMark(asked: RequestedInstance, shortage: CapacityShortage, nowMs: number): Unavailability {
  const { provider, instanceType, spot } = asked;
  return {
    provider,
    instanceType,
    spot,
    zone: shortage.kind === "no-capacity" ? shortage.zone : undefined,
    subnet: shortage.kind === "no-capacity" ? shortage.subnet : undefined,
    message: shortage.message,
    ...(shortage.kind === "no-capacity" && shortage.isUnknownZone && { isUnknownZone: true }),
    sinceMs: nowMs,
    untilMs: nowMs + REMEMBERED_MS,
  };
}

/** Remembers a shortage. An equal mark that has not expired stays unchanged, because a type that fails repeatedly would otherwise stay blocked forever. */
export function rememberShortage(memory: readonly Unavailability[], found: Unavailability): readonly Unavailability[] {
  const same = memory.findIndex((entry) => buildUnavailabilityKey(entry) === buildUnavailabilityKey(found));
  if (same === -1) return [...memory, found];
  const before = memory[same];
  return before !== undefined && before.untilMs > found.sinceMs ? memory : memory.with(same, found);
}

/** Removes expired shortages. */
export function dropExpired(memory: readonly Unavailability[], nowMs: number): readonly Unavailability[] {
  const left = memory.filter(({ untilMs }) => untilMs > nowMs);
  return left.length === memory.length ? memory : left;
}

/** The shortages, indexed by kind. */
export type CapacityShortages = {
  /**
   * Returns the oldest shortage of (type, spot) in a zone, or, with an undefined zone, where the provider would place it. Undefined if the kind can be
   * requested.
   */
  find(
    provider: string,
    instanceType: string,
    spot: boolean,
    zone: string | undefined,
    pool?: string,
  ): Unavailability | undefined;
  isUnavailable(provider: string, instanceType: string, spot: boolean, zone: string | undefined): boolean;
};

/**
 * Indexes the memory. The provider chooses the subnet, so a short subnet makes its whole zone short, or all zones if its zone is unknown. A shortage in one
 * zone does not affect others.
 */
export function buildShortages(memory: readonly Unavailability[], nowMs: number): CapacityShortages {
  const everywhere = new Map<string, Unavailability>();
  const byZone = new Map<string, Unavailability>();
  const byPool = new Map<string, Unavailability>();
  for (const entry of memory) {
    if (entry.untilMs <= nowMs) continue;
    const kind = buildKindKey(entry.provider, entry.instanceType, entry.spot);
    if (entry.pool !== undefined) keepOldest(byPool, `${kind}\n${entry.pool}`, entry);
    else if (entry.zone === undefined) keepOldest(everywhere, kind, entry);
    else keepOldest(byZone, `${kind}\n${entry.zone}`, entry);
  }
  const find: CapacityShortages["find"] = (provider, instanceType, spot, zone, pool) => {
    const kind = buildKindKey(provider, instanceType, spot);
    const general = everywhere.get(kind);
    const local = zone === undefined ? undefined : byZone.get(`${kind}\n${zone}`);
    const own = pool === undefined ? undefined : byPool.get(`${kind}\n${pool}`);
    return oldest(oldest(general, local), own);
  };
  return { find, isUnavailable: (...kind) => find(...kind) !== undefined };
}

function keepOldest(entries: Map<string, Unavailability>, key: string, entry: Unavailability): void {
  entries.set(key, oldest(entries.get(key), entry) ?? entry);
}

function oldest(one: Unavailability | undefined, other: Unavailability | undefined): Unavailability | undefined {
  if (one === undefined || other === undefined) return one ?? other;
  return one.sinceMs <= other.sinceMs ? one : other;
}

function buildKindKey(provider: string, instanceType: string, spot: boolean): string {
  return `${provider}\n${instanceType}\n${spot ? "spot" : "on-demand"}`;
}

function buildUnavailabilityKey({ provider, instanceType, spot, zone, subnet }: Unavailability): string {
  return `${buildKindKey(provider, instanceType, spot)}\n${zone ?? ""}\n${subnet ?? ""}`;
}
