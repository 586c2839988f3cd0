import type { Unavailability } from "./demand.ts";

/** How long a shortage is remembered. After it, the kind is asked for again, also when every attempt since then has failed. */
export const REMEMBERED_MS = 600_000;

/** The shortage that a provider reported instead of starting an instance. */
export type Shortage =
  | {
      readonly kind: "no-capacity";
      readonly zone: string | undefined;
      readonly subnet: string | undefined;
      readonly message: string;
      /** The provider has no such zone: the file of pools or the work names a wrong one. */
      readonly isUnknownZone?: true;
    }
  | { readonly kind: "unsupported"; readonly message: string };

/** A kind of instance of one provider. */
export type Asked = { readonly provider: string; readonly instanceType: string; readonly spot: boolean };

/**
 * The mark that a shortage leaves. It is about spot or about on-demand, whichever was asked for: spot is often short where on-demand is not. A type that the
 * provider does not have is unavailable everywhere.
 */
export function buildMark(asked: Asked, shortage: Shortage, nowMs: number): Unavailability {
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

/** Remembers a mark. The same one that has not lapsed stays as it is: a type that fails again and again would be blocked for ever otherwise. */
export function mark(memory: readonly Unavailability[], found: Unavailability): readonly Unavailability[] {
  const same = memory.findIndex((entry) => keyOf(entry) === keyOf(found));
  if (same === -1) return [...memory, found];
  const before = memory[same];
  return before !== undefined && before.untilMs > found.sinceMs ? memory : memory.with(same, found);
}

/** Removes expired shortages. */
export function dropExpired(memory: readonly Unavailability[], nowMs: number): readonly Unavailability[] {
  const left = memory.filter(({ untilMs }) => untilMs > nowMs);
  return left.length === memory.length ? memory : left;
}

/** The mark of an unavailable kind, found by its key. */
export type Shortages = {
  /**
   * What is known to be short of (type, spot) in a zone, or wherever the provider would put it when the zone is undefined; undefined: it can be asked for.
   * The oldest one that covers it.
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
 * Makes the memory quick to ask. A subnet lies in one zone and the provider chooses it, so that a short subnet counts as its zone; where the provider did not
 * say which that is, as everywhere. What is short in one zone says nothing about any zone.
 */
export function buildShortages(memory: readonly Unavailability[], nowMs: number): Shortages {
  const everywhere = new Map<string, Unavailability>();
  const byZone = new Map<string, Unavailability>();
  const byPool = new Map<string, Unavailability>();
  for (const entry of memory) {
    if (entry.untilMs <= nowMs) continue;
    const kind = kindOf(entry.provider, entry.instanceType, entry.spot);
    if (entry.pool !== undefined) keepOldest(byPool, `${kind}\n${entry.pool}`, entry);
    else if (entry.zone === undefined) keepOldest(everywhere, kind, entry);
    else keepOldest(byZone, `${kind}\n${entry.zone}`, entry);
  }
  const find: Shortages["find"] = (provider, instanceType, spot, zone, pool) => {
    const kind = kindOf(provider, instanceType, spot);
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

function kindOf(provider: string, instanceType: string, spot: boolean): string {
  return `${provider}\n${instanceType}\n${spot ? "spot" : "on-demand"}`;
}

function keyOf({ provider, instanceType, spot, zone, subnet }: Unavailability): string {
  return `${kindOf(provider, instanceType, spot)}\n${zone ?? ""}\n${subnet ?? ""}`;
}
