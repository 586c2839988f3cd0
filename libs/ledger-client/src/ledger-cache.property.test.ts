import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { makeLedgerCache, type LedgerCache } from "./ledger-cache.ts";
import type { Preemption, Reservation } from "./reservation.ts";

const OWNERS = ["a-1", "b-1"];
const STATES = { waiting: 0, granted: 1 } as const;
const step = fc.record({
  kind: fc.oneof(
    fc.constantFrom("reserve", "grant", "grant", "release", "answer"),
    fc.constantFrom("preempt", "accept", "withdraw", "requeue", "requeue"),
    fc.constantFrom("deliver", "deliver", "repeat", "drop"),
    // Frequent enough that lists overlap.
    fc.constantFrom("begin", "page", "fail", "finish"),
  ),
  owner: fc.constantFrom(...OWNERS),
  /** Index of the list in flight. */
  at: fc.nat(),
});
type Step = typeof step extends fc.Arbitrary<infer Value> ? Value : never;
const steps = fc.array(step, { maxLength: 80, size: "max" });

type Message = { readonly kind: "put" | "end"; readonly reservation: Reservation };
type List = {
  readonly finish: ReturnType<LedgerCache["beginList"]>["finish"];
  readonly listed: Reservation[];
  nextSequence: number | undefined;
  page: number;
};

/** Exceeds the number of states that one reservation can have in a run. */
const LIFE = 1000;

/** The position of a state in the life of its owner: later reservations come after earlier ones, then later states. */
function positionOf(reservation: Reservation | undefined): number {
  if (reservation === undefined) return -1;
  return reservation.sequence * LIFE + reservation.revision * 2 + STATES[reservation.state];
}

/** A ledger, and a cache that receives its changes late, in any order, repeatedly or never. */
class World {
  readonly cache = makeLedgerCache({ groupOf: (owner) => owner, changed: () => undefined, nowMs: () => 0 });
  readonly ledger = new Map<string, Reservation>();
  readonly #messages: Message[] = [];
  readonly #lists: List[] = [];
  /** The latest position by owner that the cache has shown, its end included. */
  readonly #shown = new Map<string, number>();
  #nextSequence = 1;

  play({ kind, owner, at }: Step): void {
    const now = this.ledger.get(owner);
    const message = this.#messages[at % Math.max(1, this.#messages.length)];
    const list = this.#lists[at % Math.max(1, this.#lists.length)];
    switch (kind) {
      case "reserve":
        if (now === undefined) this.#change(waiting(owner, this.#nextSequence++));
        break;
      case "grant":
        if (now?.state === "waiting") this.#change(granted(now));
        break;
      case "preempt":
        if (now?.state === "granted" && now.preemption === undefined) this.#change(next(now, PREEMPTION));
        break;
      case "accept":
        if (now?.state === "granted" && now.preemption?.accepted === false)
          this.#change(next(now, { ...PREEMPTION, accepted: true }));
        break;
      case "withdraw":
        if (now?.state === "granted" && now.preemption?.accepted === false) this.#change(next(now));
        break;
      case "requeue":
        if (now?.state === "granted" && now.preemption !== undefined)
          this.#change({ ...waiting(owner, now.sequence), revision: now.revision + 1, preemptedFor: "r-0" });
        break;
      case "release":
        if (now !== undefined) this.#end(now);
        break;
      case "answer":
        if (now !== undefined) this.#messages.push({ kind: "put", reservation: now });
        break;
      case "deliver":
        this.#deliver(message);
        this.#forget(message);
        break;
      case "repeat":
        this.#deliver(message);
        break;
      case "drop":
        this.#forget(message);
        break;
      case "begin":
        this.#lists.push({ ...this.cache.beginList(), listed: [], nextSequence: undefined, page: 0 });
        break;
      case "page":
        this.#readPage(list);
        break;
      case "fail":
        this.#finish(list, undefined);
        break;
      case "finish":
        while (list !== undefined && list.page < OWNERS.length) this.#readPage(list);
        this.#finish(list, list?.nextSequence);
    }
    this.#check();
  }

  refresh(): void {
    this.play({ kind: "begin", owner: "", at: 0 });
    this.play({ kind: "finish", owner: "", at: this.#lists.length - 1 });
  }

  #change(reservation: Reservation): void {
    this.ledger.set(reservation.ownerId, reservation);
    this.#messages.push({ kind: "put", reservation });
  }

  #end(reservation: Reservation): void {
    this.ledger.delete(reservation.ownerId);
    this.#messages.push({ kind: "end", reservation });
  }

  #deliver(message: Message | undefined): void {
    if (message !== undefined) this.cache[message.kind](message.reservation);
  }

  #forget(message: Message | undefined): void {
    if (message !== undefined) this.#messages.splice(this.#messages.indexOf(message), 1);
  }

  /** Reads a page with one owner, in the current state of the ledger. */
  #readPage(list: List | undefined): void {
    const owner = list && OWNERS[list.page];
    if (list === undefined || owner === undefined) return;
    list.nextSequence ??= this.#nextSequence;
    list.page += 1;
    list.listed.push(...[this.ledger.get(owner) ?? []].flat());
  }

  #finish(list: List | undefined, nextSequence: number | undefined): void {
    if (list === undefined) return;
    list.finish(list.listed, nextSequence);
    this.#lists.splice(this.#lists.indexOf(list), 1);
  }

  #check(): void {
    for (const owner of OWNERS) {
      const before = this.#shown.get(owner) ?? -1;
      const reservation = this.cache.get(owner);
      // An owner that it no longer shows has ended, at the earliest.
      const isGone = reservation === undefined && before >= 0;
      const now = isGone ? before - (before % LIFE) + LIFE - 1 : positionOf(reservation);
      expect(now).toBeGreaterThanOrEqual(before);
      this.#shown.set(owner, now);
      // The cache shows only states that existed.
      expect(positionOf(reservation)).toBeLessThan(this.#nextSequence * LIFE);
    }
  }
}

function waiting(ownerId: string, sequence: number): Reservation {
  const because = { code: "POOL_AVAILABILITY", pool: "gpu", requested: 1, available: 0, parts: 0, ahead: 0 };
  return { id: `r-${sequence}`, ownerId, sequence, revision: 0, createdAtMs: 0, needs: [], state: "waiting", because };
}

/** A grant does not change the revision. */
function granted({ id, ownerId, sequence, revision }: Reservation): Reservation {
  return { id, ownerId, sequence, revision, createdAtMs: 0, needs: [], state: "granted", machines: [] };
}

const PREEMPTION: Preemption = {
  beneficiary: { kind: "job", id: "other" },
  beneficiaryId: "r-9",
  queue: "team-a",
  reason: "RECLAIM",
  atMs: 0,
  deadlineMs: 1,
  accepted: false,
};

/** The next revision of the grant: preempted, or with its preemption withdrawn. */
function next(before: Reservation, preemption?: Preemption): Reservation {
  const after = granted({ ...before, revision: before.revision + 1 });
  return preemption === undefined ? after : { ...after, state: "granted", machines: [], preemption };
}

describe("the cache of a ledger whose events arrive late, out of order, repeatedly or never", () => {
  it("never shows an earlier state than it has shown, and equals the ledger after a refresh", () => {
    fc.assert(
      fc.property(steps, (played) => {
        const world = new World();
        for (const each of played) world.play(each);
        world.refresh();
        for (const owner of OWNERS) expect(world.cache.get(owner)).toEqual(shownOf(world.ledger.get(owner)));
      }),
      { numRuns: 1000 },
    );
  });
});

function shownOf(reservation: Reservation | undefined): unknown {
  return reservation && { ...reservation, seenAtMs: 0 };
}
