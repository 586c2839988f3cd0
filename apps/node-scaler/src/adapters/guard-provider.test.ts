import { type Fault, FaultError, findFault } from "@muster/faults";
import { makeFixedClock } from "@muster/testkit";
import { expect, it } from "vitest";
import { buildPolicy } from "../../test/build-node.ts";
import { buildBoot } from "../../test/build-boot.ts";
import type { NodeProvider } from "../providers/provider.ts";
import { guardProvider } from "./guard-provider.ts";

const { signal } = new AbortController();

function guarded(list: (signal: AbortSignal) => Promise<[]>, timeoutMs = 3_600_000, isHeld = () => true) {
  return makeGuard({ list }, timeoutMs, isHeld);
}

function makeGuard(parts: Partial<NodeProvider>, timeoutMs = 3_600_000, isHeld = () => true) {
  const clock = makeFixedClock(0);
  const provider: NodeProvider = {
    name: "cloud",
    fixedSizeVolumes: false,
    start: () => Promise.reject(new Error("not asked")),
    stop: () => Promise.resolve(),
    list: () => Promise.resolve([]),
    findImage: () => Promise.resolve(""),
    checkPool: () => Promise.resolve([]),
    [Symbol.asyncDispose]: () => Promise.resolve(),
    ...parts,
  };
  return { clock, guard: guardProvider(provider, { timeoutMs, maxCallsInFlight: 2, now: clock.now })(isHeld) };
}

const codeOf = (call: Promise<unknown>) =>
  call.then(
    () => undefined,
    (error: unknown) => findFault(error)?.code,
  );

it("neither starts nor stops anything if the process no longer leads at its turn", async () => {
  let isHeld = true;
  const pending: PromiseWithResolvers<undefined>[] = [];
  const stop = async () => {
    const call = Promise.withResolvers<undefined>();
    pending.push(call);
    await call.promise;
  };
  const { guard } = makeGuard({ stop }, undefined, () => isHeld);
  const [first, second, third] = [1, 2, 3].map(() => codeOf(guard.stop({ instanceId: "i", nodeName: "n" }, signal)));
  await new Promise(setImmediate);
  isHeld = false;
  for (const call of pending) call.resolve(undefined);
  expect([await first, await second, await third]).toEqual([undefined, undefined, "unavailable"]);
  expect(await codeOf(guard.start(buildBoot(), signal))).toBe("unavailable");
});

it("limits the calls in flight, and starts the next when one has ended", async () => {
  const pending: PromiseWithResolvers<[]>[] = [];
  const { guard } = guarded(() => {
    const call = Promise.withResolvers<[]>();
    pending.push(call);
    return call.promise;
  });
  const calls = [guard.list(signal), guard.list(signal), guard.list(signal)];
  await new Promise(setImmediate);
  expect(pending).toHaveLength(2);
  pending[0]?.resolve([]);
  await calls[0];
  await new Promise(setImmediate);
  expect(pending).toHaveLength(3);
  for (const call of pending) call.resolve([]);
  await Promise.all(calls);
});

it("aborts a call that waits for its turn", async () => {
  const { guard } = guarded(() => new Promise(() => undefined));
  const stop = new AbortController();
  void guard.list(stop.signal).catch(() => undefined);
  void guard.list(stop.signal).catch(() => undefined);
  const waiting = guard.list(stop.signal);
  stop.abort(new Error("stopped"));
  await expect(waiting).rejects.toThrow("stopped");
});

it("waits for no call longer than its timeout, even if the provider ignores its signal", async () => {
  const { guard } = guarded(() => new Promise(() => undefined), 5);
  expect(await codeOf(guard.list(signal))).toBe("deadline_exceeded");
});

const left = { dependency: "cloud", retryAfterMs: 30_000 };
it.each<readonly [string, Fault, number]>([
  ["its limit", { code: "limit_exceeded", what: "calls", limit: 1, retryAfterMs: 30_000 }, 30_000],
  ["an overload", { code: "unavailable", ...left }, 30_000],
  ["an outage", { code: "unavailable", ...left, retryAfterMs: 0 }, 0],
  ["no answer in time", { code: "deadline_exceeded", operation: "listing", timeoutMs: 30_000 }, 0],
  ["an invalid request", { code: "invalid_request", field: "x", reason: "y" }, 0],
])("sends no request for the pause after a provider reports %s", async (_, fault, pauseMs) => {
  let calls = 0;
  const { guard, clock } = guarded(() => {
    calls += 1;
    return calls === 1 ? Promise.reject(new FaultError(fault)) : Promise.resolve([]);
  });
  expect(await codeOf(guard.list(signal))).toBe(fault.code);
  if (pauseMs > 0) {
    clock.advance(pauseMs - 1);
    expect(await codeOf(guard.list(signal))).toBe("limit_exceeded");
    expect(calls).toBe(1);
    clock.advance(1);
  }
  expect(await guard.list(signal)).toEqual([]);
});

function refusal(): FaultError {
  return new FaultError({ code: "limit_exceeded", what: "calls", limit: 1, retryAfterMs: 30_000 });
}

it("lists and stops while starts wait for their turn or for a pause", async () => {
  const starts = [Promise.withResolvers<never>(), Promise.withResolvers<never>()];
  let next = 0;
  const start = () => starts[next++]?.promise ?? Promise.reject(new Error("not asked"));
  const { guard } = makeGuard({ start });
  const calls = [1, 2, 3].map(() => codeOf(guard.start(buildBoot(), signal)));
  expect(await guard.list(signal)).toEqual([]);
  for (const start of starts) start.reject(refusal());
  expect(await Promise.all(calls)).toEqual(["limit_exceeded", "limit_exceeded", "limit_exceeded"]);
  await guard.stop({ instanceId: "i", nodeName: "n" }, signal);
});

it("stops and finds images during a pause of pool checks", async () => {
  const { guard } = makeGuard({ checkPool: () => Promise.reject(refusal()) });
  const checked = [
    await codeOf(guard.checkPool(buildPolicy(), signal)),
    await codeOf(guard.checkPool(buildPolicy(), signal)),
  ];
  expect(checked).toEqual(["limit_exceeded", "limit_exceeded"]);
  await guard.stop({ instanceId: "i", nodeName: "n" }, signal);
  expect(await guard.findImage({}, signal)).toBe("");
});

it("stops during slow lists, and lists during slow stops", async () => {
  const never = () => new Promise<never>(() => undefined);
  const { guard: slowLists } = makeGuard({ list: never });
  const { guard: slowStops } = makeGuard({ stop: never });
  const instance = { instanceId: "i", nodeName: "n" };
  for (let call = 1; call <= 2; call += 1) {
    void slowLists.list(signal);
    void slowStops.stop(instance, signal);
  }
  await slowLists.stop(instance, signal);
  expect(await slowStops.list(signal)).toEqual([]);
});
