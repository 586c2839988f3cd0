import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { OwnedUnit } from "./messages.ts";
import { unitCache, type UnitCache } from "./unit-cache.ts";

const OWNER = "train-0a1b2c3d4e5f";
const NODES = new Map([["worker-0", "node-a"]]);

function granted(id: string, reservationId: string): OwnedUnit {
  return { id, reservationId, state: "granted", nodes: NODES };
}

function waiting(id: string, reservationId: string, text = "in a queue"): OwnedUnit {
  const because = { code: "POOL_AVAILABILITY", text };
  return { id, reservationId, state: "waiting", components: ["worker-0"], because, sinceMs: 1 };
}

function refused(id: string): OwnedUnit {
  const because = { code: "POOL_UNKNOWN", text: "no such pool" };
  return { id, reservationId: "", state: "refused", components: ["worker-0"], because, sinceMs: 1 };
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
    list.finish(true);
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
    list.finish(true);
    expect(cache.ownerIds()).toEqual(new Set(["no-1", "new-1"]));
  });

  it("lets a list that failed half way add, and take nothing away", () => {
    const { cache } = opened();
    cache.learn("old-1", granted("old-1", "1"));
    const list = cache.beginList();
    list.add(granted("more-1", "2"));
    list.finish(false);
    expect(cache.ownerIds()).toEqual(new Set(["old-1", "more-1"]));
  });
});

const UNITS = ["a-1", "a-1--worker-0", "b-1"];
type Action = { readonly do: string; readonly unit: string };
const action = fc.record({
  do: fc.constantFrom("reserve", "grant", "release", "expire", "hint", "begin", "read", "finish"),
  unit: fc.constantFrom(...UNITS),
});

/** A ledger of which the cache hears through answers at once, through hints in order but late, and through lists. */
function play(actions: readonly Action[]) {
  const { cache } = opened();
  const ledger = new Map<string, OwnedUnit>();
  const hints: (() => void)[] = [];
  const toldEnded = new Set<string>();
  const lists: ReturnType<UnitCache["beginList"]>[] = [];
  let ids = 0;
  const end = (unit: OwnedUnit): void => {
    toldEnded.add(unit.reservationId);
    cache.end(unit.id, unit.reservationId);
  };
  const grant = (unit: string, reservationId: string): void => {
    ledger.set(unit, granted(unit, reservationId));
    hints.push(() => cache.learn(unit, granted(unit, reservationId)));
  };
  for (const { do: what, unit } of actions) {
    const now = ledger.get(unit);
    if (what === "reserve" && now === undefined) {
      ids += 1;
      ledger.set(unit, waiting(unit, String(ids)));
      cache.learn(unit, waiting(unit, String(ids)));
    } else if (what === "grant" && now?.state === "waiting") grant(unit, now.reservationId);
    else if (what === "release" && now !== undefined) {
      ledger.delete(unit);
      end(now);
      hints.push(() => end(now));
    } else if (what === "expire" && now !== undefined) {
      ledger.delete(unit);
      hints.push(() => end(now));
    } else if (what === "hint") hints.shift()?.();
    else if (what === "begin") lists.push(cache.beginList());
    else if (what === "read") for (const each of ledger.values()) lists.at(-1)?.add(each);
    else if (what === "finish") lists.pop()?.finish(false);
    for (const id of UNITS) expect(toldEnded).not.toContain(cache.get(id)?.reservationId);
  }
  for (const list of lists) list.finish(false);
  for (const hint of hints) hint();
  return { cache, ledger };
}

const actions = fc.array(action, { maxLength: 60 });

describe("the cache of units beside a ledger", () => {
  it("never shows what it was told has ended, and knows every grant once all hints are there", () => {
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
        list.finish(true);
        for (const unit of UNITS) expect(cache.get(unit)).toEqual(ledger.get(unit));
      }),
    );
  });
});
