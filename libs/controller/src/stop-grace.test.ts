import { makeVirtualClock } from "@muster/testkit";
import { expect, it } from "vitest";
import { openStopGrace } from "./stop-grace.ts";

function opened() {
  const clock = makeVirtualClock();
  const [stop, lost] = [new AbortController(), new AbortController()];
  const grace = openStopGrace({ stop: stop.signal, lost: lost.signal, graceMs: 500, clock });
  return { clock, stop, lost, grace };
}

it("lets work finish for the grace period after a stop", async () => {
  const { clock, stop, grace } = opened();
  await clock.run(1000);
  stop.abort();
  await clock.run(499);
  expect(grace.signal.aborted).toBe(false);
  await clock.run(1);
  expect(grace.signal.reason).toMatchObject({ name: "AbortError", message: "the time to finish is over" });
});

it("cuts work immediately when the lead is lost, also during the grace period", async () => {
  const first = opened();
  first.lost.abort("lost");
  expect(first.grace.signal.reason).toBe("lost");
  const second = opened();
  second.stop.abort();
  await second.clock.run(100);
  second.lost.abort("lost");
  expect(second.grace.signal.reason).toBe("lost");
});

it("reflects a stop or loss before its creation", async () => {
  const lost = openStopGrace({ stop: new AbortController().signal, lost: AbortSignal.abort("lost"), graceMs: 500 });
  expect(lost.signal.reason).toBe("lost");
  lost[Symbol.dispose]();
  const clock = makeVirtualClock();
  using grace = openStopGrace({ stop: AbortSignal.abort(), graceMs: 500, clock });
  await clock.run(500);
  expect(grace.signal.aborted).toBe(true);
});

it("aborts nothing after disposal", async () => {
  const { clock, stop, lost, grace } = opened();
  stop.abort();
  grace[Symbol.dispose]();
  lost.abort();
  await clock.run(1000);
  expect(grace.signal.aborted).toBe(false);
});
