import { createHook } from "node:async_hooks";
import { EventEmitter, getEventListeners } from "node:events";
import { expect, it } from "vitest";
import { waitForOwnerChange } from "./wait-for-owner-change.ts";

const OWNER = "train-0a1b2c3d4e5f";

it("a wait ends with a change, with its timeout, and with its signal", async () => {
  const bell = new EventEmitter();
  const stop = new AbortController();
  const rung = waitForOwnerChange(bell, OWNER, 3_600_000, stop.signal);
  bell.emit(OWNER);
  await rung;
  // Keep the process running, because the timer of a wait does not.
  const alive = setInterval(() => undefined, 1000);
  await waitForOwnerChange(bell, OWNER, 1, stop.signal).finally(() => clearInterval(alive));
  const stopped = waitForOwnerChange(bell, OWNER, 3_600_000, stop.signal);
  stop.abort();
  await stopped;
  await waitForOwnerChange(bell, OWNER, 3_600_000, stop.signal);
});

it("waits that a change has ended leave no timer and no listener behind", async () => {
  const timers = new Set<number>();
  const hook = createHook({
    init: (id, type) => {
      if (type === "Timeout") timers.add(id);
    },
    destroy: (id) => void timers.delete(id),
  });
  const bell = new EventEmitter();
  const stop = new AbortController();
  hook.enable();
  for (let ring = 0; ring < 100; ring += 1) {
    const rung = waitForOwnerChange(bell, OWNER, 30_000, stop.signal);
    bell.emit(OWNER);
    await rung;
  }
  // The hook receives a cleared timer in the next turn.
  await new Promise(setImmediate);
  hook.disable();
  expect(timers.size).toBe(0);
  expect(bell.eventNames()).toEqual([]);
  expect(getEventListeners(stop.signal, "abort")).toEqual([]);
});
