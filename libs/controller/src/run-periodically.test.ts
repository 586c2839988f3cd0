import { FaultError } from "@muster/faults";
import { expect, it } from "vitest";
import { runPeriodically, type PeriodicWork } from "./run-periodically.ts";

/** Rounds that end as `ends` lists, and the pauses after them; the stop comes with the last pause. */
function periodic(ends: readonly ("done" | "failed")[], changes: Partial<PeriodicWork> = {}) {
  const stop = new AbortController();
  const pauses: number[] = [];
  const failures: number[] = [];
  let rounds = 0;
  const running = runPeriodically({
    name: "tested",
    work: () => (ends[rounds++] === "done" ? Promise.resolve() : Promise.reject(new Error("no"))),
    everyMs: 1000,
    onError: (_error, count) => failures.push(count),
    rest: (ms) => {
      pauses.push(ms);
      if (rounds === ends.length) stop.abort();
      return Promise.resolve();
    },
    stop: stop.signal,
    ...changes,
  });
  return { running, pauses, failures, rounds: () => rounds };
}

it("pauses between rounds, and after failures for longer from one to the next until a round succeeds", async () => {
  const retry = { firstMs: 100, maxMs: 200 };
  const world = periodic(["done", "failed", "failed", "failed", "done", "failed"], { retry });
  await world.running;
  expect(world.failures).toEqual([1, 2, 3, 1]);
  expect([world.pauses[0], world.pauses[4]]).toEqual([1000, 1000]);
  for (const [at, fullMs] of [100, 200, 200, undefined, 100].entries()) {
    if (fullMs === undefined) continue;
    expect(world.pauses[at + 1]).toBeGreaterThanOrEqual(fullMs / 2);
    expect(world.pauses[at + 1]).toBeLessThanOrEqual(fullMs);
  }
});

it("retries failed rounds at the usual period without retry limits, and reads the period after each round", async () => {
  let asked = 0;
  const world = periodic(["failed", "done", "done"], { everyMs: () => (asked += 10) });
  await world.running;
  expect(world.pauses).toEqual([10, 20, 30]);
});

it("reports a defect as an error, and a fault as a warning", async () => {
  const stop = new AbortController();
  const levels: string[] = [];
  const errors = [new Error("a defect"), new FaultError({ code: "unavailable", dependency: "NATS", retryAfterMs: 1 })];
  await runPeriodically({
    name: "tested",
    work: () => Promise.reject(errors[levels.length] ?? new Error("a third round")),
    everyMs: 1000,
    onError: (_error, _failures, level) => levels.push(level),
    rest: () => {
      if (levels.length === errors.length) stop.abort();
      return Promise.resolve();
    },
    stop: stop.signal,
  });
  expect(levels).toEqual(["error", "warn"]);
});

it("runs its first round immediately, or after the given pause", async () => {
  const immediate = periodic(["done"]);
  expect(immediate.rounds()).toBe(1);
  await immediate.running;
  const late = periodic(["done"], { firstAfterMs: 5 });
  expect(late.rounds()).toBe(0);
  await late.running;
  expect(late.pauses).toEqual([5, 1000]);
});

it("begins no round after the stop, and ends a pause with it", async () => {
  const stop = new AbortController();
  let rounds = 0;
  const work = () => Promise.resolve((rounds += 1));
  const running = runPeriodically({ name: "tested", work, everyMs: 3_600_000, stop: stop.signal });
  await new Promise(setImmediate);
  stop.abort();
  await running;
  await runPeriodically({ name: "tested", work, everyMs: 1, stop: stop.signal });
  expect(rounds).toBe(1);
});

it("does not report the failure of a round that the stop has ended", async () => {
  const stop = new AbortController();
  const failures: unknown[] = [];
  await runPeriodically({
    name: "tested",
    work: () => {
      stop.abort();
      return Promise.reject(new Error("stopped"));
    },
    everyMs: 1,
    onError: (error) => failures.push(error),
    stop: stop.signal,
  });
  expect(failures).toEqual([]);
});

it("ends with what its handler of errors throws, and with the first failure where it has none", async () => {
  const defect = new TypeError("of undefined");
  const ended = periodic(["failed", "done"], {
    onError: () => {
      throw defect;
    },
  });
  await expect(ended.running).rejects.toBe(defect);
  const stop = new AbortController().signal;
  const failing = runPeriodically({ name: "tested", work: () => Promise.reject(defect), everyMs: 1, stop });
  await expect(failing).rejects.toBe(defect);
});
