/** A reservation, or an object in the cluster, that names its owner. */
export type OwnedObject = {
  /** Unique: no other object ever has this uid. */
  readonly uid: string;
  /** The other installation that made the object; undefined for our own objects. */
  readonly otherInstallation?: string | undefined;
};

/** Whether an object is left over. `Reason` lists the words of an owner kind for its reasons. */
export type OwnerStanding<Reason extends string = string> = {
  /** `owned`: its owner needs it, or may need it. `blocked`: it is left over, but another object must be removed first. */
  readonly kind: "owned" | "blocked" | "left";
  readonly because: Reason;
};

export type SweepStep<Item> = {
  /** `suspect`: it appears left over, and is removed if it still does later. */
  readonly kind: "keep" | "suspect" | "remove";
  readonly object: Item;
  readonly because: string;
};

/** Returns the step without its removal. `but` names the obstacle to the removal. */
export function withholdRemoval<Item>({ object, because }: SweepStep<Item>, but: string): SweepStep<Item> {
  return { kind: "suspect", object, because: `${because}, but ${but}` };
}

type SweepMemory = {
  /** Times since when every sweep found the object left over, by uid. */
  readonly leftSince: ReadonlyMap<string, number>;
  readonly nowMs: number;
  /**
   * Milliseconds for which an object must appear left over, in at least two sweeps, before it is removed. Undefined: the first sweep removes it, which is safe
   * only if no owner can claim it later and its owner was read from the store itself.
   */
  readonly graceMs: number | undefined;
};

/** Plans one step per object, in their order. Keeps objects of another installation, because their owners are stored elsewhere. */
export function planSweep<Item extends OwnedObject>(
  objects: readonly Item[],
  standingOf: (object: Item) => OwnerStanding,
  { leftSince, nowMs, graceMs }: SweepMemory,
): SweepStep<Item>[] {
  return objects.map((object) => {
    const { kind, because } = standingOf(object);
    if (kind === "owned") return { kind: "keep", object, because };
    if (object.otherInstallation !== undefined)
      return { kind: "keep", object, because: `it is of installation ${object.otherInstallation}` };
    const since = leftSince.get(object.uid);
    const isDue = graceMs === undefined || (since !== undefined && nowMs - since >= graceMs);
    return { kind: isDue && kind === "left" ? "remove" : "suspect", object, because };
  });
}

/** Lists the installation of each object that is kept because another one made it. */
export function listForeign<Item extends OwnedObject>(
  objects: readonly Item[],
  standingOf: (object: Item) => OwnerStanding,
): readonly string[] {
  return objects.flatMap((object) => (standingOf(object).kind === "owned" ? [] : (object.otherInstallation ?? [])));
}

/** The reason why nothing is removed: lost records are more likely than so many leftovers. */
export type SweepBrake = { readonly left: number; readonly because: BrakeReason };

export type BrakeReason =
  | { readonly code: "no-owner-stored"; readonly owner: string }
  | { readonly code: "older-than-store"; readonly count: number }
  | { readonly code: "too-many"; readonly max: number }
  | { readonly code: "too-large-a-part"; readonly found: number; readonly maxPercent: number };

export type BrakePolicy = {
  /** Maximum leftover objects in one sweep, and their maximum share of all objects. */
  readonly maxObjects: number;
  readonly maxPercent: number;
};

type BrakeSnapshot = {
  readonly left: number;
  /** The number of `left` that are older than the store of their owners. */
  readonly olderThanStore: number;
  readonly found: number;
  /** Number of stored owners. */
  readonly owners: number;
  /** The noun of an owner: `lease`. */
  readonly owner: string;
  /** Number of leftovers that a user has confirmed. */
  readonly confirmed: number;
};

/** Up to this number, leftovers may be any share of the objects. */
export const MAX_LEFT_AT_ANY_SHARE = 10;

/**
 * Decides whether the sweep may remove objects; undefined: it may. A process that has lost records sees leftovers everywhere, so leftovers of the first sweep
 * also count.
 */
export function decideSweepBrake(
  { left, olderThanStore, found, owners, owner, confirmed }: BrakeSnapshot,
  { maxObjects, maxPercent }: BrakePolicy,
): SweepBrake | undefined {
  if (left === 0 || left <= confirmed) return undefined;
  const hold = (because: BrakeReason): SweepBrake => ({ left, because });
  if (owners === 0) return hold({ code: "no-owner-stored", owner });
  if (olderThanStore > 0) return hold({ code: "older-than-store", count: olderThanStore });
  if (left > maxObjects) return hold({ code: "too-many", max: maxObjects });
  if (left > MAX_LEFT_AT_ANY_SHARE && left * 100 > found * maxPercent)
    return hold({ code: "too-large-a-part", found, maxPercent });
  return undefined;
}

/** Describes the brake in logs and answers. */
export function describeBrake({ left, because }: SweepBrake): string {
  switch (because.code) {
    case "no-owner-stored":
      return `${left} objects look left over, but no record of any ${because.owner} exists`;
    case "older-than-store":
      return `${because.count} of ${left} objects that look left over are older than the bucket of records`;
    case "too-many":
      return `${left} objects look left over, more than ${because.max}`;
    case "too-large-a-part":
      return `${left} of ${because.found} objects look left over, more than ${because.maxPercent} %`;
  }
}
