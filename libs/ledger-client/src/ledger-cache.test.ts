import { describe, expect, it } from "vitest";
import { makeLedgerCache, type LedgerCache } from "./ledger-cache.ts";
import type { Reservation } from "./reservation.ts";

const OWNER = "train-1";
const NEED = { component: "worker-0", pool: "gpu" };

function granted(ownerId: string, sequence: number, id = `r-${sequence}`): Reservation {
  const machines = [{ ...NEED, node: "node-a" }];
  return { id, ownerId, sequence, revision: 0, createdAtMs: 1, needs: [NEED], state: "granted", machines };
}

function waiting(ownerId: string, sequence: number, code = "POOL_AVAILABILITY"): Reservation {
  const because = { code, pool: "gpu", requested: 1, available: 0, parts: 0, ahead: 0 };
  return {
    id: `r-${sequence}`,
    ownerId,
    sequence,
    revision: 0,
    createdAtMs: 1,
    needs: [NEED],
    state: "waiting",
    because,
  };
}

function opened(): { cache: LedgerCache; changes: string[]; clock: { nowMs: number } } {
  const changes: string[] = [];
  const clock = { nowMs: 0 };
  const groupOf = (ownerId: string): string => ownerId.split("--", 1)[0] ?? "";
  const changed = (group: string): unknown => changes.push(group);
  return { cache: makeLedgerCache({ groupOf, changed, nowMs: () => clock.nowMs }), changes, clock };
}

describe("the cache of a ledger", () => {
  it("publishes changes by group, and none when no reader sees a difference", () => {
    const { cache, changes } = opened();
    cache.put(waiting(OWNER, 1));
    cache.put(waiting(OWNER, 1));
    cache.put(waiting(OWNER, 1, "HELD_FOR_OLDER"));
    cache.put(granted(`${OWNER}--worker-3`, 2));
    cache.end({ ownerId: OWNER, id: "r-7", sequence: 0 });
    expect(changes).toEqual([OWNER, OWNER, OWNER]);
    expect(cache.inGroup(OWNER).map(({ ownerId }) => ownerId)).toEqual([OWNER, `${OWNER}--worker-3`]);
  });

  it("drops the group with its last reservation", () => {
    const { cache } = opened();
    cache.put(granted(OWNER, 1));
    cache.end(granted(OWNER, 1));
    expect(cache.groups()).toEqual(new Set());
  });

  it("ignores a reservation that has ended, in a late event as in a list", () => {
    const { cache } = opened();
    const list = cache.beginList();
    cache.end(granted(OWNER, 1));
    list.finish([granted(OWNER, 1)], 9);
    expect(cache.get(OWNER)).toBeUndefined();
    cache.put(granted(OWNER, 1));
    expect(cache.get(OWNER)).toBeUndefined();
    cache.put(granted(OWNER, 12));
    expect(cache.get(OWNER)?.sequence).toBe(12);
  });

  it("keeps a later reservation when the end of an earlier one comes late", () => {
    const { cache } = opened();
    cache.put(granted(OWNER, 2));
    cache.end(granted(OWNER, 1));
    expect(cache.get(OWNER)?.sequence).toBe(2);
  });

  it("treats the end of a later reservation as the end of the earlier one", () => {
    const { cache } = opened();
    cache.put(granted(OWNER, 1));
    cache.end(granted(OWNER, 2));
    expect(cache.get(OWNER)).toBeUndefined();
    cache.put(granted(OWNER, 1));
    expect(cache.get(OWNER)).toBeUndefined();
  });

  it("keeps a grant when the answer before it comes after it", () => {
    const { cache } = opened();
    cache.put(granted(OWNER, 1));
    cache.put(waiting(OWNER, 1));
    expect(cache.get(OWNER)?.state).toBe("granted");
  });

  it.each([
    ["a requeued reservation that waits replaces its grant", ["granted", 0], ["waiting", 1], "waiting"],
    ["the grant before a requeue comes late", ["waiting", 1], ["granted", 0], "waiting"],
    ["a requeued reservation is granted", ["waiting", 1], ["granted", 1], "granted"],
    ["the answer before that grant comes late", ["granted", 1], ["waiting", 1], "granted"],
  ] as const)("orders states by revision: %s", (_title, first, second, result) => {
    const { cache } = opened();
    const of = { granted: granted(OWNER, 1), waiting: waiting(OWNER, 1) };
    for (const [state, revision] of [first, second]) cache.put({ ...of[state], revision });
    expect(cache.get(OWNER)?.state).toBe(result);
  });

  it("publishes a preemption, its acceptance and its withdrawal, and counts a wait from the requeue on", () => {
    const { cache, changes, clock } = opened();
    const held = granted(OWNER, 1);
    const preemption = {
      beneficiary: { kind: "job", id: "x" },
      beneficiaryId: "r-9",
      queue: "a",
      reason: "RECLAIM",
      atMs: 1,
      deadlineMs: 2,
    };
    cache.put(held);
    cache.put({ ...held, state: "granted", machines: [], revision: 1, preemption: { ...preemption, accepted: false } });
    cache.put({ ...held, revision: 2 });
    cache.put({ ...held, state: "granted", machines: [], revision: 3, preemption: { ...preemption, accepted: true } });
    expect(changes).toHaveLength(4);
    expect(cache.get(OWNER)).toMatchObject({ preemption: { accepted: true }, seenAtMs: 0 });
    clock.nowMs = 70;
    cache.put({ ...waiting(OWNER, 1), revision: 4, preemptedFor: "r-9" });
    expect(cache.get(OWNER)).toMatchObject({ state: "waiting", preemptedFor: "r-9", seenAtMs: 70 });
  });

  it("notes when it first saw a reservation, and keeps that while the reason of its wait changes", () => {
    const { cache, clock } = opened();
    cache.put(waiting(OWNER, 1));
    clock.nowMs = 30;
    cache.put(waiting(OWNER, 1, "HELD_FOR_OLDER"));
    expect(cache.get(OWNER)?.seenAtMs).toBe(0);
    cache.put(waiting(OWNER, 2));
    expect(cache.get(OWNER)?.seenAtMs).toBe(30);
  });

  it("removes reservations that a complete list lacks, unless they were reserved after the list began", () => {
    const { cache } = opened();
    cache.put(granted("old-1", 1));
    const list = cache.beginList();
    cache.put(granted("new-1", 9));
    list.finish([], 9);
    expect(cache.groups()).toEqual(new Set(["new-1"]));
  });

  it("adds from a list that failed half way, and removes nothing", () => {
    const { cache } = opened();
    cache.put(granted("old-1", 1));
    cache.beginList().finish([granted("more-1", 2)], undefined);
    expect(cache.groups()).toEqual(new Set(["old-1", "more-1"]));
  });
});

describe("lists of the ledger that overlap", () => {
  it.each(["older", "newer"])("never show a reservation again that the %s list has shown to be over", (first) => {
    const { cache } = opened();
    cache.put(granted(OWNER, 1));
    const older = cache.beginList();
    const newer = cache.beginList();
    const [over, late] = first === "older" ? [older, newer] : [newer, older];
    over.finish([], 2);
    late.finish([granted(OWNER, 1)], 2);
    expect(cache.get(OWNER)).toBeUndefined();
  });

  it("keep reservations that were made after the list that ended first", () => {
    const { cache } = opened();
    const newer = cache.beginList();
    const older = cache.beginList();
    older.finish([], 2);
    newer.finish([granted(OWNER, 2)], 3);
    expect(cache.get(OWNER)?.sequence).toBe(2);
  });

  it("keep the later reservation of an owner", () => {
    const { cache } = opened();
    const older = cache.beginList();
    const newer = cache.beginList();
    newer.finish([granted(OWNER, 2)], 3);
    older.finish([granted(OWNER, 1)], 2);
    expect(cache.get(OWNER)?.sequence).toBe(2);
  });
});

it.each<[string, number | undefined, number, number, boolean]>([
  ["is unknown, with a lower sequence than a complete list has shown", undefined, 3, 4, true],
  ["is unknown, and was created after the list", undefined, 4, 4, false],
  ["is the one that is known", 3, 3, 4, false],
  ["is older than the one that is known", 5, 4, 4, true],
  ["is newer than the one that is known", 5, 6, 4, false],
  ["is of a ledger without sequence numbers", undefined, 0, 4, false],
])("an event of a reservation that %s: ignored %s", (_title, known, shown, shownBelow, isIgnored) => {
  const { cache } = opened();
  const before = known === undefined ? [] : [granted(OWNER, known)];
  cache.beginList().finish(before, shownBelow);
  cache.put(granted(OWNER, shown));
  expect(cache.get(OWNER)?.sequence).toBe(isIgnored ? known : shown);
});

it("a recreated ledger replaces the reservations of the previous one, and its events count", () => {
  const { cache } = opened();
  cache.beginList().finish([granted("a-1", 7), granted("b-1", 8)], 9);
  cache.end(granted("a-1", 1));
  cache.beginList().finish([granted("a-1", 1)], 2);
  expect(cache.groups()).toEqual(new Set(["a-1"]));
  expect(cache.get("a-1")?.sequence).toBe(1);
  cache.put(granted("b-1", 2));
  expect(cache.get("b-1")?.sequence).toBe(2);
});

it("a recreated ledger that has caught up is accepted by its next list", () => {
  const { cache } = opened();
  cache.beginList().finish([granted("a-1", 7)], 8);
  cache.end(granted("b-1", 7));
  cache.beginList().finish([granted("a-1", 3, "other"), granted("b-1", 2)], 20);
  expect(cache.get("a-1")?.id).toBe("other");
  expect(cache.get("b-1")?.sequence).toBe(2);
});

describe("a ledger without sequence numbers", () => {
  const plain = (id: string): Reservation => granted(OWNER, 0, id);

  it("updates the cache by each answer and event, and by a list for reservations known when it began", () => {
    const { cache } = opened();
    cache.put(plain("a"));
    cache.put(plain("b"));
    expect(cache.get(OWNER)?.id).toBe("b");
    cache.beginList().finish([plain("c")], 0);
    expect(cache.get(OWNER)?.id).toBe("c");
    cache.beginList().finish([], 0);
    expect(cache.get(OWNER)).toBeUndefined();
  });

  it("changes no newer reservation by a list, and never reverses an end", () => {
    const { cache } = opened();
    const early = cache.beginList();
    cache.put(plain("b"));
    early.finish([plain("a")], 0);
    expect(cache.get(OWNER)?.id).toBe("b");
    cache.end(plain("b"));
    cache.put(plain("b"));
    expect(cache.get(OWNER)).toBeUndefined();
  });
});
