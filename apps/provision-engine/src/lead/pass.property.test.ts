import fc from "fast-check";
import { expect, it } from "vitest";
import { DURATION_NS, makeLeaseWorld, REFERENCES, type Weather } from "../../test/lease-world.ts";
import { planFeedback } from "../domain/plan-feedback.ts";

type World = ReturnType<typeof makeLeaseWorld>;
type Step = { readonly name: string; readonly run: (world: World) => void | Promise<void> };

const IDS = ["1-1", "1-2", ...Object.keys(REFERENCES)];
const id = fc.constantFrom(...IDS);
const of = (name: string, run: (world: World, lease: string) => void | Promise<void>): fc.Arbitrary<Step> =>
  id.map((lease) => ({ name: `${name} ${lease}`, run: (world) => run(world, lease) }));

const weather = fc.constantFrom<Weather>("well", "refused", "failing", "half-made", "queued");
const common: fc.WeightedArbitrary<Step>[] = [
  { weight: 4, arbitrary: of("order", (world, lease) => world.order(lease)) },
  { weight: 1, arbitrary: of("renew", (world, lease) => world.renew(lease)) },
  { weight: 1, arbitrary: of("end", (world, lease) => world.end(lease)) },
  { weight: 1, arbitrary: of("crash", (world, lease) => world.crashWorkload(lease)) },
  { weight: 1, arbitrary: of("report", (world, lease) => world.report(lease, true)) },
  { weight: 1, arbitrary: of("lose feedback of", (world, lease) => world.report(lease, false)) },
  { weight: 1, arbitrary: of("publish", (world, lease) => world.publish(lease)) },
  { weight: 6, arbitrary: of("hear of", (world, lease) => world.hear(lease)) },
  { weight: 6, arbitrary: of("pass over", (world, lease) => world.pass(lease)) },
  { weight: 12, arbitrary: fc.nat({ max: 9 }).map((at) => ({ name: `step ${at}`, run: (world) => world.step(at) })) },
  {
    weight: 2,
    arbitrary: fc.integer({ min: 1, max: 30 }).map((ms) => ({ name: `wait ${ms}`, run: (world) => world.wait(ms) })),
  },
  { weight: 2, arbitrary: weather.map((next) => ({ name: next, run: (world) => world.weather(next) })) },
  { weight: 2, arbitrary: fc.constant<Step>({ name: "kill", run: (world) => world.kill() }) },
];
const depose: fc.WeightedArbitrary<Step> = {
  weight: 2,
  arbitrary: fc.constant<Step>({ name: "depose", run: (world) => world.depose() }),
};
const steps = (arbitraries: readonly fc.WeightedArbitrary<Step>[]) =>
  fc.array(fc.oneof(...arbitraries), { maxLength: 80, size: "max" });

async function play(world: World, made: readonly Step[]): Promise<void> {
  for (const { run } of made) {
    await run(world);
    world.check();
  }
  expect(world.broken, made.map(({ name }) => name).join(", ")).toEqual([]);
}

/** Checks a settled world: exactly the desired objects exist, and all sources have their feedback. */
async function settles(world: World): Promise<void> {
  await world.calm(IDS);
  // Deliver the last feedback.
  for (const lease of IDS) {
    world.hear(lease);
    await world.pass(lease);
    for (let step = 0; step < 5; step++) await world.step(0);
  }
  world.sweep();
  const records = [...world.records.values()].map(({ record }) => record);
  for (const record of records) {
    expect(["ACTIVE", "ENDED", "FAILED"]).toContain(record.phase);
    expect(planFeedback(record, 2n ** 62n)).toMatchObject({ kind: "nothing" });
    expect(record.orderHash === undefined).toBe(record.phase === "ACTIVE");
  }
  expect(records.filter(({ phase }) => phase === "ACTIVE")).toHaveLength(world.copies.size);
  expect(new Set(world.published).size).toBe(world.published.length);
}

/** Every lease ends by itself, and a recorded order restores no workload. */
async function ends(world: World): Promise<void> {
  world.wait(Number(DURATION_NS / 1_000_000n) * 90);
  for (const lease of IDS) world.order(lease);
  await world.calm(IDS);
  world.sweep();
  expect(world.copies.size).toBe(0);
  world.wait(1000);
  await world.calm(IDS);
  expect(world.records.size).toBe(0);
  for (const lease of IDS) world.order(lease);
  await world.calm(IDS);
  expect(world.copies.size).toBe(0);
  expect(world.records.size).toBe(0);
  expect(world.broken).toEqual([]);
}

it("never has an undesired workload, and always the desired ones, wherever a process dies between two calls", async () => {
  await fc.assert(
    fc.asyncProperty(steps(common), async (made) => {
      const world = makeLeaseWorld();
      await play(world, made);
      await settles(world);
      await ends(world);
    }),
    { numRuns: 150 },
  );
});

it("keeps active leases, and nothing else after a sweep, even while leaders are deposed unnoticed", async () => {
  await fc.assert(
    fc.asyncProperty(steps([...common, depose]), async (made) => {
      const world = makeLeaseWorld();
      await play(world, made);
      await settles(world);
      await ends(world);
    }),
    { numRuns: 150 },
  );
});

/** Makes one lease active, and begins a pass over the lease that takes it over; both last long. */
async function orderBoth(world: World): Promise<void> {
  for (const [at, lease] of ["1-1", "1-3"].entries()) {
    if (at > 0) await world.calm(["1-1"]);
    world.order(lease);
    for (let renewal = 0; renewal < 20; renewal += 1) world.renew(lease);
  }
  await world.pass("1-3");
}

it("hands a workload over from one lease to the other, wherever an engine dies or is deposed", async () => {
  for (const interrupt of ["kill", "depose"] as const)
    for (let calls = 0; calls < 12; calls += 1) {
      const world = makeLeaseWorld();
      await orderBoth(world);
      for (let step = 0; step < calls; step += 1) {
        await world.step(0);
        world.check();
      }
      world[interrupt]();
      await settles(world);
      const [older, heir] = ["1-1", "1-3"].map((each) => world.records.get(each)?.record);
      expect(older).toMatchObject({ phase: "ENDED", heir: "1-3", ending: { cause: "MIGRATED" } });
      expect(heir).toMatchObject({ phase: "ACTIVE", madeFor: { id: "1-1", run: 1 }, result: { id: "1-3" } });
      expect([...world.copies]).toEqual([["1-1", 1]]);
      const reported = world.published.length;
      world.end("1-1");
      await world.calm(IDS);
      expect([world.published.length, world.copies.has("1-1")]).toEqual([reported, true]);
      world.end("1-3");
      await world.calm(IDS);
      expect(world.copies.size).toBe(0);
      await ends(world);
    }
});

it("removes nothing of the older lease if the order to take it over ends before", async () => {
  for (let calls = 0; calls < 12; calls += 1) {
    const world = makeLeaseWorld();
    await orderBoth(world);
    for (let step = 0; step < calls; step += 1) await world.step(0);
    world.depose();
    world.end("1-3");
    // The successor completes before the late call of its predecessor arrives.
    await world.pass("1-3");
    for (let step = 0; step < 20; step += 1) {
      await world.step(9);
      world.check();
    }
    await settles(world);
    const [older, heir] = ["1-1", "1-3"].map((each) => world.records.get(each)?.record);
    expect(heir?.phase).toBe("ENDED");
    expect(older?.phase === "ACTIVE", `after ${calls} calls`).toBe(older?.heir === undefined);
    expect(world.copies.has("1-1")).toBe(older?.phase === "ACTIVE");
    expect(world.broken).toEqual([]);
  }
});

it("hands nothing over to a lease that has ended, whether or not the engine has learnt it", async () => {
  const world = makeLeaseWorld();
  await orderBoth(world);
  while (world.records.get("1-3")?.record.phase !== "PROVISIONING") await world.step(0);
  world.end("1-3");
  while (world.isBusy()) await world.step(0);
  expect(world.records.get("1-1")?.record).toMatchObject({ phase: "ACTIVE", heir: undefined });
  await settles(world);
  expect(world.copies.has("1-1")).toBe(true);
});

it("a deposed leader that still removes a failed run cannot remove the next one", async () => {
  const world = makeLeaseWorld();
  const steps = async (count: number, choice: number): Promise<void> => {
    for (let step = 0; step < count; step++) await world.step(choice);
  };
  world.weather("half-made");
  world.order("1-1");
  await world.pass("1-1");
  // Steps: read, write PROVISIONING, create half of the workload, write DECOMMISSIONING. The removal of the workload is then the oldest call in flight.
  await steps(4, 0);
  world.depose();
  world.weather("well");
  await world.pass("1-1");
  // Steps: remove the workload, write FAILED.
  await steps(2, 1);
  expect(world.records.get("1-1")?.record.phase).toBe("FAILED");
  world.order("1-1");
  world.hear("1-1");
  await world.pass("1-1");
  // Steps: write PROVISIONING, create the workload, write ACTIVE.
  await steps(3, 1);
  expect(world.records.get("1-1")?.record.phase).toBe("ACTIVE");
  await steps(1, 0);
  expect(world.copies.has("1-1")).toBe(true);
  await settles(world);
  expect(world.broken).toEqual([]);
});

it("records the outcome of a call although its history was published in the meantime, without a second call", async () => {
  const world = makeLeaseWorld();
  world.weather("failing");
  world.order("1-1");
  await world.pass("1-1");
  // Steps: read, write PROVISIONING; then the call is in flight.
  for (let step = 0; step < 2; step++) await world.step(0);
  world.publish("1-1");
  // The call fails after its record has changed; then the record is read and written.
  for (let step = 0; step < 4; step++) await world.step(0);
  const { attempts, outbox } = world.records.get("1-1")?.record ?? {};
  expect([attempts, outbox?.map(({ eventType }) => eventType)]).toEqual([1, ["DELAYED"]]);
});
