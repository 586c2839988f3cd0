import { setImmediate as turn } from "node:timers/promises";
import fc from "fast-check";
import { FaultError, findFault } from "@muster/faults";
import { describe, expect, it } from "vitest";
import { makeFakeStates } from "../../test/fake-states.ts";
import { followPods } from "./pod-subscriptions.ts";
import type { PodWatchEvent } from "./pod-watch-event.ts";
import type { PodUpdate } from "./subscriber.ts";

const owner = { kind: "session", id: "s" };

function state(pod: string, observedAtMs: number, part: Partial<PodWatchEvent> = {}): PodWatchEvent {
  return {
    owner,
    component: pod,
    pod,
    uid: `uid-${pod}`,
    podIp: "",
    node: "",
    health: "READY",
    error: undefined,
    reason: "",
    exitCode: undefined,
    deleting: false,
    deleted: false,
    observedAtMs,
    ...part,
  };
}

/** Resolves when all sent messages have arrived: the handlers here answer within one turn of the event loop. */
async function settled(): Promise<void> {
  for (let turns = 0; turns < 3; turns += 1) await turn();
}

const brief = (update: PodUpdate | undefined): string => {
  switch (update?.kind) {
    case undefined:
      return "end";
    case "current":
      return `${update.because}: ${update.pods.map(({ pod, observedAtMs }) => `${pod}@${observedAtMs}`).join(" ")}`;
    case "changed":
      return `${update.event.pod}@${update.event.observedAtMs}`;
    case "overflowed":
      return `overflowed by ${update.missed}`;
  }
};

/** Reads until no item waits. */
async function drain(
  updates: AsyncIterableIterator<PodUpdate, undefined>,
  into: PodUpdate[] = [],
): Promise<PodUpdate[]> {
  const pending = Symbol("pending");
  let asked = reads.get(updates) ?? updates.next();
  for (;;) {
    reads.set(updates, asked);
    await settled();
    const result = await Promise.race([asked, Promise.resolve(pending)]);
    if (result === pending || typeof result === "symbol") return into;
    reads.delete(updates);
    if (result.done === true) return into;
    into.push(result.value);
    asked = updates.next();
  }
}
/** A pending read is awaited next. */
const reads = new WeakMap<object, Promise<IteratorResult<PodUpdate, undefined>>>();

describe("a subscription", () => {
  it("that starts late gets the current state of every pod of its session, then changes", async () => {
    const states = makeFakeStates();
    states.put(state("a", 1));
    states.put(state("b", 2));
    states.put(state("a", 3));
    states.put(state("x", 4, { owner: { kind: "session", id: "other" } }));
    await using pods = followPods(states.bucket);
    await settled();
    const updates = pods.subscribe(owner);
    expect((await drain(updates)).map(brief)).toEqual(["subscribed: a@3 b@2"]);
    states.put(state("b", 5));
    states.put(state("c", 6));
    states.put(state("b", 7));
    expect((await drain(updates)).map(brief)).toEqual(["b@5", "c@6", "b@7"]);
  });

  it("of a session without pods has an empty current state", async () => {
    await using pods = followPods(makeFakeStates().bucket);
    expect((await drain(pods.subscribe(owner))).map(brief)).toEqual(["subscribed: "]);
  });

  it("whose buffer is full receives `overflowed` and then the current state; nothing is dropped silently", async () => {
    const states = makeFakeStates();
    await using pods = followPods(states.bucket, { eventBufferSize: 2 });
    const updates = pods.subscribe(owner);
    await drain(updates);
    // The pending read takes the first one.
    for (let at = 1; at <= 6; at += 1) {
      states.put(state("a", at));
      await settled();
    }
    expect((await drain(updates)).map(brief)).toEqual(["a@1", "a@2", "a@3", "overflowed by 3", "overflowed: a@6"]);
    states.put(state("a", 7));
    expect((await drain(updates)).map(brief)).toEqual(["a@7"]);
  });

  it("has a buffer of 32 changes by default", async () => {
    for (const [changes, last] of [
      [33, "a@33"],
      [34, "overflowed: a@34"],
    ] as const) {
      const states = makeFakeStates();
      await using pods = followPods(states.bucket);
      const updates = pods.subscribe(owner);
      await drain(updates);
      // The pending read takes the first change.
      for (let at = 1; at <= changes; at += 1) {
        states.put(state("a", at));
        await settled();
      }
      expect((await drain(updates)).map(brief).at(-1)).toBe(last);
    }
  });

  it("gets the current state after a gap in the connection", async () => {
    const states = makeFakeStates();
    states.put(state("a", 1));
    states.put(state("b", 1));
    await using pods = followPods(states.bucket);
    const updates = pods.subscribe(owner);
    await drain(updates);
    states.interrupt();
    states.put(state("a", 2, { health: "NOT_READY" }));
    states.put(state("a", 3, { health: "FAILED", deleted: true }));
    states.forget("session.s.a");
    states.put(state("b", 4));
    expect(await drain(updates)).toEqual([]);
    states.resume();
    expect((await drain(updates)).map(brief)).toEqual(["resync: b@4"]);
  });

  it("that begins during a gap waits for its end", async () => {
    const states = makeFakeStates();
    await using pods = followPods(states.bucket);
    await settled();
    states.interrupt();
    await settled();
    const updates = pods.subscribe(owner);
    states.put(state("a", 1));
    expect(await drain(updates)).toEqual([]);
    states.resume();
    expect((await drain(updates)).map(brief)).toEqual(["subscribed: a@1"]);
  });

  it("receives nothing when the published end of a pod is forgotten", async () => {
    const states = makeFakeStates();
    await using pods = followPods(states.bucket);
    const updates = pods.subscribe(owner);
    states.put(state("a", 1, { deleted: true }));
    await drain(updates);
    states.forget("session.s.a");
    expect(await drain(updates)).toEqual([]);
  });

  it("gets the current state when a pod's state was lost with the bucket", async () => {
    const states = makeFakeStates();
    await using pods = followPods(states.bucket);
    const updates = pods.subscribe(owner);
    states.put(state("a", 1));
    await drain(updates);
    states.forget("session.s.a");
    expect((await drain(updates)).map(brief)).toEqual(["resync: "]);
  });
});

describe("in one process", () => {
  const code = (call: () => unknown): string | undefined => {
    try {
      call();
      return undefined;
    } catch (error) {
      return findFault(error)?.code;
    }
  };

  it("a second subscription for a session, and an unsubscribe without one, are errors", async () => {
    await using pods = followPods(makeFakeStates().bucket);
    expect(code(() => pods.unsubscribe(owner))).toBe("not_found");
    pods.subscribe(owner);
    expect(code(() => pods.subscribe(owner))).toBe("already_exists");
    expect(code(() => pods.subscribe({ kind: "job", id: "s" }))).toBeUndefined();
    pods.unsubscribe(owner);
    expect(code(() => pods.unsubscribe(owner))).toBe("not_found");
    expect(code(() => pods.subscribe(owner))).toBeUndefined();
  });

  it("waiting changes can still be read after an unsubscribe, and then the subscription ends", async () => {
    const states = makeFakeStates();
    await using pods = followPods(states.bucket);
    const updates = pods.subscribe(owner);
    await updates.next();
    states.put(state("a", 1));
    await settled();
    pods.unsubscribe(owner);
    states.put(state("a", 2));
    await settled();
    const received: string[] = [];
    for await (const each of updates) received.push(brief(each));
    expect(received).toEqual(["a@1"]);
  });

  it("leaving the loop, the signal and disposal each free the session", async () => {
    const states = makeFakeStates();
    await using pods = followPods(states.bucket);
    for await (const _news of pods.subscribe(owner)) break;
    const stop = new AbortController();
    const stopped = pods.subscribe(owner, { signal: stop.signal });
    stop.abort();
    expect(await stopped.next()).toEqual({ done: true, value: undefined });
    expect(await pods.subscribe(owner, { signal: stop.signal }).next()).toEqual({ done: true, value: undefined });
    const last = pods.subscribe(owner);
    await last.next();
    const waiting = last.next();
    await pods[Symbol.asyncDispose]();
    expect(await waiting).toEqual({ done: true, value: undefined });
  });

  it("every subscription rejects once the states can no longer be followed, after its waiting changes", async () => {
    const states = makeFakeStates();
    await using pods = followPods(states.bucket);
    const updates = pods.subscribe(owner);
    states.put(state("a", 1));
    await drain(updates);
    states.put(state("a", 2));
    states.fail(new FaultError({ code: "unavailable", dependency: "nats", retryAfterMs: 0 }));
    await settled();
    expect(brief((await reads.get(updates))?.value)).toBe("a@2");
    await expect(updates.next()).rejects.toMatchObject({ fault: { code: "unavailable" } });
    expect(await updates.next()).toEqual({ done: true, value: undefined });
  });

  it("a buffer without room is refused", () => {
    for (const eventBufferSize of [0, -1, 1.5, NaN])
      expect(code(() => followPods(makeFakeStates().bucket, { eventBufferSize }))).toBe("invalid_request");
  });
});

type Act = {
  readonly kind: "put" | "end" | "forget" | "read" | "interrupt" | "resume" | "drain";
  readonly pod: string;
};
const anyAct: fc.Arbitrary<Act> = fc.record({
  kind: fc.oneof(
    { weight: 8, arbitrary: fc.constant("put" as const) },
    { weight: 2, arbitrary: fc.constantFrom("end" as const, "read" as const) },
    {
      weight: 1,
      arbitrary: fc.constantFrom("forget" as const, "interrupt" as const, "resume" as const, "drain" as const),
    },
  ),
  pod: fc.constantFrom("a", "b", "c"),
});

it("whatever changes, gaps and slow readers occur, the reader ends with the current state, and the order of a pod is never reversed", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(anyAct, { maxLength: 60 }), fc.integer({ min: 1, max: 4 }), async (acts, size) => {
      const states = makeFakeStates();
      await using pods = followPods(states.bucket, { eventBufferSize: size });
      const updates = pods.subscribe(owner);
      const received: PodUpdate[] = [];
      let at = 0;
      let changes = 0;
      for (const act of acts) {
        at += 1;
        const key = `session.s.${act.pod}`;
        if (act.kind === "put" || act.kind === "end") {
          states.put(state(act.pod, at, { deleted: act.kind === "end" }));
          changes += 1;
        } else if (act.kind === "forget") {
          if (states.truth.get(key)?.deleted === true) states.forget(key);
        } else if (act.kind === "read") {
          const asked = reads.get(updates) ?? updates.next();
          reads.set(updates, asked);
        } else if (act.kind === "drain") await drain(updates, received);
        else states[act.kind]();
        await settled();
      }
      states.resume();
      await settled();
      await drain(updates, received);

      const seen = new Map<string, PodWatchEvent>();
      const newest = new Map<string, number>();
      const replay = (event: PodWatchEvent): void => {
        expect(event.observedAtMs).toBeGreaterThanOrEqual(newest.get(event.pod) ?? 0);
        newest.set(event.pod, event.observedAtMs);
        seen.set(event.pod, event);
      };
      for (const [index, each] of received.entries()) {
        if (each.kind === "changed") replay(each.event);
        if (each.kind === "overflowed") expect(received[index + 1]).toMatchObject({ kind: "current" });
        if (each.kind !== "current") continue;
        seen.clear();
        each.pods.forEach(replay);
      }
      // The watcher may delete a pod with a published end without a further event.
      const living = (events: Iterable<PodWatchEvent>): string[] =>
        [...events]
          .filter(({ deleted }) => !deleted)
          .map(({ pod, observedAtMs }) => `${pod}@${observedAtMs}`)
          .sort();
      expect(living(seen.values())).toEqual(living(states.truth.values()));
      for (const [key, event] of states.truth) expect(seen.get(key.split(".")[2]!)).toEqual(event);
      if (!received.some((each) => each.kind === "current" && each.because !== "subscribed"))
        expect(received.filter(({ kind }) => kind === "changed").length).toBeLessThanOrEqual(changes);
    }),
    { numRuns: 300 },
  );
});
