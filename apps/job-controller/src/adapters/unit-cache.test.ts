import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { OwnedUnit } from "./messages.ts";
import { isOver, unitCache, type UnitCache } from "./unit-cache.ts";

const OWNER = "train-0a1b2c3d4e5f";
const NODES = new Map([["worker-0", "node-a"]]);

function granted(id: string, reservationId: string): OwnedUnit {
  return { id, reservationId, sequence: Number(reservationId), state: "granted", nodes: NODES };
}

function waiting(id: string, reservationId: string, text = "in a queue"): OwnedUnit {
  const because = { code: "POOL_AVAILABILITY", text };
  const sequence = Number(reservationId);
  return { id, reservationId, sequence, state: "waiting", components: ["worker-0"], because, sinceMs: 1 };
}

function refused(id: string): OwnedUnit {
  const because = { code: "POOL_UNKNOWN", text: "no such pool" };
  return { id, reservationId: "", sequence: 0, state: "refused", components: ["worker-0"], because, sinceMs: 1 };
}

function opened(): { cache: UnitCache; changes: string[] } {
  const changes: string[] = [];
  return { cache: unitCache((ownerId) => changes.push(ownerId)), changes };
}

describe("the cache of units", () => {
  it("tells of changes by owner, and of nothing when a pass would see none", () => {
    const { cache, changes } = opened();
    cache.learn(OWNER, waiting(OWNER, "1"));
    cache.learn(OWNER, waiting(OWNER, "1"));
    cache.learn(OWNER, waiting(OWNER, "1", "still"));
    cache.learn(`${OWNER}--worker-3`, granted(`${OWNER}--worker-3`, "2"));
    cache.end(OWNER, "7");
    expect(changes).toEqual([OWNER, OWNER, OWNER]);
    expect(cache.ofOwner(OWNER).map(({ id }) => id)).toEqual([OWNER, `${OWNER}--worker-3`]);
  });

  it("forgets the owner with its last unit", () => {
    const { cache } = opened();
    cache.learn(OWNER, granted(OWNER, "1"));
    cache.end(OWNER, "1");
    expect(cache.ownerIds()).toEqual(new Set());
  });

  it("does not hear of a reservation that has ended, be it by a late hint or by a list", () => {
    const { cache } = opened();
    const list = cache.beginList();
    list.add(granted(OWNER, "1"));
    cache.end(OWNER, "1");
    list.finish({ nextSequence: 9 });
    expect(cache.get(OWNER)).toBeUndefined();
    cache.learn(OWNER, granted(OWNER, "1"));
    expect(cache.get(OWNER)).toBeUndefined();
    cache.learn(OWNER, granted(OWNER, "2"));
    expect(cache.get(OWNER)?.reservationId).toBe("2");
  });

  it("keeps a later reservation when the end of an earlier one is told late", () => {
    const { cache } = opened();
    cache.learn(OWNER, granted(OWNER, "2"));
    cache.end(OWNER, "1");
    expect(cache.get(OWNER)?.reservationId).toBe("2");
  });

  it("believes a grant, and not the answer before it that comes after it", () => {
    const { cache } = opened();
    cache.learn(OWNER, granted(OWNER, "1"));
    cache.learn(OWNER, waiting(OWNER, "1"));
    expect(cache.get(OWNER)?.state).toBe("granted");
  });

  it("lets a complete list take away what it does not have, but for refusals and what was learnt meanwhile", () => {
    const { cache } = opened();
    cache.learn("old-1", granted("old-1", "1"));
    cache.learn("no-1", refused("no-1"));
    const list = cache.beginList();
    cache.learn("new-1", granted("new-1", "2"));
    list.finish({ nextSequence: 9 });
    expect(cache.ownerIds()).toEqual(new Set(["no-1", "new-1"]));
  });

  it("lets a list that failed half way add, and take nothing away", () => {
    const { cache } = opened();
    cache.learn("old-1", granted("old-1", "1"));
    const list = cache.beginList();
    list.add(granted("more-1", "2"));
    list.finish(undefined);
    expect(cache.ownerIds()).toEqual(new Set(["old-1", "more-1"]));
  });
});

describe("lists of the ledger that overlap", () => {
  it.each(["older", "newer"])("show nothing again that the %s one has shown to be over", (first) => {
    const { cache } = opened();
    cache.learn(OWNER, granted(OWNER, "1"));
    const older = cache.beginList();
    const newer = cache.beginList();
    const [over, late] = first === "older" ? [older, newer] : [newer, older];
    late.add(granted(OWNER, "1"));
    over.finish({ nextSequence: 2 });
    late.finish({ nextSequence: 2 });
    expect(cache.get(OWNER)).toBeUndefined();
  });

  it("keep what was reserved after the list that ended first", () => {
    const { cache } = opened();
    const newer = cache.beginList();
    const older = cache.beginList();
    newer.add(granted(OWNER, "2"));
    older.finish({ nextSequence: 2 });
    newer.finish({ nextSequence: 3 });
    expect(cache.get(OWNER)?.reservationId).toBe("2");
  });

  it("keep the later reservation of a unit", () => {
    const { cache } = opened();
    const older = cache.beginList();
    const newer = cache.beginList();
    older.add(granted(OWNER, "1"));
    newer.add(granted(OWNER, "2"));
    newer.finish({ nextSequence: 3 });
    older.finish({ nextSequence: 2 });
    expect(cache.get(OWNER)?.reservationId).toBe("2");
  });
});

it("a hint of a reservation that a complete list has shown to be over is ignored", () => {
  const { cache } = opened();
  cache.learn(OWNER, granted(OWNER, "1"));
  cache.beginList().finish({ nextSequence: 2 });
  cache.hear(granted(OWNER, "1"));
  expect(cache.get(OWNER)).toBeUndefined();
  cache.hear(granted(OWNER, "2"));
  expect(cache.get(OWNER)?.reservationId).toBe("2");
});

it("a ledger that was recreated replaces what the one before had, and its hints count", () => {
  const { cache } = opened();
  const before = cache.beginList();
  for (const id of ["a-1", "b-1"]) before.add(granted(id, "7"));
  before.finish({ nextSequence: 9 });
  cache.end("a-1", "1");
  const after = cache.beginList();
  after.add(granted("a-1", "1"));
  after.finish({ nextSequence: 2 });
  expect(cache.ownerIds()).toEqual(new Set(["a-1"]));
  expect(cache.get("a-1")?.reservationId).toBe("1");
  cache.hear(granted("b-1", "2"));
  expect(cache.get("b-1")?.reservationId).toBe("2");
});

it.each([
  ["is not known, and below what a list has shown", undefined, 3, 4, true],
  ["is not known, and made since the list", undefined, 4, 4, false],
  ["is the one that is known", 3, 3, 4, false],
  ["is older than the one that is known", 5, 4, 4, true],
  ["is newer than the one that is known", 5, 6, 4, false],
  ["is of a ledger that numbers none", undefined, 0, 4, false],
])("a reservation that %s: over %s", (_title, known, shown, shownBelow, over) => {
  const before = known === undefined ? undefined : granted(OWNER, String(known));
  expect(isOver(before, granted(OWNER, String(shown)), shownBelow)).toBe(over);
});

const UNITS = ["a-1", "a-1--worker-0"];
type Action = { readonly do: string; readonly unit: string };
const action = fc.record({
  // Half of them are steps of lists, so that lists overlap.
  do: fc.oneof(
    fc.constantFrom("reserve", "grant", "release", "release silently", "hint"),
    fc.constantFrom("begin", "read", "finish first", "finish last"),
  ),
  unit: fc.constantFrom(...UNITS),
});

/** A ledger that the cache follows by answers, by hints that are late and in order, and by lists that overlap. */
function play(actions: readonly Action[]) {
  const { cache } = opened();
  const ledger = new Map<string, OwnedUnit>();
  const hints: (() => void)[] = [];
  const reportedEnded = new Set<string>();
  const lists: ListRead[] = [];
  /** Reservations that a complete list has shown to be over. */
  const shownOver = new Set<string>();
  let ids = 0;
  const finish = (read: ListRead | undefined): void => {
    read?.list.finish(read.seen && { nextSequence: read.seen.nextSequence });
    for (let id = 1; id < (read?.seen?.nextSequence ?? 0); id += 1)
      if (read?.seen?.reservations.has(String(id)) === false) shownOver.add(String(id));
  };
  const end = (unit: OwnedUnit): void => {
    reportedEnded.add(unit.reservationId);
    cache.end(unit.id, unit.reservationId);
  };
  const grant = (unit: string, reservationId: string): void => {
    ledger.set(unit, granted(unit, reservationId));
    hints.push(() => cache.hear(granted(unit, reservationId)));
  };
  for (const { do: what, unit } of actions) {
    const now = ledger.get(unit);
    const before = new Map(UNITS.map((id) => [id, cache.get(id)?.reservationId]));
    if (what === "reserve" && now === undefined) {
      ids += 1;
      ledger.set(unit, waiting(unit, String(ids)));
      cache.learn(unit, waiting(unit, String(ids)));
    } else if (what === "grant" && now?.state === "waiting") grant(unit, now.reservationId);
    else if (what === "release" && now !== undefined) {
      ledger.delete(unit);
      end(now);
      hints.push(() => end(now));
    } else if (what === "release silently" && now !== undefined) {
      ledger.delete(unit);
      hints.push(() => end(now));
    } else if (what === "hint") hints.shift()?.();
    else if (what === "begin") lists.push({ list: cache.beginList(), seen: undefined });
    else if (what === "read")
      read(
        lists.find(({ seen }) => seen === undefined),
        ledger,
        ids + 1,
      );
    else if (what === "finish first") finish(lists.shift());
    else if (what === "finish last") finish(lists.pop());
    for (const id of UNITS) {
      const shown = cache.get(id)?.reservationId;
      expect(reportedEnded).not.toContain(shown);
      if (shown !== before.get(id)) expect(shownOver).not.toContain(shown);
    }
  }
  for (const each of lists) finish(each);
  for (const hint of hints) hint();
  return { cache, ledger };
}

type ListRead = {
  readonly list: ReturnType<UnitCache["beginList"]>;
  seen: { readonly reservations: ReadonlySet<string>; readonly nextSequence: number } | undefined;
};

function read(to: ListRead | undefined, ledger: ReadonlyMap<string, OwnedUnit>, nextSequence: number): void {
  if (to === undefined) return;
  for (const unit of ledger.values()) to.list.add(unit);
  to.seen = { reservations: new Set([...ledger.values()].map(({ reservationId }) => reservationId)), nextSequence };
}

const actions = fc.array(action, { maxLength: 60, size: "max" });

describe("the cache of units beside a ledger", () => {
  it("shows nothing again that has ended, and knows every grant once all hints have come", () => {
    fc.assert(
      fc.property(actions, (played) => {
        const { cache, ledger } = play(played);
        for (const unit of UNITS) {
          const now = ledger.get(unit);
          if (now?.state === "granted") expect(cache.get(unit)).toEqual(now);
          if (now === undefined) expect(cache.get(unit)).toBeUndefined();
        }
      }),
      { numRuns: 500 },
    );
  });

  it("equals the ledger after a list that nothing came between", () => {
    fc.assert(
      fc.property(actions, (played) => {
        const { cache, ledger } = play(played);
        const list = cache.beginList();
        for (const unit of ledger.values()) list.add(unit);
        list.finish({ nextSequence: played.length + 1 });
        for (const unit of UNITS) expect(cache.get(unit)).toEqual(ledger.get(unit));
      }),
    );
  });
});
