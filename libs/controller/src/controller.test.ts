import { FaultError } from "@muster/faults";
import { scrapeMetrics, waitUntilSettled, until, makeVirtualClock } from "@muster/testkit";
import { startTelemetry } from "@muster/tracing";
import { describe, expect, it } from "vitest";
import { runController, type ControllerOptions, type ControllerLead, type Reconcile } from "./controller.ts";
import { workQueue } from "./work-queue.ts";

/** Builds a controller on a clock that the test advances, with the longest pauses. */
function controlled(reconcile: Reconcile, more: Partial<ControllerOptions> = {}) {
  const clock = makeVirtualClock();
  const queue = workQueue({ clock, random: () => 1 - Number.EPSILON });
  const stop = new AbortController();
  const errors: string[] = [];
  const ended = runController({
    name: "tested",
    queue,
    reconcile,
    stop: stop.signal,
    clock,
    onError: (error, key, failures) => errors.push(`${key}: ${String(error)} (${failures})`),
    ...more,
  });
  return { clock, queue, stop, errors, ended };
}

it("runs a pass for each added key, with all its workers, and never two for one key", async () => {
  const passes: string[] = [];
  const inWork = new Set<string>();
  let most = 0;
  const { queue, stop, ended } = controlled(
    async (key) => {
      expect(inWork.has(key)).toBe(false);
      inWork.add(key);
      most = Math.max(most, inWork.size);
      await waitUntilSettled();
      inWork.delete(key);
      passes.push(key);
      return undefined;
    },
    { workers: 3 },
  );
  for (const key of ["a", "b", "c", "d", "a"]) queue.add(key);
  await until("all passes are made", () => passes.length === 4);
  stop.abort();
  await ended;
  expect(most).toBe(3);
  expect(passes.sort()).toEqual(["a", "b", "c", "d"]);
});

it("runs no pass for a key that it took before it was stopped", async () => {
  const passes: string[] = [];
  const { queue, stop, ended } = controlled((key) => {
    passes.push(key);
    // Long enough that other work of the process runs before its next pass.
    const untilMs = performance.now() + 15;
    while (performance.now() < untilMs);
    setImmediate(() => stop.abort());
    return Promise.resolve(undefined);
  });
  queue.add("a");
  queue.add("b");
  await ended;
  expect(passes).toEqual(["a"]);
});

it("begins the pass of each ready key immediately without a limit of workers, and ends after the last of them", async () => {
  const passes: (() => void)[] = [];
  let hasEnded = false;
  const { queue, stop, ended } = controlled(
    async () => {
      await new Promise<void>((resolve) => passes.push(resolve));
      return undefined;
    },
    { workers: Infinity },
  );
  for (let each = 0; each < 100; each += 1) queue.add(String(each));
  queue.add("0");
  await until("all passes have begun", () => passes.length === 100);
  passes.shift()?.();
  queue.add("0");
  await until("the first key has another pass", () => passes.length === 100);
  stop.abort();
  void ended.then(() => (hasEnded = true));
  await waitUntilSettled();
  expect(hasEnded).toBe(false);
  for (const end of passes) end();
  await ended;
});

it("retries a failed pass with growing pauses, reports each failure, and resets the pause after a success", async () => {
  let failing = true;
  const passedAt: number[] = [];
  const { clock, queue, stop, ended, errors } = controlled(() => {
    passedAt.push(clock.now());
    return failing ? Promise.reject(new Error("away")) : Promise.resolve(undefined);
  });
  queue.add("a");
  await clock.run(20);
  expect(passedAt).toEqual([0, 5, 15]);
  failing = false;
  await clock.run(100);
  expect(passedAt).toEqual([0, 5, 15, 35]);
  expect(errors).toEqual([1, 2, 3].map((failures) => `a: Error: away (${failures})`));
  expect(queue.numRequeues("a")).toBe(0);
  stop.abort();
  await ended;
});

it("retries a pass that has reported its failure with growing pauses, without a second report", async () => {
  let isFailed = true;
  const passedAt: number[] = [];
  const { clock, queue, stop, ended, errors } = controlled(() => {
    passedAt.push(clock.now());
    return Promise.resolve(isFailed ? { isFailed, requeueAfterMs: 1 } : {});
  });
  queue.add("a");
  await clock.run(20);
  expect(passedAt).toEqual([0, 5, 15]);
  expect(queue.stats().retries).toBe(3);
  isFailed = false;
  await clock.run(100);
  expect(passedAt).toEqual([0, 5, 15, 35]);
  expect(queue.numRequeues("a")).toBe(0);
  expect(errors).toEqual([]);
  stop.abort();
  await ended;
});

it("reports the error of a pass that returns one, counts it, and retries it with growing pauses", async () => {
  const passedAt: number[] = [];
  const { clock, queue, stop, ended, errors } = controlled(() => {
    passedAt.push(clock.now());
    return Promise.resolve({ isFailed: true, error: new Error("never converges") });
  });
  queue.add("a");
  await clock.run(20);
  expect(passedAt).toEqual([0, 5, 15]);
  expect(errors).toEqual([1, 2, 3].map((failures) => `a: Error: never converges (${failures})`));
  expect(queue.stats().retries).toBe(3);
  stop.abort();
  await ended;
});

it("reports a fault as a warning and a defect as an error, and retries both", async () => {
  const levels: string[] = [];
  const fault = new FaultError({ code: "unavailable", dependency: "JetStream", retryAfterMs: 1 });
  const { clock, queue, stop, ended } = controlled(
    (key) => Promise.reject(key === "fault" ? fault : new TypeError("a defect")),
    { onError: (_error, key, _failures, level) => levels.push(`${key} ${level}`) },
  );
  queue.add("fault");
  queue.add("defect");
  await clock.run(5);
  expect(levels).toEqual(["fault warn", "defect error", "fault warn", "defect error"]);
  stop.abort();
  await ended;
});

it("continues with the other keys when one has a defect, even in its report", async () => {
  const passes: string[] = [];
  const { clock, queue, stop, ended } = controlled(
    (key) => {
      if (key === "bad") throw new TypeError("a defect");
      passes.push(key);
      return Promise.resolve(undefined);
    },
    {
      onError: () => {
        throw new Error("and another one");
      },
    },
  );
  for (const key of ["bad", "a", "b"]) queue.add(key);
  await clock.run(1000);
  expect(passes).toEqual(["a", "b"]);
  expect(queue.numRequeues("bad")).toBeGreaterThan(5);
  stop.abort();
  await ended;
});

it("runs again at the time that a pass requests", async () => {
  const passedAt: number[] = [];
  const { clock, queue, stop, ended } = controlled(() => {
    passedAt.push(clock.now());
    return Promise.resolve(passedAt.length < 4 ? { requeueAfterMs: passedAt.length === 1 ? 0 : 700 } : undefined);
  });
  queue.add("a");
  await clock.run(10_000);
  expect(passedAt).toEqual([0, 0, 700, 1400]);
  stop.abort();
  await ended;
});

it("leaves the process its turns when passes never wait", async () => {
  const queue = workQueue();
  const stop = new AbortController();
  const reconcile: Reconcile = () => Promise.resolve({ requeueAfterMs: 0 });
  const ended = runController({ name: "busy", queue, reconcile, stop: stop.signal });
  queue.add("a");
  setTimeout(() => stop.abort(), 20);
  await ended;
});

describe("the caches", () => {
  it("are waited for", async () => {
    const synced = Promise.withResolvers<undefined>();
    const passes: string[] = [];
    const { clock, queue, stop, ended } = controlled(
      (key) => {
        passes.push(key);
        return Promise.resolve(undefined);
      },
      { synced: [synced.promise, Promise.resolve()] },
    );
    queue.add("a");
    await clock.run(1000);
    expect(passes).toEqual([]);
    synced.resolve(undefined);
    await clock.run(1000);
    expect(passes).toEqual(["a"]);
    stop.abort();
    await ended;
  });

  it.each<[string, () => Promise<unknown>, object]>([
    [
      "are not complete in time",
      () => new Promise(() => undefined),
      { fault: { code: "deadline_exceeded", timeoutMs: 3000 } },
    ],
    ["fail", () => Promise.reject(new Error("no such resource")), { message: "no such resource" }],
  ])("end the controller when they %s", async (_title, sync, error) => {
    const synced = sync();
    const { clock, queue, ended } = controlled(() => Promise.resolve(undefined), {
      synced: [synced],
      syncTimeoutMs: 3000,
    });
    ended.catch(() => undefined);
    await clock.run(3000);
    await expect(ended).rejects.toMatchObject(error);
    expect(await queue.get()).toBeUndefined();
    expect(clock.alarms).toBe(0);
  });

  it("do not hold up an end", async () => {
    const { stop, ended } = controlled(() => Promise.resolve(undefined), { synced: [new Promise(() => undefined)] });
    stop.abort();
    await ended;
  });
});

describe("an end", () => {
  const held = () => {
    const finish = Promise.withResolvers<undefined>();
    const seen: { signal?: AbortSignal; passes: string[] } = { passes: [] };
    const reconcile: Reconcile = async (key, signal) => {
      seen.signal = signal;
      seen.passes.push(key);
      await finish.promise;
      return undefined;
    };
    return { finish, seen, reconcile };
  };

  it("lets the pass in work finish, and begins no other", async () => {
    const { finish, seen, reconcile } = held();
    const { clock, queue, stop, ended } = controlled(reconcile, { stopGraceMs: 30_000 });
    for (const key of ["a", "b"]) queue.add(key);
    await waitUntilSettled();
    stop.abort();
    await clock.run(29_999);
    expect(seen.signal?.aborted).toBe(false);
    finish.resolve(undefined);
    await ended;
    expect(seen.passes).toEqual(["a"]);
    expect(clock.alarms).toBe(0);
  });

  it("aborts the signal of the pass in flight when its time is over, and does not count that as a failure", async () => {
    const { clock, queue, stop, ended, errors } = controlled(
      (_key, signal) => new Promise((_resolve, reject) => (signal.onabort = () => reject(new Error("cut")))),
      { stopGraceMs: 500 },
    );
    queue.add("a");
    await waitUntilSettled();
    stop.abort();
    await clock.run(500);
    await ended;
    expect(errors).toEqual([]);
  });

  it("cuts the passes within half of the time that a service has to stop, unless configured", async () => {
    const { finish, seen, reconcile } = held();
    const { clock, queue, stop, ended } = controlled(reconcile);
    queue.add("a");
    await waitUntilSettled();
    stop.abort();
    await clock.run(9_999);
    expect(seen.signal?.aborted).toBe(false);
    await clock.run(1);
    expect(seen.signal?.aborted).toBe(true);
    finish.resolve(undefined);
    await ended;
  });

  it("does not count a pass as failed that has ended its own calls at the stop", async () => {
    const { queue, stop, ended, errors } = controlled(
      () =>
        new Promise((_resolve, reject) => {
          stop.signal.addEventListener("abort", () => reject(new DOMException("stopped", "AbortError")));
        }),
    );
    queue.add("a");
    await waitUntilSettled();
    stop.abort();
    await ended;
    expect(errors).toEqual([]);
  });

  it("does not treat the stop signal of a lead as its loss", async () => {
    const signal = new AbortController().signal;
    // @ts-expect-error: `lost` is missing.
    const lead: ControllerLead = { signal, isHeld: () => true };
    await controlled(() => Promise.resolve(undefined), { lead, stop: AbortSignal.abort() }).ended;
  });

  it("aborts the signal of the passes immediately when the lead is lost", async () => {
    const { finish, seen, reconcile } = held();
    const lost = new AbortController();
    const { queue, ended } = controlled(reconcile, { lead: { lost: lost.signal, isHeld: () => true } });
    queue.add("a");
    await waitUntilSettled();
    lost.abort();
    expect(seen.signal?.aborted).toBe(true);
    finish.resolve(undefined);
    await ended;
  });

  it("runs no pass if it came before the start", async () => {
    const { seen, reconcile } = held();
    await controlled(reconcile, { stop: AbortSignal.abort() }).ended;
    expect(seen.passes).toEqual([]);
  });
});

it("resyncs every known key once in each period, spread over it, after events", async () => {
  const keys = Array.from({ length: 1600 }, (_, at) => `default/job-${at}`);
  const passes: { readonly key: string; readonly atMs: number }[] = [];
  const { clock, stop, ended } = controlled(
    (key) => {
      passes.push({ key, atMs: clock.now() });
      return Promise.resolve(undefined);
    },
    { resync: { keys: () => keys } },
  );
  for (const period of [0, 1, 2]) {
    await clock.run(15_000);
    const inPeriod = passes.filter(({ atMs }) => atMs > period * 15_000 && atMs <= (period + 1) * 15_000);
    expect(inPeriod.map(({ key }) => key).sort()).toEqual([...keys].sort());
  }
  const moments = Map.groupBy(passes, ({ atMs }) => atMs);
  expect(moments.size).toBe(48);
  expect(Math.max(...[...moments.values()].map((each) => each.length))).toBeLessThan(200);
  stop.abort();
  await ended;
  expect(clock.alarms).toBe(0);
});

it("runs no pass once its lead has lapsed, even before the signal is aborted", async () => {
  const passes: string[] = [];
  const lead = { held: true, isHeld: () => lead.held, lost: new AbortController().signal };
  const { queue, stop, ended } = controlled(
    (key) => {
      passes.push(key);
      lead.held = false;
      return Promise.resolve(undefined);
    },
    { lead },
  );
  for (const key of ["a", "b"]) queue.add(key);
  await waitUntilSettled();
  stop.abort();
  await ended;
  expect(passes).toEqual(["a"]);
});

it("counts its passes in metrics", async () => {
  const telemetry = await startTelemetry({ service: "tested", version: "1", env: {} });
  const { clock, queue, stop, ended } = controlled((key) =>
    key === "bad" && queue.numRequeues(key) === 0 ? Promise.reject(new Error("once")) : Promise.resolve(undefined),
  );
  queue.add("bad");
  queue.add("good");
  await clock.run(100);
  const scraped = await scrapeMetrics(telemetry);
  stop.abort();
  await ended;
  await telemetry[Symbol.asyncDispose]();
  expect(scraped).toMatch(/muster_controller_queue_adds_total\{[^}]*muster_controller_name="tested"[^}]*\} 3/);
  expect(scraped).toMatch(/muster_controller_queue_done_total\{[^}]*\} 3/);
  expect(scraped).toMatch(/muster_controller_queue_retries_total\{[^}]*\} 1/);
  expect(scraped).toMatch(/muster_controller_pass_duration_count\{[^}]*muster_controller_outcome="success"[^}]*\} 2/);
  expect(scraped).toMatch(/muster_controller_pass_duration_count\{[^}]*muster_controller_outcome="error"[^}]*\} 1/);
});
