import crypto from "node:crypto";
import { syncBuiltinESMExports } from "node:module";
import timersPromises from "node:timers/promises";
import type { Random } from "@muster/chaos/random";
import { getVirtualTime, type VirtualTime } from "./virtual-time.ts";

type Callback = (...args: unknown[]) => void;
/** The source of random numbers of each simulation. */
const sources = new WeakMap<VirtualTime, Random>();

/** A timer of virtual time with the interface of Node's timers. */
class VirtualTimer {
  cancel: () => void = () => undefined;

  ref(): this {
    return this;
  }

  unref(): this {
    return this;
  }

  hasRef(): boolean {
    return true;
  }
}

let replaced = false;

/**
 * Replaces timers, clocks and random numbers for code that runs in a simulation; other code keeps Node's. Affects the whole process: imports that a module
 * bound earlier stay Node's.
 */
export function replaceClock(time: VirtualTime, random: Random): void {
  sources.set(time, random);
  if (replaced) return;
  replaced = true;
  replaceTimers();
  replaceClocks();
  replaceRandomness();
  syncBuiltinESMExports();
}

function replaceTimers(): void {
  const real = { setTimeout, setInterval, clearTimeout, clearInterval };
  const start = (time: VirtualTime, ms: number, run: () => void, repeats: boolean): VirtualTimer => {
    const timer = new VirtualTimer();
    const owner = time.current();
    const arm = (): void => {
      const task = time.after(ms, owner, () => {
        if (repeats) arm();
        run();
      });
      timer.cancel = () => {
        task.over = true;
      };
    };
    arm();
    return timer;
  };
  const replacing =
    (native: typeof setTimeout | typeof setInterval, repeats: boolean) =>
    (run: Callback, ms = 0, ...args: unknown[]): unknown => {
      const time = getVirtualTime();
      return time === undefined ? native(run, ms, ...args) : start(time, ms, () => run(...args), repeats);
    };
  const clearing =
    (native: (timer: NodeJS.Timeout | undefined) => void) =>
    (timer: unknown): void => {
      if (timer instanceof VirtualTimer) timer.cancel();
      else native(timer as NodeJS.Timeout | undefined);
    };
  Object.assign(globalThis, {
    setTimeout: Object.assign(replacing(real.setTimeout, false), real.setTimeout),
    setInterval: replacing(real.setInterval, true),
    clearTimeout: clearing(real.clearTimeout),
    clearInterval: clearing(real.clearInterval),
  });
  const sleep = timersPromises.setTimeout;
  Object.assign(timersPromises, {
    setTimeout: (ms = 0, value?: unknown, options: { readonly signal?: AbortSignal } = {}) => {
      const time = getVirtualTime();
      return time === undefined ? sleep(ms, value, options) : pause(ms, value, options.signal);
    },
  });
  const timeout = AbortSignal.timeout.bind(AbortSignal);
  AbortSignal.timeout = (ms) => {
    if (getVirtualTime() === undefined) return timeout(ms);
    const over = new AbortController();
    setTimeout(() => over.abort(new DOMException("The operation timed out", "TimeoutError")), ms);
    return over.signal;
  };
}

function pause(ms: number, value: unknown, signal: AbortSignal | undefined): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const refuse = (): void => {
      clearTimeout(timer);
      reject(new DOMException("The operation was aborted", "AbortError"));
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", refuse);
      resolve(value);
    }, ms);
    signal?.addEventListener("abort", refuse, { once: true });
    if (signal?.aborted === true) refuse();
  });
}

function replaceClocks(): void {
  const realNow = Date.now.bind(Date);
  Date.now = () => {
    const time = getVirtualTime();
    return time === undefined ? realNow() : Math.floor(time.nowMs + (time.current()?.clockOffsetMs ?? 0));
  };
  const monotonic = performance.now.bind(performance);
  performance.now = () => getVirtualTime()?.nowMs ?? monotonic();
}

function replaceRandomness(): void {
  const realRandom = Math.random.bind(Math);
  const source = (): Random | undefined => {
    const time = getVirtualTime();
    return time === undefined ? undefined : sources.get(time);
  };
  Math.random = () => {
    const random = source();
    return random === undefined ? realRandom() : random.integer(0, 2 ** 30) / (2 ** 30 + 1);
  };
  const realUuid = crypto.randomUUID.bind(crypto);
  const uuid = (): ReturnType<typeof realUuid> => {
    const random = source();
    return random === undefined ? realUuid() : makeUuid(random);
  };
  crypto.randomUUID = uuid;
  globalThis.crypto.randomUUID = uuid;
}

/** Draws a version 4 UUID. */
export function makeUuid(random: Random): `${string}-${string}-${string}-${string}-${string}` {
  const hex = (digits: number): string =>
    Array.from({ length: digits }, () => random.integer(0, 15).toString(16)).join("");
  return `${hex(8)}-${hex(4)}-4${hex(3)}-8${hex(3)}-${hex(12)}`;
}
