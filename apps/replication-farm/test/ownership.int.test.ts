import { buckets } from "@muster/proto";
import { openBucket, withSessions, type Session } from "@muster/store";
import { until } from "@muster/testkit";
import { expect, it } from "vitest";
import { makeSet } from "./a-set.ts";
import { buildFarmAttributes, makeFarm, type Farm } from "../src/farm.ts";
import { openPassWorld, type PassWorld } from "./pass-world.ts";

const NEVER_MS = 600_000;
const json = {
  encode: (value: unknown) => new TextEncoder().encode(JSON.stringify(value)),
  decode: (bytes: Uint8Array): unknown => JSON.parse(new TextDecoder().decode(bytes)),
};

/** A farm that only notifications inform: none of its polls is due. */
function farmOf({ deps, world }: PassWorld, warn: (text: unknown) => void = () => undefined): Farm {
  return makeFarm({
    pass: deps,
    world,
    pods: { list: () => Promise.resolve([]), delete: () => Promise.resolve() },
    scheduler: {
      list: () => Promise.resolve([]),
      deallocate: () => Promise.resolve(),
      onChange: () => () => undefined,
    },
    logger: { info: () => undefined, error: () => undefined, warn: (_about: unknown, text?: string) => warn(text) },
    resyncMs: NEVER_MS,
    sweepMs: NEVER_MS,
    reportForeign: () => undefined,
  });
}

async function fenceOf({ sets }: PassWorld, name: string): Promise<number> {
  const found = await sets.get(name);
  if (found === undefined || "unreadable" in found) throw new Error(`there is no set ${name}`);
  return found.record.fence;
}

async function withSets(world: PassWorld, ...names: readonly string[]): Promise<void> {
  for (const name of names) await world.sets.create(name, makeSet({ name, fence: 0 }));
  await until("the sets are seen", () => world.world.sets().length === names.length);
}

const live: ReturnType<Session["view"]>["sessions"] = new Map([
  ["ours", { id: "ours", holder: "us", about: buildFarmAttributes("") }],
]);

it("a farm continues if a set of another owner cannot be released, and reports it", async () => {
  await using world = await openPassWorld();
  await world.sets.create("theirs", makeSet({ name: "theirs", fence: 9 }));
  await until("the set is seen", () => world.world.sets().length === 1);
  const warned: unknown[] = [];
  const stop = new AbortController();
  const farm = farmOf(world, (text) => warned.push(text));
  const run = farm.run({
    id: "ours",
    signal: stop.signal,
    lost: new AbortController().signal,
    isHeld: () => true,
    lock: (key) => Promise.resolve({ key, token: 1 }),
    unlock: () => Promise.reject(new Error("the bucket is gone")),
    view: () => ({ sessions: live, locks: new Map() }),
    onChange: () => () => undefined,
  });
  await until("it has reported that", () => warned.includes("a set could not be released"));
  expect(farm.owned()).toBe(0);
  stop.abort();
  await expect(run).resolves.toBeUndefined();
});

it("a set that becomes free during a failing claim is claimed again immediately", async () => {
  await using world = await openPassWorld();
  await withSets(world, "web");
  const stop = new AbortController();
  const asked: PromiseWithResolvers<undefined>[] = [];
  let look = (): void => undefined;
  const farm = farmOf(world);
  const run = farm.run({
    id: "ours",
    signal: stop.signal,
    lost: new AbortController().signal,
    isHeld: () => !stop.signal.aborted,
    lock: async (key) => {
      const ask = Promise.withResolvers<undefined>();
      asked.push(ask);
      if (asked.length > 1) return { key, token: 7 };
      return ask.promise;
    },
    unlock: () => Promise.resolve(),
    view: () => ({ sessions: live, locks: new Map() }),
    onChange: (listener) => {
      look = listener;
      return () => undefined;
    },
  });
  await until("it asks for the set", () => asked.length === 1);
  look();
  expect(asked).toHaveLength(1);
  asked[0]?.resolve(undefined);
  await until("it owns the set", async () => (await fenceOf(world, "web")) === 7);
  stop.abort();
  await run;
});

it("a set is taken over once its owner has been silent for its session TTL, and not before", async () => {
  await using world = await openPassWorld();
  await withSets(world, "early", "late");
  const locks = await openBucket(world.connection, { name: buckets.farmLocks, codec: json });
  const lose = async (name: string, ttlMs: number): Promise<void> => {
    await locks.create(`session.${name}`, { holder: name, ttlMs, about: buildFarmAttributes("none=such") });
    await locks.create(`lock.${name}`, { holder: name, session: name });
  };
  await lose("early", 1000);
  await lose("late", 1001);
  const stop = new AbortController();
  let nowMs = 0;
  const farm = farmOf(world);
  const seen = Promise.withResolvers<Session>();
  const options = { bucket: buckets.farmLocks, holder: "us", ttlMs: NEVER_MS, about: buildFarmAttributes("") };
  const run = withSessions(world.connection, { ...options, signal: stop.signal, now: () => nowMs }, async (session) => {
    seen.resolve(session);
    await farm.run(session);
  });
  const session = await seen.promise;
  expect([...session.view().sessions.keys()]).toEqual(expect.arrayContaining(["early", "late"]));
  const tick = async (ms: number): Promise<void> => {
    nowMs = ms;
    // The clock is read again.
    await locks.create(`lock.tick-${ms}`, { holder: "", session: session.id });
  };
  await tick(1000);
  await until("the early one is taken over", async () => (await fenceOf(world, "early")) > 0);
  expect(await fenceOf(world, "late")).toBe(0);
  expect(await locks.get("session.late")).toBeDefined();
  await tick(1001);
  await until("the late one is taken over", async () => (await fenceOf(world, "late")) > 0);
  expect(farm.owned()).toBe(2);
  stop.abort();
  await run;
});

it("lets the pass in flight finish when it is stopped", async () => {
  await using world = await openPassWorld();
  await withSets(world, "web");
  const stop = new AbortController();
  const gate = Promise.withResolvers<undefined>();
  let reads = 0;
  const get: typeof world.deps.sets.get = async (name) => {
    reads += 1;
    // The claim reads it first.
    if (reads > 1) await gate.promise;
    return world.deps.sets.get(name);
  };
  const farm = farmOf({ ...world, deps: { ...world.deps, sets: { ...world.deps.sets, get } } });
  const run = farm.run({
    id: "ours",
    signal: stop.signal,
    lost: new AbortController().signal,
    isHeld: () => true,
    lock: (key) => Promise.resolve({ key, token: 7 }),
    unlock: () => Promise.resolve(),
    view: () => ({ sessions: live, locks: new Map() }),
    onChange: () => () => undefined,
  });
  await until("the pass reads the set", () => reads > 1);
  stop.abort();
  gate.resolve(undefined);
  await run;
  expect(await fenceOf(world, "web")).toBe(7);
});

it("keeps a set whose pass has a defect, reports the defect, and retries the pass with a growing pause", async () => {
  await using world = await openPassWorld();
  await withSets(world, "web");
  const stop = new AbortController();
  const failed: unknown[] = [];
  const defect = new TypeError("a defect");
  const report = {
    ...world.deps.report,
    failed: (_set: string, what: string, error: unknown) => failed.push([what, error]),
  };
  let reads = 0;
  const get: typeof world.deps.sets.get = async (name) => {
    reads += 1;
    // The claim reads it first.
    if (reads > 1 && reads <= 4) throw defect;
    return world.deps.sets.get(name);
  };
  const farm = farmOf({ ...world, deps: { ...world.deps, report, sets: { ...world.deps.sets, get } } });
  const run = farm.run({
    id: "ours",
    signal: stop.signal,
    lost: new AbortController().signal,
    isHeld: () => true,
    lock: (key) => Promise.resolve({ key, token: 7 }),
    unlock: () => Promise.reject(new Error("the set is released")),
    view: () => ({ sessions: live, locks: new Map() }),
    onChange: () => () => undefined,
  });
  await until("a pass works", async () => (await fenceOf(world, "web")) === 7);
  expect(failed.slice(0, 3)).toEqual([1, 2, 3].map(() => ["pass", defect]));
  expect(farm.owned()).toBe(1);
  stop.abort();
  await run;
});
