import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { makeVirtualClock, type VirtualClock } from "@muster/testkit";
import { workQueue, type QueuePriority, type WorkQueue } from "./work-queue.ts";

const KEYS = ["a", "b", "c", "d"];
const WORKERS = 3;
const limits = { firstMs: 5, maxMs: 80, perSecond: 1, burst: 1_000_000 };

type Command =
  | { readonly kind: "add"; readonly key: string; readonly priority: QueuePriority }
  | { readonly kind: "after"; readonly key: string; readonly ms: number }
  | { readonly kind: "limited" | "forget"; readonly key: string }
  | { readonly kind: "get" | "done" | "give up"; readonly worker: number }
  | { readonly kind: "pass"; readonly ms: number };

const key = fc.constantFrom(...KEYS);
const worker = fc.integer({ min: 0, max: WORKERS - 1 });
const command: fc.Arbitrary<Command> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({ kind: fc.constant("add" as const), key, priority: fc.constantFrom("high", "low") }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant("after" as const), key, ms: fc.integer({ min: 0, max: 50 }) }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constantFrom("limited" as const, "forget" as const), key }) },
  { weight: 6, arbitrary: fc.record({ kind: fc.constantFrom("get" as const, "done" as const), worker }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("give up" as const), worker }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("pass" as const), ms: fc.integer({ min: 0, max: 40 }) }) },
);

type Ready = { readonly key: string; readonly priority: QueuePriority; readonly rank: number };

/** The promises of the queue in the simplest form: lists that are searched from one end to the other. */
function model() {
  let ready: Ready[] = [];
  let rank = 0;
  let highInARow = 0;
  const inWork = new Set<string>();
  const again = new Map<string, QueuePriority>();
  const delayed = new Map<string, number>();
  const failures = new Map<string, number>();

  function put(name: string, priority: QueuePriority): void {
    const known = ready.find((entry) => entry.key === name);
    if (known?.priority === "high" || (known !== undefined && priority === "low")) return;
    ready = [...ready.filter((entry) => entry.key !== name), { key: name, priority, rank }];
  }
  function add(name: string, priority: QueuePriority): void {
    rank += 1;
    if (!inWork.has(name)) put(name, priority);
    else if (again.get(name) !== "high") again.set(name, priority);
  }
  function delay(name: string, atMs: number): void {
    delayed.set(name, Math.min(atMs, delayed.get(name) ?? Infinity));
  }
  return {
    inWork,
    ready: () => ready,
    delayed,
    failures: (name: string) => failures.get(name) ?? 0,
    add,
    delay,
    limit: (name: string, nowMs: number) => {
      const before = failures.get(name) ?? 0;
      failures.set(name, before + 1);
      delay(name, nowMs + Math.min(limits.firstMs * 2 ** before, limits.maxMs));
    },
    forget: (name: string) => failures.delete(name),
    passedTo: (nowMs: number) => {
      const due = [...delayed].filter(([, atMs]) => atMs <= nowMs).sort(([, one], [, two]) => one - two);
      let last = { atMs: -1, rank };
      for (const [name, atMs] of due) {
        delayed.delete(name);
        add(name, "high");
        // Keys that are due at the same moment may come in any order.
        const tied = atMs === last.atMs ? last.rank : rank;
        ready = ready.map((entry) => (entry.key === name && entry.rank === rank ? { ...entry, rank: tied } : entry));
        last = { atMs, rank: tied };
      }
    },
    took: (name: string) => {
      expect(inWork.has(name), `${name} is given to a second worker`).toBe(false);
      const entry = ready.find((each) => each.key === name);
      if (entry === undefined) throw new Error(`${name} is given out, although it was not added or is not due`);
      const earlier = ready.filter((each) => each.priority === entry.priority && each.rank < entry.rank);
      expect(earlier, `${name} overtook others`).toEqual([]);
      const low = ready.some((each) => each.priority === "low");
      if (entry.priority === "low") {
        expect(highInARow >= 8 || ready.every((each) => each.priority === "low"), "low before high").toBe(true);
      }
      highInARow = entry.priority === "high" && low ? highInARow + 1 : 0;
      expect(highInARow, "low keys are starved").toBeLessThanOrEqual(8);
      ready = ready.filter((each) => each !== entry);
      inWork.add(name);
    },
    done: (name: string) => {
      inWork.delete(name);
      const priority = again.get(name);
      again.delete(name);
      rank += 1;
      if (priority !== undefined) put(name, priority);
    },
  };
}

/** Builds a queue and its model, and compares both after each command. */
function pair(clock: VirtualClock) {
  const queue = workQueue({ clock, limits, random: () => 1 - Number.EPSILON });
  const wanted = model();
  const has: (string | undefined)[] = Array.from({ length: WORKERS }, () => undefined);
  const waits: (AbortController | undefined)[] = Array.from({ length: WORKERS }, () => undefined);

  async function apply(step: Command): Promise<void> {
    switch (step.kind) {
      case "add":
        wanted.add(step.key, step.priority);
        queue.add(step.key, step.priority);
        break;
      case "after":
        if (step.ms === 0) wanted.add(step.key, "high");
        else wanted.delay(step.key, clock.now() + step.ms);
        queue.addAfter(step.key, step.ms);
        break;
      case "limited":
        wanted.limit(step.key, clock.now());
        queue.addRateLimited(step.key);
        break;
      case "forget":
        wanted.forget(step.key);
        queue.forget(step.key);
        break;
      case "pass":
        wanted.passedTo(clock.now() + step.ms);
        clock.advance(step.ms);
        break;
      case "get":
        if (has[step.worker] === undefined && waits[step.worker] === undefined) ask(step.worker);
        break;
      case "give up":
        waits[step.worker]?.abort();
        break;
      case "done": {
        const name = has[step.worker];
        if (name === undefined) break;
        has[step.worker] = undefined;
        wanted.done(name);
        queue.done(name);
      }
    }
    await turn();
    expect(queue.length).toBe(wanted.ready().length);
    for (const name of KEYS) expect(queue.numRequeues(name)).toBe(wanted.failures(name));
    expect(queue.stats()).toMatchObject({ inWork: wanted.inWork.size, delayed: wanted.delayed.size });
    if (wanted.ready().length > 0) expect(waits.some((wait) => wait !== undefined)).toBe(false);
  }

  function ask(number: number): void {
    const stop = new AbortController();
    waits[number] = stop;
    void queue.get(stop.signal).then((name) => {
      waits[number] = undefined;
      has[number] = name;
      if (name !== undefined) wanted.took(name);
    });
  }
  return { apply, wanted, queue };
}

async function turn(): Promise<void> {
  for (let each = 0; each < 4; each += 1) await Promise.resolve();
}

async function take(queue: WorkQueue, count: number): Promise<(string | undefined)[]> {
  const taken: (string | undefined)[] = [];
  for (let each = 0; each < count; each += 1) taken.push(await queue.get());
  return taken;
}

it("assigns each key to one worker, loses none, keeps their order and delays, and starves no key", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(command, { maxLength: 80 }), async (commands) => {
      const { apply, wanted, queue } = pair(makeVirtualClock());
      for (const each of commands) await apply(each);
      const rest: Command[] = [{ kind: "pass", ms: 100 }];
      for (let round = 0; round < 3 * KEYS.length; round += 1) {
        rest.push({ kind: "get", worker: round % WORKERS }, { kind: "done", worker: round % WORKERS });
      }
      for (let number = 0; number < WORKERS; number += 1) rest.push({ kind: "done", worker: number });
      for (const each of rest) await apply(each);
      expect(wanted.ready()).toEqual([]);
      expect(queue.stats()).toMatchObject({ ready: 0, delayed: 0, inWork: 0 });
    }),
    { numRuns: 500 },
  );
});

it("assigns a key that is added while in work once more after its worker is done", async () => {
  const queue = workQueue();
  queue.add("a");
  expect(await queue.get()).toBe("a");
  queue.add("a");
  queue.add("a");
  expect(queue.length).toBe(0);
  queue.done("a");
  expect(queue.length).toBe(1);
  expect(await queue.get()).toBe("a");
  queue.done("a");
  expect(queue.length).toBe(0);
  expect(queue.stats()).toMatchObject({ adds: 2, dones: 2 });
});

it("refuses `done` for a key that no worker had", () => {
  const queue = workQueue();
  queue.add("a");
  expect(() => queue.done("a")).toThrow("no worker had");
});

it("assigns high-priority keys first, and a low-priority key after at most eight of them", async () => {
  const queue = workQueue();
  queue.add("low", "low");
  queue.add("raised", "low");
  for (let each = 0; each < 10; each += 1) queue.add(`h${each}`);
  queue.add("raised", "high");
  expect(await take(queue, 12)).toEqual([..."01234567"].map((each) => `h${each}`).concat("low", "h8", "h9", "raised"));
});

describe("with delays", () => {
  it.each<[title: string, delays: number[], atMs: number]>([
    ["the earlier first", [10, 30], 10],
    ["the earlier last", [30, 10], 10],
  ])("takes the earliest of two times, %s", async (_title, delays, atMs) => {
    const clock = makeVirtualClock();
    const queue = workQueue({ clock });
    for (const ms of delays) queue.addAfter("a", ms);
    clock.advance(atMs - 1);
    expect(queue.length).toBe(0);
    clock.advance(1);
    expect(await take(queue, 1)).toEqual(["a"]);
    queue.done("a");
    clock.advance(100);
    expect(queue.length).toBe(0);
  });

  it("assigns keys that failed together at different times", async () => {
    const clock = makeVirtualClock();
    const draws = [0.5, 0].values();
    const queue = workQueue({ clock, limits: { firstMs: 1000 }, random: () => draws.next().value ?? 0 });
    for (const key of ["a", "b"]) queue.addRateLimited(key);
    clock.advance(500);
    expect(await take(queue, queue.length)).toEqual(["b"]);
    clock.advance(250);
    expect(await take(queue, queue.length)).toEqual(["a"]);
  });

  it("assigns keys in the order of their times and holds one alarm for all", async () => {
    const clock = makeVirtualClock();
    const queue = workQueue({ clock });
    const times = Array.from({ length: 500 }, (_, at) => ((at * 7919) % 500) + 1);
    for (const ms of times) queue.addAfter(`k${ms}`, ms);
    expect(clock.alarms).toBe(1);
    clock.advance(500);
    expect(await take(queue, 500)).toEqual(Array.from({ length: 500 }, (_, at) => `k${at + 1}`));
    expect(clock.alarms).toBe(0);
  });

  it("stays small when the time of a key is moved forward many times", () => {
    const clock = makeVirtualClock();
    const queue = workQueue({ clock });
    for (let ms = 10_000; ms > 0; ms -= 1) queue.addAfter("a", ms);
    expect(clock.alarms).toBe(1);
    expect(queue.stats().delayed).toBe(1);
    clock.advance(1);
    expect(queue.length).toBe(1);
  });
});

describe("shutting down", () => {
  it("without drain drops waiting keys, and resolves when the keys in work are done", async () => {
    const clock = makeVirtualClock();
    const queue = workQueue({ clock });
    for (const each of ["a", "b"]) queue.add(each);
    queue.addAfter("c", 5);
    expect(await queue.get()).toBe("a");
    let ended = false;
    const end = queue.shutDown().then(() => (ended = true));
    expect(await queue.get()).toBeUndefined();
    expect(clock.alarms).toBe(0);
    expect(ended).toBe(false);
    queue.add("d");
    queue.done("a");
    await end;
    expect(queue.length).toBe(0);
  });

  it("with drain assigns waiting keys and those added while in work, then ends", async () => {
    const queue = workQueue();
    for (const each of ["a", "b"]) queue.add(each);
    expect(await queue.get()).toBe("a");
    queue.add("a");
    const end = queue.shutDown({ drain: true });
    queue.add("late");
    expect(await queue.get()).toBe("b");
    queue.done("a");
    queue.done("b");
    expect(await queue.get()).toBe("a");
    queue.done("a");
    await end;
    expect(await queue.get()).toBeUndefined();
  });

  it("wakes those who wait for a key", async () => {
    const queue = workQueue();
    const waiting = [queue.get(), queue.get()];
    await queue.shutDown({ drain: true });
    expect(await Promise.all(waiting)).toEqual([undefined, undefined]);
  });

  it("drops the keys that a first call was draining when it is called again", async () => {
    const queue = workQueue();
    queue.add("a");
    const end = queue.shutDown({ drain: true });
    await queue.shutDown();
    await end;
    expect(queue.length).toBe(0);
  });
});

it("leaves a key to other workers when a waiting worker gives up", async () => {
  const queue = workQueue();
  const stop = new AbortController();
  const first = queue.get(stop.signal);
  const second = queue.get();
  stop.abort();
  queue.add("a");
  expect(await first).toBeUndefined();
  expect(await second).toBe("a");
  expect(await queue.get(stop.signal)).toBeUndefined();
});

it("counts how long keys have waited", async () => {
  const clock = makeVirtualClock();
  const queue = workQueue({ clock });
  queue.add("a", "low");
  clock.advance(20);
  queue.add("a", "high");
  clock.advance(10);
  await queue.get();
  expect(queue.stats().waitedMs).toBe(30);
});

it("orders a hundred thousand keys without slowing down", async () => {
  const queue = workQueue();
  const count = 100_000;
  for (let each = 0; each < count; each += 1) queue.add(String(each));
  const taken = await take(queue, count);
  expect(taken.every((each, at) => each === String(at))).toBe(true);
});

describe("a key that failed", () => {
  const failing = () => {
    const clock = makeVirtualClock();
    const limits = { firstMs: 100, maxMs: 1000, burst: 1, perSecond: 1 };
    return { clock, queue: workQueue({ clock, limits, random: () => 1 - Number.EPSILON }) };
  };

  it("is in back-off until its retry is due, or until it is forgotten", async () => {
    const { clock, queue } = failing();
    queue.addAfter("a", 50);
    expect(queue.isBackingOff("a")).toBe(false);
    queue.addRateLimited("b");
    expect(queue.isBackingOff("b")).toBe(true);
    await clock.run(100);
    expect(queue.isBackingOff("b")).toBe(false);
    queue.addRateLimited("b");
    queue.forget("b");
    expect(queue.isBackingOff("b")).toBe(false);
  });

  it("is retried in time although the caller has set a later time", async () => {
    const { clock, queue } = failing();
    queue.addRateLimited("a");
    await clock.run(100);
    expect(await queue.get()).toBe("a");
    queue.addAfter("a", 3_600_000);
    queue.addRateLimited("a");
    queue.done("a");
    await clock.run(1000);
    expect(queue.length).toBe(1);
  });

  it("costs the others one retry while it waits for its own, and is counted each time", async () => {
    const { clock, queue } = failing();
    for (let each = 0; each < 100; each += 1) queue.addRateLimited("a");
    expect(queue.numRequeues("a")).toBe(100);
    queue.addRateLimited("b");
    await clock.run(1000);
    expect([await queue.get(), await queue.get()]).toEqual(["a", "b"]);
  });
});
