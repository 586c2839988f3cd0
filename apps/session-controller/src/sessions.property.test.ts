import { FaultError } from "@muster/faults";
import fc from "fast-check";
import { expect, it } from "vitest";
import { makeFakeWorld, Killed } from "../test/fake-world.ts";
import { runSession } from "../test/run-session.ts";
import type { RunEnd, SessionDeps } from "./session-deps.ts";

const POLICY = {
  cleanupLimitMs: 1_000_000,
  lookAgainMs: 1,
  nodeLostMs: 300_000,
  replacementWaitMs: 120_000,
};
const never = new AbortController().signal;
const TERMINAL = ["DONE", "ERROR", "CANCELLED", "INTERNAL_ERROR"];

/** The failure of one call: before it has an effect, or after it, when only the answer is lost. */
type Mishap = {
  readonly after: number;
  readonly what: "dies" | "conflict" | "replaced" | "cancelled" | "paused" | "no-answer";
};

const mishaps = fc.array(
  fc.record({
    after: fc.nat(40),
    what: fc.constantFrom<Mishap["what"]>("dies", "conflict", "replaced", "cancelled", "paused", "no-answer"),
  }),
  { maxLength: 6 },
);

/** Wraps every asynchronous dependency, so that the next mishap happens at the call that the mishap names. */
function troubled(
  world: ReturnType<typeof makeFakeWorld>,
  queue: Mishap[],
  executor: string,
): Omit<SessionDeps, "wake"> {
  const deps = world.deps(executor);
  let calls = 0;
  const live = () => world.record().finishedAtMs === 0;
  const at = async <Result>(work: () => Promise<Result>): Promise<Result> => {
    const mishap = queue[0];
    if (mishap === undefined || calls++ < mishap.after) return work();
    queue.shift();
    calls = 0;
    switch (mishap.what) {
      case "dies":
        throw new Killed();
      case "conflict":
        if (live()) world.write({ ...world.record() });
        return work();
      case "replaced":
        if (live()) world.takeAway();
        return work();
      case "cancelled":
        if (live()) world.cancel();
        return work();
      case "paused":
        world.state.monotonicMs += 5000;
        world.state.deposed.add(executor);
        if (live()) world.takeAway();
        return work();
      case "no-answer":
        await work();
        throw new FaultError({ code: "unavailable", dependency: "the world", retryAfterMs: 0 });
    }
  };
  return {
    ...deps,
    load: (name) => at(() => deps.load(name)),
    save: (record, revision) => at(() => deps.save(record, revision)),
    listPods: (record) => at(() => deps.listPods(record)),
    act: (record, step) => at(() => deps.act(record, step)),
    collectLogs: (...read) => at(() => deps.collectLogs(...read)),
    announce: (...events) => at(() => deps.announce(...events)),
  };
}

/** Runs executors one after the other until the session is over, as the queue does. */
async function runToTheEnd(world: ReturnType<typeof makeFakeWorld>, queue: Mishap[]): Promise<void> {
  for (let executor = 0; executor < 30; executor += 1) {
    const end = await runSession(world, troubled(world, queue, `e-${executor}`), POLICY, never).catch(
      (error: unknown): RunEnd | "died" => {
        if (error instanceof Killed || error instanceof FaultError) return "died";
        throw error;
      },
    );
    if (end === "finished") return;
  }
  throw new Error("the session does not come to its end");
}

it("has one terminal event, no pod twice, and nothing held, wherever executors die, are replaced or paused, or get no answer", async () => {
  await fc.assert(
    fc.asyncProperty(mishaps, async (drawn) => {
      const world = makeFakeWorld({ maxRestMs: 1 });
      await runToTheEnd(world, [...drawn]);
      const kinds = world.record().events.map(({ kind }) => kind);
      expect(kinds).toEqual([...new Set(kinds)]);
      expect(kinds.filter((kind) => TERMINAL.includes(kind))).toEqual(kinds.slice(-1));
      expect([...world.published.values()]).toEqual(kinds);
      expect(world.made).toEqual([...new Set(world.made)]);
      expect([...world.pods.values()].filter(({ alive }) => alive)).toEqual([]);
      expect(world.state.held).toBe(false);
      expect(world.record().released).toBe(true);
    }),
    { numRuns: 300 },
  );
});
