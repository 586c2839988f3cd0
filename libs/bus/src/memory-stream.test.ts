import { fixedClock } from "@muster/testkit";
import { expect, it } from "vitest";
import type { Delivery, StreamConfig } from "./bus.ts";
import { MemoryStream, type Timers } from "./memory-stream.ts";

/** Timers of a clock that the test moves. */
function ownedTimers(): Timers & { advance: (ms: number) => void } {
  const clock = fixedClock();
  const waiting = new Set<{ dueMs: number; run: () => void }>();
  return {
    now: clock.now,
    after: (delayMs, run) => {
      const timer = { dueMs: clock.now() + delayMs, run };
      waiting.add(timer);
      return () => {
        waiting.delete(timer);
      };
    },
    advance: (ms) => {
      clock.advance(ms);
      for (const timer of [...waiting].sort((a, b) => a.dueMs - b.dueMs))
        if (timer.dueMs <= clock.now() && waiting.delete(timer)) timer.run();
    },
  };
}

function setup(config: Partial<StreamConfig> = {}): {
  timers: ReturnType<typeof ownedTimers>;
  stream: MemoryStream;
  taken: Delivery[];
  send: (id: string) => void;
  leave: () => void;
  hands: { full: boolean; pump: () => void };
} {
  const timers = ownedTimers();
  const stream = new MemoryStream({ name: "S", subjects: ["s.>"], retention: "limits", ...config }, timers);
  const taken: Delivery[] = [];
  const consuming = { stream: "S", durable: "d", subject: "s.*", maxInFlight: 2, ackWaitMs: 1000 };
  const consumer = stream.consumer(consuming);
  const hands = { full: false, pump: () => consumer.pump() };
  const leave = consumer.join({ hasRoom: () => !hands.full, take: (delivery) => taken.push(delivery) });
  const send = (id: string): void => {
    stream.append({ subject: `s.${id}`, payload: new Uint8Array(), headers: new Map() }, { messageId: id });
  };
  return { timers, stream, taken, send, leave, hands };
}

it("delivers again when the acknowledgement wait is over, and not a moment earlier", () => {
  const { timers, taken, send } = setup();
  send("a");
  timers.advance(999);
  expect(taken).toHaveLength(1);
  timers.advance(1);
  expect(taken.map(({ attempt }) => attempt)).toEqual([1, 2]);
});

it("starts the wait anew while the handler says it is working", () => {
  const { timers, taken, send } = setup();
  send("a");
  for (let n = 0; n < 10; n += 1) {
    timers.advance(900);
    taken[0]?.working();
  }
  expect(taken).toHaveLength(1);
});

it("lets others pass a message that waits for its next attempt", async () => {
  const { timers, taken, send } = setup();
  send("a");
  taken[0]?.retry(5000);
  send("b");
  await taken[1]?.ack();
  timers.advance(4999);
  expect(taken.map(({ sequence }) => sequence)).toEqual([1, 2]);
  timers.advance(1);
  expect(taken.map(({ sequence, attempt }) => [sequence, attempt])).toEqual([
    [1, 1],
    [2, 1],
    [1, 2],
  ]);
});

it("hands out neither old nor new messages while nobody has room", () => {
  const { timers, taken, send, hands } = setup();
  send("a");
  taken[0]?.retry(100);
  hands.full = true;
  send("b");
  timers.advance(10_000);
  expect(taken).toHaveLength(1);
  hands.full = false;
  hands.pump();
  expect(taken.map(({ sequence, attempt }) => [sequence, attempt])).toEqual([
    [1, 1],
    [1, 2],
    [2, 1],
  ]);
});

it("does not listen to a delivery that has been handed to somebody else since", async () => {
  const { timers, taken, send } = setup();
  send("a");
  timers.advance(1000);
  const [first, second] = taken;
  first?.retry(0);
  expect(taken).toHaveLength(2);
  await second?.ack();
  first?.working();
  timers.advance(10_000);
  expect(taken).toHaveLength(2);
});

it("has no timer while nobody takes part", () => {
  const { timers, taken, send, leave } = setup();
  send("a");
  leave();
  timers.advance(10_000);
  expect(taken).toHaveLength(1);
});

it("forgets message ids when their window is over", () => {
  const { timers, stream } = setup({ duplicateWindowMs: 1000 });
  const message = { subject: "s.a", payload: new Uint8Array(), headers: new Map<string, string>() };
  const append = (): boolean => stream.append(message, { messageId: "same" }).duplicate;
  expect(append()).toBe(false);
  timers.advance(999);
  expect(append()).toBe(true);
  timers.advance(1);
  expect(append()).toBe(false);
});

it("drops what is older than its age limit", () => {
  const { timers, stream, send } = setup({ maxAgeMs: 1000 });
  send("a");
  timers.advance(500);
  send("b");
  timers.advance(500);
  expect([1, 2].map((sequence) => stream.message(sequence)?.subject)).toEqual([undefined, "s.b"]);
});
