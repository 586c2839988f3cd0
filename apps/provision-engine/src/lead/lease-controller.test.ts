import { toNanosecondsFromMs } from "@muster/leases";
import { waitUntilSettled, until, makeVirtualClock } from "@muster/testkit";
import { expect, it } from "vitest";
import { requeueAfter, startLeaseController, type LeaseControllerOptions } from "./lease-controller.ts";

const RETRY = { firstMs: 1, maxMs: 2 };

function controllerOf(pass: (id: string) => Promise<bigint | undefined>, more: Partial<LeaseControllerOptions> = {}) {
  const stop = new AbortController();
  const failed: string[] = [];
  const nowNs = (): bigint => toNanosecondsFromMs(Date.now());
  const lead = { signal: stop.signal, lost: new AbortController().signal, isHeld: () => true };
  const given = { name: "tested", nowNs, retry: RETRY, failed: (id: string) => failed.push(id), lead, ...more };
  const reconcile = async (id: string) => requeueAfter(await pass(id), given.nowNs());
  return { controller: startLeaseController({ ...given, reconcile }), stop, failed, nowNs };
}

it("makes one pass at a time for a lease, and one more for all changes in the meantime", async () => {
  const ends: (() => void)[] = [];
  const { controller, stop } = controllerOf(async () => {
    await new Promise<void>((resolve) => ends.push(resolve));
    return undefined;
  });
  controller.add("a");
  controller.add("b");
  await until("both are looked at", () => ends.length === 2);
  controller.add("a");
  controller.add("a");
  ends.shift()?.();
  await until("a is looked at again", () => ends.length === 2);
  for (const end of ends.splice(0)) end();
  await new Promise(setImmediate);
  expect(ends).toEqual([]);
  stop.abort();
  await controller.done;
});

it("makes a pass when woken and when a failure is retried, and none after the signal", async () => {
  const looks: string[] = [];
  const { controller, stop, failed, nowNs } = controllerOf((id) => {
    looks.push(id);
    if (id === "broken" && failed.length < 3) return Promise.reject(new Error("no"));
    return Promise.resolve(id === "again" && looks.length < 3 ? nowNs() : undefined);
  });
  controller.add("again");
  await until("it is looked at three times", () => looks.length === 3);
  controller.addAt("later", nowNs() + 3_600_000_000_000n);
  controller.addAt("soon", nowNs());
  await until("what is due is looked at", () => looks.includes("soon"));
  controller.add("broken");
  await until("it has worked", () => looks.filter((id) => id === "broken").length === 4);
  expect(failed).toEqual(["broken", "broken", "broken"]);
  stop.abort();
  await controller.done;
  controller.add("late");
  expect(looks).not.toContain("late");
  expect(looks).not.toContain("later");
});

it("makes each pass strictly after its time, the earliest first", async () => {
  const clock = makeVirtualClock();
  const nowNs = (): bigint => toNanosecondsFromMs(clock.now());
  const passes: string[] = [];
  const pass = (id: string) => Promise.resolve(void passes.push(`${id} ${clock.now()}`));
  const { controller, stop } = controllerOf(pass, { nowNs, clock });
  controller.addAt("1-2", toNanosecondsFromMs(20));
  controller.addAt("1-1", toNanosecondsFromMs(10));
  controller.addAt("never", undefined);
  await clock.run(30_000);
  expect(passes).toEqual(["1-1 11", "1-2 21"]);
  stop.abort();
  await controller.done;
});

it("notices a wall clock that is set forward within ten seconds", async () => {
  const clock = makeVirtualClock();
  let setForwardMs = 0;
  const nowNs = (): bigint => toNanosecondsFromMs(clock.now() + setForwardMs);
  const passes: number[] = [];
  const pass = () => Promise.resolve(void passes.push(clock.now()));
  const { controller, stop } = controllerOf(pass, { nowNs, clock });
  controller.addAt("1-1", toNanosecondsFromMs(3_600_000));
  await clock.run(9_000);
  setForwardMs = 3_600_000;
  await clock.run(1_000);
  await waitUntilSettled();
  expect(passes).toEqual([10_000]);
  stop.abort();
  await controller.done;
});

it("lets the pass in flight finish at a stop, and cuts it when the lead is lost", async () => {
  const [stop, lost] = [new AbortController(), new AbortController()];
  const finish = Promise.withResolvers<undefined>();
  const cuts: AbortSignal[] = [];
  const controller = startLeaseController({
    name: "tested",
    nowNs: () => toNanosecondsFromMs(Date.now()),
    retry: RETRY,
    failed: () => undefined,
    lead: { signal: stop.signal, lost: lost.signal, isHeld: () => !lost.signal.aborted },
    reconcile: (_id, cut) => {
      cuts.push(cut);
      return finish.promise;
    },
  });
  controller.add("a");
  await until("the pass has begun", () => cuts.length === 1);
  stop.abort();
  expect(cuts[0]?.aborted).toBe(false);
  lost.abort();
  expect(cuts[0]?.aborted).toBe(true);
  finish.resolve(undefined);
  await controller.done;
});

it("retries a failed pass after its pause although the wall clock is set back", async () => {
  const clock = makeVirtualClock();
  let setBackMs = 0;
  const nowNs = (): bigint => toNanosecondsFromMs(clock.now() - setBackMs);
  const passes: number[] = [];
  const pass = () => {
    passes.push(clock.now());
    return passes.length === 1 ? Promise.reject(new Error("no")) : Promise.resolve(undefined);
  };
  const { controller, stop } = controllerOf(pass, { nowNs, clock, retry: { firstMs: 1000, maxMs: 1000 } });
  controller.add("1-1");
  await waitUntilSettled();
  setBackMs = 3_600_000;
  await clock.run(1_000);
  await waitUntilSettled();
  expect(passes).toHaveLength(2);
  stop.abort();
  await controller.done;
});
