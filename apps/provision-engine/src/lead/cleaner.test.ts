import { findFault, FaultError } from "@muster/faults";
import { until } from "@muster/testkit";
import { expect, it } from "vitest";
import { type Leftovers, openCleaner, type CleanupMode } from "./cleaner.ts";
import { makeLeaseRecord } from "../../test/a-lease.ts";
import { RESERVATION, type FoundObject } from "../domain/plan-cleanup.ts";
import type { StoredLease } from "../holdings/records.ts";

const { signal } = new AbortController();
const DRY = { isDryRun: true, confirmed: 0 };
const REAL = { isDryRun: false, confirmed: 0 };
const left = (id: string, kind = "Secret"): FoundObject => ({
  kind,
  namespace: "default",
  name: `lease-${id}`,
  uid: id,
  createdMs: undefined,
  lease: { id, run: 1 },
  otherInstallation: undefined,
  isTerminating: false,
});

type Cleaning = {
  readonly mode?: CleanupMode;
  readonly objects?: readonly FoundObject[];
  readonly graceMs?: number;
  /** Number of lists that fail before one succeeds. */
  readonly failures?: number;
};

/** A cluster, records and a clock that only the test changes; a cleaner that leads until it is stopped. */
function cleaning(
  sources: number,
  { mode = "off", objects = [left("1-1"), left("1-2"), left("1-3")], graceMs = 1000, failures = 0 }: Cleaning = {},
) {
  const removed: string[] = [];
  const records = new Map<string, StoredLease | "unreadable" | "defect">();
  const failed: unknown[] = [];
  let nowMs = 0;
  let recorded = 1;
  let underWay = 0;
  let most = 0;
  let asked: (id: string) => void = () => undefined;
  const leftovers: Leftovers = {
    find: () => {
      if (failures > 0) {
        failures -= 1;
        return Promise.reject(new Error("cannot be listed"));
      }
      return Promise.resolve({ objects: objects.filter(({ uid }) => !removed.includes(uid)), unlisted: [] });
    },
    inUse: () => Promise.resolve(new Set<string>()),
    remove: async ({ uid }) => {
      underWay += 1;
      most = Math.max(most, underWay);
      await new Promise(setImmediate);
      underWay -= 1;
      removed.push(uid);
    },
  };
  const cleaner = openCleaner(
    {
      leftovers,
      records: {
        get: (id) => {
          asked(id);
          const found = records.get(id);
          const fault = { code: "invalid_request", field: "record", reason: "cannot be read" } as const;
          if (found === "unreadable") return Promise.reject(new FaultError(fault));
          if (found === "defect") return Promise.reject(new TypeError("heir of undefined"));
          return Promise.resolve(found);
        },
      },
      nowMs: () => nowMs,
      census: () => Promise.resolve({ records: recorded, bucketCreatedMs: 0 }),
      policy: { engine: "main", graceMs, mode, everyMs: 1000, maxObjects: 100, maxPercent: 100 },
      report: {
        step: () => undefined,
        brake: () => undefined,
        leftAlone: () => undefined,
        notRemoved: () => undefined,
        failed: (error) => failed.push(error),
      },
    },
    sources,
  );
  return {
    cleaner,
    removed,
    failed,
    mostAtOnce: () => most,
    records,
    wait: (ms: number) => (nowMs += ms),
    census: (records: number) => (recorded = records),
    onAsked: (listener: (id: string) => void) => (asked = listener),
    record: (id: string, phase: "ACTIVE" | "ENDED") =>
      records.set(id, { record: makeLeaseRecord({ order: { id }, phase }), revision: 1 }),
  };
}

it("does not sweep before it leads and knows all earlier orders", async () => {
  const { cleaner } = cleaning(1);
  const stop = new AbortController();
  await expect(async () => cleaner.sweep(DRY, signal)).rejects.toMatchObject({ fault: { code: "unavailable" } });
  expect(() => cleaner.waitsFor()).toThrow("the leader of the engine");
  const running = cleaner.run(stop.signal);
  await expect(async () => cleaner.sweep(DRY, signal)).rejects.toMatchObject({ fault: { code: "unavailable" } });
  expect(cleaner.waitsFor()).toBe("the list of earlier orders");
  cleaner.historyTaken();
  expect(cleaner.waitsFor()).toBe("");
  expect(await cleaner.sweep(DRY, signal)).toMatchObject({ steps: { length: 3 } });
  stop.abort();
  await running;
  await expect(async () => cleaner.sweep(DRY, signal)).rejects.toMatchObject({ fault: { code: "unavailable" } });
});

it("removes objects without a record at the second sweep, after the grace period, and nothing in a dry run", async () => {
  const world = cleaning(0);
  const stop = new AbortController();
  const running = world.cleaner.run(stop.signal);
  world.record("1-1", "ACTIVE");
  world.records.set("1-3", "unreadable");
  const look = async (isDryRun: boolean) =>
    (await world.cleaner.sweep({ isDryRun, confirmed: 0 }, signal)).steps.map((step) => step.kind);
  expect(await look(false)).toEqual(["keep", "suspect", "keep"]);
  world.wait(999);
  expect(await look(false)).toEqual(["keep", "suspect", "keep"]);
  world.wait(1);
  expect(await look(true)).toEqual(["keep", "remove", "keep"]);
  expect(world.removed).toEqual([]);
  expect(await look(false)).toEqual(["keep", "remove", "keep"]);
  expect(world.removed).toEqual(["1-2"]);
  // The grace period restarts after a record has existed for a while.
  world.record("1-1", "ENDED");
  expect(await look(false)).toEqual(["suspect", "keep"]);
  stop.abort();
  await running;
});

it("fails a sweep because of a defect, which it reports, and retries it", async () => {
  const world = cleaning(0, { mode: "on" });
  world.record("1-1", "ENDED");
  world.records.set("1-2", "defect");
  world.records.set("1-3", "defect");
  const stop = new AbortController();
  const running = world.cleaner.run(stop.signal);
  await until("the first has failed", () => world.failed.length === 1);
  const [reported] = world.failed;
  expect(reported).toMatchObject({ errors: [expect.any(TypeError), expect.any(TypeError)] });
  expect(findFault(reported)).toBeUndefined();
  await expect(world.cleaner.sweep(REAL, signal)).rejects.toThrow("reading the records of 2 leases failed");
  expect(world.removed).toEqual([]);
  world.record("1-2", "ACTIVE");
  world.record("1-3", "ACTIVE");
  await world.cleaner.sweep(REAL, signal);
  world.wait(1000);
  await world.cleaner.sweep(REAL, signal);
  expect(world.removed).toEqual(["1-1"]);
  stop.abort();
  await running;
});

it("reads the record once more before it removes an object of its lease", async () => {
  const world = cleaning(0);
  const stop = new AbortController();
  const running = world.cleaner.run(stop.signal);
  await world.cleaner.sweep(REAL, signal);
  world.wait(1000);
  let reads = 0;
  world.onAsked((id) => {
    // The order arrives between the read of its record and the removal.
    if (id === "1-2" && ++reads === 2) world.record("1-2", "ACTIVE");
  });
  await world.cleaner.sweep(REAL, signal);
  expect(world.removed).toEqual(["1-1", "1-3"]);
  stop.abort();
  await running;
});

it("removes nothing if all records are lost, reports it, and continues after an operator confirms", async () => {
  const world = cleaning(0);
  const stop = new AbortController();
  const running = world.cleaner.run(stop.signal);
  world.census(0);
  await world.cleaner.sweep(REAL, signal);
  world.wait(1000);
  const held = await world.cleaner.sweep(REAL, signal);
  expect(held.brake).toMatchObject({ left: 3 });
  expect(held.steps.map((step) => step.kind)).toEqual(["suspect", "suspect", "suspect"]);
  expect(world.cleaner.brake()).toEqual(held.brake);
  // The cluster now has more leftovers than the client has confirmed.
  expect((await world.cleaner.sweep({ isDryRun: false, confirmed: 2 }, signal)).brake).toMatchObject({ left: 3 });
  expect(world.removed).toEqual([]);
  await world.cleaner.sweep({ isDryRun: false, confirmed: 3 }, signal);
  expect(world.removed).toEqual(["1-1", "1-2", "1-3"]);
  expect(world.cleaner.brake()).toBeUndefined();
  stop.abort();
  await running;
});

it("follows take-overs to the present lease of an object, however many there are", async () => {
  const { cleaner, removed, records, wait } = cleaning(0);
  const stop = new AbortController();
  const running = cleaner.run(stop.signal);
  const ended = { phase: "ENDED", run: 1 } as const;
  records.set("1-1", { record: makeLeaseRecord({ ...ended, heir: "2-1" }), revision: 1 });
  records.set("2-1", { record: makeLeaseRecord({ ...ended, order: { id: "2-1" }, heir: "3-1" }), revision: 2 });
  const last = makeLeaseRecord({ order: { id: "3-1" }, madeFor: { id: "1-1", run: 1 } });
  records.set("3-1", { record: last, revision: 3 });
  const look = async (): Promise<string[]> => {
    await cleaner.sweep(REAL, signal);
    wait(1000);
    await cleaner.sweep(REAL, signal);
    return [...removed].sort();
  };
  expect(await look()).toEqual(["1-2", "1-3"]);
  records.set("3-1", { record: { ...last, phase: "ENDED" }, revision: 4 });
  expect(await look()).toEqual(["1-1", "1-2", "1-3"]);
  stop.abort();
  await running;
});

it("removes objects of one kind concurrently, and containers after their content", async () => {
  const members = Array.from({ length: 20 }, (_, at) => left(`1-${at}`));
  const holder = { ...left("2-1"), kind: "Holder" };
  const world = cleaning(0, { objects: [...members, holder] });
  const stop = new AbortController();
  const running = world.cleaner.run(stop.signal);
  await world.cleaner.sweep(REAL, signal);
  world.wait(1000);
  const { steps } = await world.cleaner.sweep(REAL, signal);
  expect(steps.map(({ object }) => object.uid)).toEqual([...members, holder].map(({ uid }) => uid));
  expect(world.removed.toSorted()).toEqual([...members, holder].map(({ uid }) => uid).toSorted());
  expect(world.removed.at(-1)).toBe("2-1");
  expect(world.mostAtOnce()).toBe(8);
  stop.abort();
  await running;
});

it.each([
  { mode: "dry-run", goes: ["1-1"] },
  { mode: "off", goes: [] },
] as const)("releases machines of leases whose records show their end: $mode", async ({ mode, goes }) => {
  const objects = [left("1-1", RESERVATION), left("1-2", RESERVATION), left("1-3"), left("1-4", RESERVATION)];
  const world = cleaning(0, { mode, objects, graceMs: 0 });
  world.record("1-1", "ENDED");
  world.record("1-3", "ENDED");
  world.record("1-4", "ACTIVE");
  // All other records seem to be lost.
  world.census(0);
  const stop = new AbortController();
  const running = world.cleaner.run(stop.signal);
  await until("its own looks are over", () => Promise.resolve(world.removed.length === goes.length));
  // A requested dry run removes no object.
  await world.cleaner.sweep(DRY, signal);
  await world.cleaner.sweep(DRY, signal);
  expect(world.removed).toEqual(goes);
  stop.abort();
  await running;
});

it("removes nothing more once it has lost the lead, even on request, and rejects", async () => {
  const world = cleaning(0);
  const stop = new AbortController();
  const running = world.cleaner.run(stop.signal);
  await world.cleaner.sweep(REAL, signal);
  world.wait(1000);
  let reads = 0;
  world.onAsked(() => {
    // The sweep read three records before the first removal.
    if (++reads === 4) stop.abort();
  });
  const looking = world.cleaner.sweep(REAL, signal);
  const waiting = world.cleaner.sweep(REAL, signal);
  const fault = { code: "unavailable", dependency: "the leader of the engine" };
  await expect(looking).rejects.toMatchObject({ fault });
  await expect(waiting).rejects.toMatchObject({ fault });
  expect(world.removed).toEqual([]);
  expect(reads).toBeGreaterThan(3);
  await running;
});

it("sweeps again soon after a sweep that failed, and after the grace period of the first that did not", async () => {
  const world = cleaning(0, { mode: "dry-run", graceMs: 600_000, failures: 1 });
  const stop = new AbortController();
  const running = world.cleaner.run(stop.signal);
  await until("the first has failed", () => world.cleaner.schedule().nextMs === 1000);
  await until("the second has not", () => world.cleaner.schedule().nextMs === 600_000);
  stop.abort();
  await running;
});

it("shows its mode, and after a sweep the time of the next one, as long as it leads", async () => {
  const { cleaner } = cleaning(0, { mode: "dry-run", graceMs: 600_000 });
  expect(cleaner.schedule()).toEqual({ mode: "dry-run", nextMs: undefined });
  const stop = new AbortController();
  const running = cleaner.run(stop.signal);
  await until("it has looked", () => Promise.resolve(cleaner.schedule().nextMs !== undefined));
  expect(cleaner.schedule()).toEqual({ mode: "dry-run", nextMs: 600_000 });
  stop.abort();
  await running;
  expect(cleaner.schedule().nextMs).toBeUndefined();
});
