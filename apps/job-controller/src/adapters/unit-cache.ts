import { ownerIdOfUnit } from "../domain/build-units.ts";
import type { UnitSeen } from "../domain/snapshot.ts";
import type { OwnedUnit } from "./messages.ts";

/** What the ledger is known to have for jobs, by owner id and unit. */
export type UnitCache = {
  get(unitId: string): OwnedUnit | undefined;
  /** In the order of unit ids. */
  ofOwner(ownerId: string): readonly OwnedUnit[];
  ownerIds(): ReadonlySet<string>;
  /** The ledger's answer about one unit; undefined: it has no reservation for it. A reservation that waits has waited since it was first seen to wait. */
  learn(unitId: string, unit: OwnedUnit | undefined): void;
  /** A hint, which may be older than anything that is known. */
  hear(unit: OwnedUnit): void;
  /** This reservation is over: later hints and lists that still have it are ignored. */
  end(unitId: string, reservationId: string): void;
  /** Begins a list of all units. */
  beginList(): {
    add(unit: OwnedUnit): void;
    /** `complete`: the list has every unit, and `nextSequence` is that of its first page, 0 where it is not known. Undefined: what the list lacks may exist. */
    finish(complete: { readonly nextSequence: number } | undefined): void;
  };
};

/** Reservations whose end is remembered; hints are late by moments, and lists by seconds. */
const ENDED_MOST = 10_000;

/** An empty cache; `changed` is called with the owner id after each change that a pass would see. */
export function unitCache(changed: (ownerId: string) => void): UnitCache {
  const byOwner = new Map<string, Map<string, OwnedUnit>>();
  /** Units that something was learnt of since the oldest list that is under way began. */
  const learnt = new Set<string>();
  /** With the unit: a ledger that was recreated counts from the beginning. */
  const ended = new Set<string>();
  /** A complete list has shown every reservation below this sequence that was not over. */
  let shownBelow = 0;
  let completed = 0;
  let lists = 0;

  const get = (unitId: string) => byOwner.get(ownerIdOfUnit(unitId))?.get(unitId);
  function put(unitId: string, unit: OwnedUnit | undefined): void {
    const before = get(unitId);
    if (unit !== undefined && (ended.has(keyOf(unit)) || isBeforeGrant(before, unit))) return;
    const after = withWait(before, unit);
    if (isSame(before, after)) return;
    const ownerId = ownerIdOfUnit(unitId);
    const units = byOwner.get(ownerId) ?? new Map<string, OwnedUnit>();
    if (after === undefined) units.delete(unitId);
    else units.set(unitId, after);
    if (units.size === 0) byOwner.delete(ownerId);
    else byOwner.set(ownerId, units);
    changed(ownerId);
  }
  /** From a source that may be older than the newest complete list. */
  function putUnlessOver(unit: OwnedUnit): void {
    if (!isOver(get(unit.id), unit, shownBelow)) put(unit.id, unit);
  }
  function finishList(listed: ReadonlyMap<string, OwnedUnit>, begun: Begun, complete: Complete): void {
    const isRecreated = (complete?.nextSequence || Infinity) < begun.shownBelow;
    if (isRecreated) {
      shownBelow = 0;
      ended.clear();
    }
    const isOvertaken = completed > begun.completed;
    for (const [id, unit] of listed) {
      if (learnt.has(id)) continue;
      if (isOvertaken) putUnlessOver(unit);
      else put(id, unit);
    }
    if (complete === undefined) return;
    const below = isRecreated ? Infinity : complete.nextSequence || Infinity;
    for (const unit of [...byOwner.values()].flatMap((units) => [...units.values()])) {
      const { id, state, sequence } = unit;
      // The ledger keeps no refusals.
      if (state !== "refused" && sequence < below && !listed.has(id) && !learnt.has(id)) put(id, undefined);
    }
    shownBelow = Math.max(shownBelow, complete.nextSequence);
    completed += 1;
  }

  return {
    get,
    ofOwner: (ownerId) => [...(byOwner.get(ownerId)?.values() ?? [])].sort((a, b) => (a.id < b.id ? -1 : 1)),
    ownerIds: () => new Set(byOwner.keys()),
    learn: (unitId, unit) => {
      if (lists > 0) learnt.add(unitId);
      put(unitId, unit);
    },
    hear: (unit) => {
      if (isOver(get(unit.id), unit, shownBelow)) return;
      if (lists > 0) learnt.add(unit.id);
      put(unit.id, unit);
    },
    end: (unitId, reservationId) => {
      ended.add(keyOf({ id: unitId, reservationId }));
      const oldest = ended.size > ENDED_MOST ? ended.values().next().value : undefined;
      if (oldest !== undefined) ended.delete(oldest);
      if (get(unitId)?.reservationId === reservationId) put(unitId, undefined);
    },
    beginList: () => {
      lists += 1;
      const begun = { completed, shownBelow };
      const listed = new Map<string, OwnedUnit>();
      return {
        add: (unit) => listed.set(unit.id, unit),
        finish: (complete) => {
          finishList(listed, begun, complete);
          lists -= 1;
          if (lists === 0) learnt.clear();
        },
      };
    },
  };
}

type Complete = { readonly nextSequence: number } | undefined;

/** How many lists were complete, and what they had shown, when a list began. */
type Begun = { readonly completed: number; readonly shownBelow: number };

/**
 * Whether a reservation that some source shows is over by what is known: the unit has a later one, or a complete list has shown every reservation below `shownBelow`
 * and this one is not known any more.
 */
export function isOver(before: OwnedUnit | undefined, shown: OwnedUnit, shownBelow: number): boolean {
  if (shown.sequence === 0 || before?.reservationId === shown.reservationId) return false;
  return shown.sequence < shownBelow || (before !== undefined && shown.sequence < before.sequence);
}

/** A granted reservation does not wait again. */
function isBeforeGrant(before: OwnedUnit | undefined, unit: OwnedUnit): boolean {
  return before?.state === "granted" && before.reservationId === unit.reservationId && unit.state === "waiting";
}

function keyOf({ id, reservationId }: Pick<OwnedUnit, "id" | "reservationId">): string {
  return `${id} ${reservationId}`;
}

/** A reservation that was seen to wait earlier has waited since then. */
function withWait(before: OwnedUnit | undefined, unit: OwnedUnit | undefined): OwnedUnit | undefined {
  if (before?.state !== "waiting" || unit?.state !== "waiting") return unit;
  return before.reservationId === unit.reservationId ? { ...unit, sinceMs: before.sinceMs } : unit;
}

/** Whether a pass would see no difference. */
function isSame(before: OwnedUnit | undefined, after: OwnedUnit | undefined): boolean {
  if (before?.state !== after?.state || before?.reservationId !== after?.reservationId) return false;
  const wait = (unit: UnitSeen | undefined): string =>
    unit?.state === "waiting" || unit?.state === "refused"
      ? `${unit.because.code} ${unit.because.text} ${unit.sinceMs}`
      : "";
  return wait(before) === wait(after);
}
