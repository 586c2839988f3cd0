import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { leaseWorld, type Candidate, type Link } from "../test/lease-world.ts";
import { settled } from "../test/virtual-clock.ts";
import { leaderElection } from "./leader-election.ts";

type Trouble = {
  readonly afterMs: number;
  readonly who: number;
  readonly what: Link | "freeze" | "thaw" | "kill" | "stop";
};

const CANDIDATES = 3;
const trouble: fc.Arbitrary<Trouble> = fc.record({
  afterMs: fc.oneof(fc.integer({ min: 0, max: 3000 }), fc.integer({ min: 0, max: 30_000 })),
  who: fc.integer({ min: 0, max: CANDIDATES - 1 }),
  what: fc.oneof(
    { weight: 10, arbitrary: fc.constantFrom<Trouble["what"]>("away", "silent", "answers lost", "freeze") },
    { weight: 8, arbitrary: fc.constantFrom<Trouble["what"]>("well", "thaw") },
    { weight: 1, arbitrary: fc.constantFrom<Trouble["what"]>("kill", "stop") },
  ),
});

function apply(candidate: Candidate, what: Trouble["what"]): void {
  if (what === "freeze" || what === "thaw" || what === "kill") candidate[what]();
  else if (what === "stop") candidate.stop.abort();
  else candidate.link = what;
}

it("never has two leaders, whatever is away, frozen, lost, killed or stopped, and has one again when all is well", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(trouble, { maxLength: 15 }),
      fc.array(fc.integer({ min: 0, max: 4000 }), { minLength: 1, maxLength: 20 }),
      async (troubles, latencies) => {
        let request = 0;
        const world = leaseWorld(() => latencies[request++ % latencies.length] ?? 0);
        const all = Array.from({ length: CANDIDATES }, (_, id) => world.candidate(id));
        const check = (): void => {
          const leading = all.filter((each) => each.leads()).map(({ id }) => id);
          expect(leading.length, `leaders at ${world.clock.now()} ms: ${leading.join(", ")}`).toBeLessThan(2);
        };
        for (const { afterMs, who, what } of troubles) {
          await world.clock.run(afterMs, check);
          apply(all[who]!, what);
          check();
        }
        latencies = [5];
        for (const each of all) {
          each.link = "well";
          each.thaw();
        }
        check();
        await world.clock.run(30_000, check);
        const alive = all.filter((each) => !each.killed && !each.stop.signal.aborted);
        expect(alive.filter((each) => each.leads())).toHaveLength(Math.min(1, alive.length));

        const terms = all.flatMap((each) => each.terms.map(({ fencing }) => fencing));
        expect(new Set(terms).size, "a fencing value was given twice").toBe(terms.length);
        for (const each of alive) each.stop.abort();
        await world.clock.run(10_000, check);
        await Promise.all(alive.map(({ ended }) => ended));
      },
    ),
    { numRuns: 150 },
  );
});

describe("a leader", () => {
  const world = () => leaseWorld(() => 10);

  it("is the first one who comes, and the others wait", async () => {
    const { clock, candidate, lease } = world();
    const [first, second] = [candidate(1), candidate(2)];
    await clock.run(60_000);
    expect([first.leads(), second.leads()]).toEqual([true, false]);
    expect(lease()?.spec).toMatchObject({
      holderIdentity: "candidate-1",
      leaseDurationSeconds: 15,
      leaseTransitions: 0,
    });
    expect(lease()?.spec?.renewTime).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/);
  });

  it("that is stopped hands over at the next attempt of another one, with the next fencing value", async () => {
    const { clock, candidate, lease } = world();
    const [first, second] = [candidate(1), candidate(2)];
    await clock.run(5000);
    first.stop.abort();
    await clock.run(100);
    await first.ended;
    expect(lease()?.spec?.holderIdentity).toBe("");
    await clock.run(4500);
    expect(second.leads()).toBe(true);
    expect(second.terms.map(({ fencing }) => fencing)).toEqual([1]);
  });

  it.each<[trouble: Trouble["what"]]>([["kill"], ["freeze"], ["away"], ["silent"], ["answers lost"]])(
    "in trouble (%s) is followed by another one, not before the lease is over",
    async (what) => {
      const { clock, candidate } = world();
      const [first, second] = [candidate(1), candidate(2)];
      await clock.run(5000);
      apply(first, what);
      const troubledMs = clock.now();
      let takenMs: number | undefined;
      const check = (): void => {
        if (second.leads()) takenMs ??= clock.now();
        if (first.leads() && second.leads()) throw new Error("two leaders");
      };
      await clock.run(60_000, check);
      const afterMs = (takenMs ?? Infinity) - troubledMs;
      expect(afterMs).toBeGreaterThan(15_000 - 2000);
      expect(afterMs).toBeLessThan(15_000 + 2 * 2000 * 2.2 + 10_000);
    },
  );

  it("that cannot renew ends its work a third of the lease before others may begin", async () => {
    const { clock, candidate } = world();
    const only = candidate(1);
    await clock.run(5000);
    only.link = "silent";
    let lostMs = 0;
    only.terms[0]!.signal.addEventListener("abort", () => (lostMs = clock.now()));
    await clock.run(20_000);
    expect(lostMs).toBeGreaterThan(5000 + 10_000 - 2100);
    expect(lostMs).toBeLessThanOrEqual(5000 + 10_000);
  });

  it("that was frozen knows that it leads no longer before its timers have run", async () => {
    const { clock, candidate } = world();
    const only = candidate(1);
    await clock.run(5000);
    only.freeze();
    await clock.run(11_000);
    expect(only.terms[0]!.holds()).toBe(false);
    only.thaw();
    await settled();
    expect(only.terms[0]!.signal.aborted).toBe(true);
    await clock.run(10_000);
    expect(only.terms.map(({ fencing }) => fencing)).toEqual([0, 1]);
  });

  it("whose work ends by itself releases the lease and is no candidate any more", async () => {
    const { clock, candidate, lease } = world();
    const only = candidate(1, { lead: () => Promise.resolve() });
    await clock.run(3000);
    await only.ended;
    expect(lease()?.spec?.holderIdentity).toBe("");
  });

  it("whose work fails releases the lease and says so", async () => {
    const { clock, candidate, lease } = world();
    const only = candidate(1, {
      lead: () => {
        throw new Error("cannot lead");
      },
    });
    only.ended.catch(() => undefined);
    await clock.run(3000);
    await expect(only.ended).rejects.toThrow("cannot lead");
    expect(lease()?.spec?.holderIdentity).toBe("");
  });

  it("keeps the lease until its work has ended, however long that takes after the stop", async () => {
    const { clock, candidate, lease } = world();
    const finish = Promise.withResolvers<undefined>();
    const slow = candidate(1, { lead: () => finish.promise });
    const other = candidate(2);
    await clock.run(1000);
    slow.stop.abort();
    await clock.run(120_000);
    expect(lease()?.spec?.holderIdentity).toBe("candidate-1");
    finish.resolve(undefined);
    await clock.run(10_000);
    await slow.ended;
    expect(other.leads()).toBe(true);
  });
});

it.each([
  { leaseMs: 10_000, renewDeadlineMs: 10_000 },
  { renewDeadlineMs: 2400, retryMs: 2000 },
  { leaseMs: 15_500 },
  { retryMs: 0 },
])("does not accept a timing that is not safe: %o", async (timing) => {
  const { candidate } = leaseWorld(() => 0);
  await expect(candidate(1, { timing }).ended).rejects.toThrow("has to be longer");
});

it("makes its identity of the host and something unique", async () => {
  const written: unknown[] = [];
  const stop = new AbortController();
  const ended = leaderElection({
    calls: {
      get: () => Promise.reject(Object.assign(new Error("none"), { code: 404 })),
      create: (_resource, lease) => {
        written.push(lease);
        return Promise.resolve(lease);
      },
      replace: (_resource, lease) => Promise.resolve(lease),
    },
    lease: { namespace: "default", name: "x" },
    stop: stop.signal,
    lead: () => Promise.resolve(),
  });
  await ended;
  expect(JSON.stringify(written)).toMatch(/"holderIdentity":"[^"]+_[0-9a-f-]{36}"/);
});
