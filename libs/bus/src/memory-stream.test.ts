import { makeFixedClock } from "@muster/testkit";
import { expect, it } from "vitest";
import type { Delivery, StreamConfig } from "./bus.ts";
import { MemoryStream, type Timers } from "./memory-stream.ts";

/** Timers with a clock that the test advances. */
function ownedTimers(): Timers & { advance: (ms: number) => void } {
  const clock = makeFixedClock();
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
  slots: { full: boolean; pump: () => void };
} {
  const timers = ownedTimers();
  const stream = new MemoryStream({ name: "S", subjects: ["s.>"], retention: "limits", ...config }, timers);
  const taken: Delivery[] = [];
  const consuming = { stream: "S", durable: "d", subject: "s.*", maxInFlight: 2, ackWaitMs: 1000 };
  const consumer = stream.consumer(consuming);
  const slots = { full: false, pump: () => consumer.pump() };
  const leave = consumer.join({ hasRoom: () => !slots.full, take: (delivery) => taken.push(delivery) });
  const send = (id: string): void => {
    stream.append({ subject: `s.${id}`, payload: new Uint8Array(), headers: new Map() }, { messageId: id });
  };
  return { timers, stream, taken, send, leave, slots };
}

it("delivers again when the acknowledgement wait is over, and not a moment earlier", () => {
  const { timers, taken, send } = setup();
  send("a");
  timers.advance(999);
  expect(taken).toHaveLength(1);
  timers.advance(1);
  expect(taken.map(({ attempt }) => attempt)).toEqual([1, 2]);
});

it("restarts the wait while the handler reports progress", () => {
  const { timers, taken, send } = setup();
  send("a");
  for (let n = 0; n < 10; n += 1) {
    timers.advance(900);
    taken[0]?.working();
  }
  expect(taken).toHaveLength(1);
});

it("delivers other messages while one waits for its next attempt", async () => {
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

it("delivers neither old nor new messages while no consumer has room", () => {
  const { timers, taken, send, slots } = setup();
  send("a");
  taken[0]?.retry(100);
  slots.full = true;
  send("b");
  timers.advance(10_000);
  expect(taken).toHaveLength(1);
  slots.full = false;
  slots.pump();
  expect(taken.map(({ sequence, attempt }) => [sequence, attempt])).toEqual([
    [1, 1],
    [1, 2],
    [2, 1],
  ]);
});

it("ignores a delivery that has been redelivered to another consumer since", async () => {
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

it("has no timer without consumers", () => {
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

const message = (subject: string, bytes = 0) => ({
  subject,
  payload: new Uint8Array(bytes),
  headers: new Map<string, string>(),
});

it("delivers round robin to the participants with room", () => {
  const stream = new MemoryStream({ name: "S", subjects: ["s.>"], retention: "limits" }, ownedTimers());
  const consumer = stream.consumer({ stream: "S", durable: "d", subject: "s.*", maxInFlight: 2, ackWaitMs: 1000 });
  const taken: string[] = [];
  for (const name of ["a", "b", "c"]) consumer.join({ hasRoom: () => name !== "b", take: () => taken.push(name) });
  for (let n = 0; n < 4; n += 1) stream.append(message(`s.${String(n)}`), { messageId: String(n) });
  expect(taken).toEqual(["a", "c", "a", "c"]);
});

it("arms the timer for the other participants when one leaves", () => {
  const timers = ownedTimers();
  const stream = new MemoryStream({ name: "S", subjects: ["s.>"], retention: "limits" }, timers);
  const consumer = stream.consumer({ stream: "S", durable: "d", subject: "s.*", maxInFlight: 1, ackWaitMs: 1000 });
  const taken: string[] = [];
  const leave = consumer.join({ hasRoom: () => true, take: () => taken.push("one") });
  stream.append(message("s.a"), { messageId: "a" });
  consumer.join({ hasRoom: () => true, take: () => taken.push("other") });
  leave();
  timers.advance(1000);
  expect(taken).toEqual(["one", "other"]);
});

it.each(["interest", "workqueue"] as const)(
  "refuses what is over the limits of a stream of retention %s",
  (retention) => {
    const config = { name: "S", subjects: ["s.>"], retention, maxMessages: 2, maxBytes: 10 } as StreamConfig;
    const stream = new MemoryStream(config, ownedTimers());
    stream.append(message("s.a", 6), { messageId: "a" });
    expect(() => stream.append(message("s.b", 5), { messageId: "b" })).toThrow(
      expect.objectContaining({
        fault: { code: "limit_exceeded", what: "stream S", limit: 0, retryAfterMs: 500 },
      }) as Error,
    );
    stream.append(message("s.b", 4), { messageId: "b" });
    expect(() => stream.append(message("s.c", 0), { messageId: "c" })).toThrow();
    expect(stream.state()).toEqual({ messages: 2, bytes: 10, firstSequence: 1, lastSequence: 2 });
  },
);

it("drops the oldest messages over the limits", () => {
  const config = { name: "S", subjects: ["s.>"], retention: "limits", maxMessages: 3, maxBytes: 10 } as StreamConfig;
  const stream = new MemoryStream(config, ownedTimers());
  for (const [id, bytes] of [
    ["a", 6],
    ["b", 4],
    ["c", 1],
  ] as const)
    stream.append(message(`s.${id}`, bytes), { messageId: id });
  expect(stream.state()).toEqual({ messages: 2, bytes: 5, firstSequence: 2, lastSequence: 3 });
  for (const id of ["d", "e"]) stream.append(message(`s.${id}`), { messageId: id });
  expect(stream.state()).toEqual({ messages: 3, bytes: 1, firstSequence: 3, lastSequence: 5 });
});

it("keeps one message a subject in a work queue, until it ends", async () => {
  const { stream, taken } = setup({ retention: "workqueue" });
  expect(stream.append(message("s.a"), { messageId: "1" })).toEqual({ sequence: 1, duplicate: false });
  expect(stream.append(message("s.a"), { messageId: "2" })).toEqual({ sequence: 1, duplicate: true });
  expect(stream.append(message("s.b"), { messageId: "3" })).toEqual({ sequence: 2, duplicate: false });
  await taken[0]?.ack();
  expect(stream.state().messages).toBe(1);
  expect(stream.append(message("s.a"), { messageId: "4" })).toEqual({ sequence: 3, duplicate: false });
});

it("removes an ended message from a work queue only", async () => {
  const queue = setup({ retention: "workqueue" });
  queue.send("a");
  queue.taken[0]?.giveUp("why");
  expect(queue.stream.state().messages).toBe(0);
  queue.timers.advance(10_000);
  expect(queue.taken).toHaveLength(1);
  const facts = setup();
  facts.send("a");
  await facts.taken[0]?.ack();
  expect(facts.stream.state().messages).toBe(1);
});

it("finds, removes and expires messages", () => {
  const { timers, stream, send } = setup({ maxAgeMs: 1000 });
  for (const id of ["a", "b", "c"]) send(id);
  expect(stream.next("s.*", 2)?.subject).toBe("s.b");
  expect(stream.next("s.a", 2)).toBeUndefined();
  expect(stream.remove(2)).toBe(true);
  expect(stream.remove(2)).toBe(false);
  expect(stream.next("s.*", 2)?.subject).toBe("s.c");
  timers.advance(1000);
  expect(stream.next("s.*", 1)).toBeUndefined();
  expect(stream.remove(1)).toBe(false);
  expect(stream.state()).toEqual({ messages: 0, bytes: 0, firstSequence: 4, lastSequence: 3 });
});

it.each<[string, () => unknown]>([
  ["its state", () => fresh().state().messages],
  ["a removal", () => (fresh().remove(1) ? 1 : 0)],
  ["a search", () => (fresh().next("s.*", 1) === undefined ? 0 : 1)],
  ["a message", () => (fresh().message(1) === undefined ? 0 : 1)],
])("drops expired messages before %s", (_title, count) => {
  expect(count()).toBe(0);
});

/** Creates a stream whose only message has expired. */
function fresh(): MemoryStream {
  const { timers, stream, send, leave } = setup({ maxAgeMs: 1000 });
  // A consumer that redelivers also drops the expired message.
  leave();
  send("a");
  timers.advance(1000);
  return stream;
}

it("binds the subjects of its patterns", () => {
  const { stream } = setup({ subjects: ["s.>", "t.*"] });
  expect(["s.a.b", "t.a", "t.a.b", "u"].map((subject) => stream.binds(subject))).toEqual([true, true, false, false]);
});
