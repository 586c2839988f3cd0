/** A reservation, or an object in the cluster, that names its owner. */
export type OwnedObject = {
  /** No other object ever has it. */
  readonly uid: string;
  /** The installation that made it, where that is another one. */
  readonly otherInstallation?: string | undefined;
};

/** Whether an object is left over. An owner kind whose reasons are words names them in `Reason`. */
export type Standing<Reason extends string = string> = {
  /** `owned`: its owner needs it, or may need it. `blocked`: it is left over, and something else has to go first. */
  readonly kind: "owned" | "blocked" | "left";
  readonly because: Reason;
};

export type SweepStep<Item> = {
  /** `suspect`: it looks left over, and is removed when it still does later. */
  readonly kind: "keep" | "suspect" | "remove";
  readonly object: Item;
  readonly because: string;
};

/** The step with the removal withheld: `but` names what prevents it. */
export function withhold<Item>({ object, because }: SweepStep<Item>, but: string): SweepStep<Item> {
  return { kind: "suspect", object, because: `${because}, but ${but}` };
}

type SweepMemory = {
  /** By uid, since when it has looked left over at every sweep. */
  readonly leftSince: ReadonlyMap<string, number>;
  readonly nowMs: number;
  /**
   * An object is removed when it has looked left over at two sweeps at least, and for this long. Undefined: it is removed at the first sweep, which is right
   * only where no owner can come to have it later and its owner was requested at the store itself.
   */
  readonly graceMs: number | undefined;
};

/** One step an object, in their order. An object of another installation is kept, whatever its owner seems to be: its owner is stored elsewhere. */
export function planSweep<Item extends OwnedObject>(
  objects: readonly Item[],
  standingOf: (object: Item) => Standing,
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

/** The installation of each object that is left alone because another one made it. */
export function listForeign<Item extends OwnedObject>(
  objects: readonly Item[],
  standingOf: (object: Item) => Standing,
): readonly string[] {
  return objects.flatMap((object) => (standingOf(object).kind === "owned" ? [] : (object.otherInstallation ?? [])));
}

/** Why nothing is removed, although so many objects look left over: lost records are likelier. */
export type Brake = { readonly left: number; readonly because: BrakeReason };

export type BrakeReason =
  | { readonly code: "no-owner-stored"; readonly owner: string }
  | { readonly code: "older-than-store"; readonly count: number }
  | { readonly code: "too-many"; readonly max: number }
  | { readonly code: "too-large-a-part"; readonly found: number; readonly maxPercent: number };

export type BrakePolicy = {
  /** So many objects may look left over at one sweep, and so large a part of all that were found. */
  readonly maxObjects: number;
  readonly maxPercent: number;
};

type BrakeSnapshot = {
  readonly left: number;
  /** How many of `left` are older than the store of their owners. */
  readonly olderThanStore: number;
  readonly found: number;
  /** How many owners are stored. */
  readonly owners: number;
  /** The noun of an owner: `lease`. */
  readonly owner: string;
  /** A user has confirmed that so many are left over. */
  readonly confirmed: number;
};

/** Of so few, any part may be left over. */
export const FEW = 10;

/**
 * Undefined: the sweep may remove what it plans. A process that has lost records sees leftovers everywhere, so what looks left over counts from the first
 * sweep on.
 */
export function decideSweepBrake(
  { left, olderThanStore, found, owners, owner, confirmed }: BrakeSnapshot,
  { maxObjects, maxPercent }: BrakePolicy,
): Brake | undefined {
  if (left === 0 || left <= confirmed) return undefined;
  const hold = (because: BrakeReason): Brake => ({ left, because });
  if (owners === 0) return hold({ code: "no-owner-stored", owner });
  if (olderThanStore > 0) return hold({ code: "older-than-store", count: olderThanStore });
  if (left > maxObjects) return hold({ code: "too-many", max: maxObjects });
  if (left > FEW && left * 100 > found * maxPercent) return hold({ code: "too-large-a-part", found, maxPercent });
  return undefined;
}

/** For logs and answers. */
export function describeBrake({ left, because }: Brake): string {
  switch (because.code) {
    case "no-owner-stored":
      return `${left} objects look left over, but there is no record of any ${because.owner}`;
    case "older-than-store":
      return `${because.count} of ${left} objects that look left over are older than the bucket of records`;
    case "too-many":
      return `${left} objects look left over, more than ${because.max}`;
    case "too-large-a-part":
      return `${left} of ${because.found} objects look left over, more than ${because.maxPercent} %`;
  }
}
