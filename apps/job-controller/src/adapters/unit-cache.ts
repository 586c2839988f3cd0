import { ownerIdOfUnit } from "../domain/build-units.ts";
import type { UnitSeen } from "../domain/snapshot.ts";
import type { OwnedUnit } from "./messages.ts";

/** What the ledger is known to have for jobs, by owner id and unit. */
export type UnitCache = {
  get(unitId: string): OwnedUnit | undefined;
  /** In the order of unit ids. */
  ofOwner(ownerId: string): readonly OwnedUnit[];
  ownerIds(): ReadonlySet<string>;
  /** One answer, or one hint; a reservation that is known to wait has waited since then. Undefined: the ledger has nothing for this unit. Not heard: a reservation that has ended, and that one which is granted waits. */
  learn(unitId: string, unit: OwnedUnit | undefined): void;
  /** This reservation is over. Whatever is still told of it, by a late hint or by a list that is under way, is not heard. */
  end(unitId: string, reservationId: string): void;
  /** Begins a list of everything. What is learnt before `finish` is newer than the list, and stays. */
  beginList(): {
    add(unit: OwnedUnit): void;
    /** Incomplete: the list has shown nothing about what it does not have. */
    finish(complete: boolean): void;
  };
};

/** Reservations whose end is remembered; hints are late by moments, and lists by seconds. */
const ENDED_MOST = 10_000;

/** An empty cache; `changed` is called with the owner id after each change that a pass would see. */
export function unitCache(changed: (ownerId: string) => void): UnitCache {
  const byOwner = new Map<string, Map<string, OwnedUnit>>();
  /** Units that something was learnt of since the oldest list that is under way began. */
  const learnt = new Set<string>();
  /** With the unit, because a ledger that was made anew counts from the beginning. */
  const ended = new Set<string>();
  let lists = 0;

  function get(unitId: string): OwnedUnit | undefined {
    return byOwner.get(ownerIdOfUnit(unitId))?.get(unitId);
  }
  function isLate(unit: OwnedUnit): boolean {
    const before = get(unit.id);
    const isBefore = before?.state === "granted" && before.reservationId === unit.reservationId;
    return ended.has(`${unit.id} ${unit.reservationId}`) || (isBefore && unit.state === "waiting");
  }
  function put(unitId: string, told: OwnedUnit | undefined): void {
    if (told !== undefined && isLate(told)) return;
    const ownerId = ownerIdOfUnit(unitId);
    const before = get(unitId);
    const unit = goesOn(before, told);
    if (isSame(before, unit)) return;
    const units = byOwner.get(ownerId) ?? new Map<string, OwnedUnit>();
    if (unit === undefined) units.delete(unitId);
    else units.set(unitId, unit);
    if (units.size === 0) byOwner.delete(ownerId);
    else byOwner.set(ownerId, units);
    changed(ownerId);
  }

  return {
    get,
    ofOwner: (ownerId) => [...(byOwner.get(ownerId)?.values() ?? [])].sort((a, b) => (a.id < b.id ? -1 : 1)),
    ownerIds: () => new Set(byOwner.keys()),
    learn: (unitId, unit) => {
      if (lists > 0) learnt.add(unitId);
      put(unitId, unit);
    },
    end: (unitId, reservationId) => {
      ended.add(`${unitId} ${reservationId}`);
      const oldest = ended.size > ENDED_MOST ? ended.values().next().value : undefined;
      if (oldest !== undefined) ended.delete(oldest);
      if (get(unitId)?.reservationId === reservationId) put(unitId, undefined);
    },
    beginList: () => {
      lists += 1;
      const listed = new Map<string, OwnedUnit>();
      return {
        add: (unit) => listed.set(unit.id, unit),
        finish: (complete) => {
          for (const [id, unit] of listed) if (!learnt.has(id)) put(id, unit);
          const others = [...byOwner.values()]
            .flatMap((units) => [...units.values()])
            .filter(({ id }) => !listed.has(id));
          // A refusal is our memory only: the ledger keeps nothing of it.
          for (const { id, state } of complete ? others : [])
            if (state !== "refused" && !learnt.has(id)) put(id, undefined);
          lists -= 1;
          if (lists === 0) learnt.clear();
        },
      };
    },
  };
}

/** As it is told, but that one which was seen to wait earlier has waited since then. */
function goesOn(before: OwnedUnit | undefined, told: OwnedUnit | undefined): OwnedUnit | undefined {
  if (before?.state !== "waiting" || told?.state !== "waiting") return told;
  return before.reservationId === told.reservationId ? { ...told, sinceMs: before.sinceMs } : told;
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
