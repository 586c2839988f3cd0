import { randomUUID } from "node:crypto";
import { muster, subjects, streams } from "@muster/proto";
import { until } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { ConsumeOptions, FailedDelivery, StreamConfig } from "../src/bus.ts";
import { consumeEvents, publishEvent, type Bus, type Delivery } from "../src/index.ts";
import { catchFault, type TestWorld } from "./call-suite.ts";

const Granted = muster.reservation.v1.ReservationGranted;
const nothing = new Uint8Array();

/** Tests the promises of streams and durable consumers on one kind of bus. */
export function describeEventSuite(kind: string, openWorld: () => Promise<TestWorld>): void {
  describe(`streams and consumers on ${kind}`, () => {
    let world: TestWorld;
    let bus: Bus;
    let other: Bus;
    let count = 0;
    beforeAll(async () => {
      world = await openWorld();
      bus = await world.connect("one");
      other = await world.connect("two");
      await bus.ensureStream(streams.dead);
    });
    afterAll(async () => {
      await world[Symbol.asyncDispose]();
    });

    /** Creates a separate stream for one test. */
    const stream = async (config: Partial<StreamConfig> = {}): Promise<Fixture> => {
      count += 1;
      const name = `TEST_${count}`;
      await bus.ensureStream({ name, subjects: [`test.${count}.>`], retention: "limits", ...config });
      const subject = `test.${count}.*`;
      const consuming = { stream: name, durable: "worker", subject, maxInFlight: 16, ackWaitMs: 20_000 };
      return { name, subject: (key: string) => `test.${String(count)}.${key}`, consuming };
    };

    it("creates the same stream from concurrent callers", async () => {
      const config = { name: "SAME", subjects: ["test.same"], retention: "workqueue" } as const;
      await Promise.all(Array.from({ length: 8 }, (_, index) => (index % 2 ? bus : other).ensureStream(config)));
      expect(await other.publish("test.same", nothing, { messageId: "1" })).toEqual({ sequence: 1, duplicate: false });
    });

    it("updates an existing stream to a changed configuration", async () => {
      const { name, subject } = await stream();
      await bus.ensureStream({ name, subjects: [subject(">"), "test.more"], retention: "limits", maxMessages: 2 });
      await bus.publish("test.more", nothing, { messageId: "1" });
      expect(await bus.publish(subject("a"), nothing, { messageId: "2" })).toEqual({ sequence: 2, duplicate: false });
    });

    it("drops a repeated message id and reports that", async () => {
      const { subject } = await stream();
      expect(await bus.publish(subject("a"), nothing, { messageId: "x" })).toEqual({ sequence: 1, duplicate: false });
      expect(await other.publish(subject("a"), nothing, { messageId: "x" })).toEqual({ sequence: 1, duplicate: true });
      expect(await bus.publish(subject("a"), nothing, { messageId: "y" })).toEqual({ sequence: 2, duplicate: false });
    });

    it("keeps the newest messages of a stream with a limit", async () => {
      const { subject, consuming } = await stream({ maxMessages: 3 });
      for (let n = 1; n <= 5; n += 1) await bus.publish(subject("a"), nothing, { messageId: String(n) });
      const seen = collect();
      await using _consumer = await bus.consume(consuming, seen.handler);
      await until("three messages", () => seen.sequences.length === 3);
      expect(seen.sequences).toEqual([3, 4, 5]);
    });

    it("keeps the newest message of each subject in a stream with one message per subject", async () => {
      const { name, subject } = await stream({ maxMessagesPerSubject: 1 });
      for (const key of ["a", "b", "a"]) await bus.publish(subject(key), nothing, { messageId: randomUUID() });
      const first = await bus.readMessage(name, subject("*"), 1);
      const second = await bus.readMessage(name, subject("*"), (first?.sequence ?? 0) + 1);
      expect([first, second]).toMatchObject([
        { sequence: 2, subject: subject("b") },
        { sequence: 3, subject: subject("a") },
      ]);
      expect(await bus.streamState(name)).toMatchObject({ messages: 2, firstSequence: 2, lastSequence: 3 });
    });

    it("reports the first and last sequence of its messages", async () => {
      const { name, subject } = await stream({ maxMessages: 3 });
      expect(await bus.streamState(name)).toMatchObject({ messages: 0, firstSequence: 1, lastSequence: 0 });
      for (let n = 1; n <= 5; n += 1) await bus.publish(subject("a"), nothing, { messageId: String(n) });
      expect(await bus.streamState(name)).toMatchObject({ messages: 3, firstSequence: 3, lastSequence: 5 });
      expect(await bus.streamState("MISSING")).toBeUndefined();
    });

    it("holds one command per subject: a repeated command is reported as a duplicate while it is queued", async () => {
      const { subject, consuming } = await stream({ retention: "workqueue" });
      expect(await bus.publish(subject("a"), nothing, { messageId: "1" })).toEqual({ sequence: 1, duplicate: false });
      expect(await bus.publish(subject("a"), nothing, { messageId: "2" })).toEqual({ sequence: 1, duplicate: true });
      expect((await bus.publish(subject("b"), nothing, { messageId: "3" })).duplicate).toBe(false);
      const seen = collect();
      await using _consumer = await bus.consume(consuming, seen.handler);
      await until("both are done", () => seen.acknowledged === 2);
      expect((await bus.publish(subject("a"), nothing, { messageId: "4" })).duplicate).toBe(false);
    });

    it("passes typed events to the handler and acknowledges them after it", async () => {
      const { subject, consuming } = await stream();
      const message = { reservation: { id: "r-1", needs: [{ component: "driver", pool: "a" }] } };
      await publishEvent(bus, subject("a"), Granted, message, { messageId: "1" });
      const seen: unknown[] = [];
      const options = { ...consuming, area: "test" };
      const consumer = await consumeEvents(other, options, Granted, (event, { sequence, attempt }) => {
        seen.push([Granted.toObject(event), sequence, attempt]);
        return Promise.resolve();
      });
      await until("it is there", () => seen.length === 1);
      expect(seen).toEqual([[message, 1, 1]]);
      await consumer[Symbol.asyncDispose]();
      await expectNothingLeft(bus, consuming, subject("end"));
    });

    it("continues where the durable consumer stopped", async () => {
      const { subject, consuming } = await stream();
      const first = collect();
      const consumer = await bus.consume(consuming, first.handler);
      await bus.publish(subject("a"), nothing, { messageId: "1" });
      await until("the first is done", () => first.acknowledged === 1);
      await consumer[Symbol.asyncDispose]();
      await bus.publish(subject("a"), nothing, { messageId: "2" });
      const second = collect();
      await using _consumer = await other.consume(consuming, second.handler);
      await until("the second is there", () => second.sequences.length === 1);
      expect(second.sequences).toEqual([2]);
    });

    it("redelivers a message when its handler throws, and reports why", async () => {
      const { subject, consuming } = await stream();
      const failures: FailedDelivery[] = [];
      const attempts: number[] = [];
      const options = { ...consuming, area: "test", onRetry: (failure: FailedDelivery) => failures.push(failure) };
      await using _consumer = await consumeEvents(bus, options, Granted, (_event, { attempt }) => {
        attempts.push(attempt);
        return attempt === 1 ? Promise.reject(new Error("on purpose")) : Promise.resolve();
      });
      await publishEvent(other, subject("a"), Granted, {}, { messageId: "1" });
      await until("it has come again", () => attempts.length === 2);
      expect(attempts).toEqual([1, 2]);
      expect(failures).toMatchObject([{ subject: subject("a"), attempt: 1, delayMs: 1000 }]);
      expect(String(failures[0]?.error)).toContain("on purpose");
    });

    it("redelivers a message after the delay that the handler requests", async () => {
      const { subject, consuming } = await stream();
      const attempts: number[] = [];
      await using _consumer = await bus.consume(consuming, (delivery) => {
        attempts.push(delivery.attempt);
        if (delivery.attempt < 3) delivery.retry(10);
        return delivery.attempt < 3 ? Promise.resolve() : delivery.ack();
      });
      await bus.publish(subject("a"), nothing, { messageId: "1" });
      await until("the third attempt", () => attempts.length === 3);
      expect(attempts).toEqual([1, 2, 3]);
    });

    it("dead-letters an undecodable message with the reason, and continues", async () => {
      const { subject, consuming, name } = await stream();
      const area = name.toLowerCase();
      const dead = collect();
      await using _dead = await bus.consume(deadOf(area), dead.handler);
      const seen: string[] = [];
      await using _consumer = await consumeEvents(bus, { ...consuming, area }, Granted, (event) => {
        seen.push(event.reservation?.id ?? "");
        return Promise.resolve();
      });
      const garbage = new Uint8Array([0x0a, 0xff]);
      await other.publish(subject("a"), garbage, { messageId: "1" });
      await publishEvent(other, subject("b"), Granted, { reservation: { id: "good" } }, { messageId: "2" });
      await until("the dead letter", () => dead.acknowledged === 1);
      await until("the good one", () => seen.length === 1);
      const [letter] = dead.deliveries;
      expect([...(letter?.payload ?? [])]).toEqual([...garbage]);
      expect(letter?.headers.get("Muster-Dead-Reason")).toBe(
        "payload is not a muster.reservation.v1.ReservationGranted",
      );
      expect(letter?.headers.get("Muster-Dead-Subject")).toBe(subject("a"));
      await _consumer[Symbol.asyncDispose]();
      await expectNothingLeft(bus, consuming, subject("end"));
    });

    it("dead-letters a message that a handler gives up", async () => {
      const { subject, consuming, name } = await stream({ retention: "workqueue" });
      const area = name.toLowerCase();
      const dead = collect();
      await using _dead = await bus.consume(deadOf(area), dead.handler);
      const options = { ...consuming, area };
      await using _consumer = await consumeEvents(bus, options, Granted, (_event, { subject: where, giveUp }) => {
        if (where === subject("b")) giveUp("it holds a secret", "reason");
        else giveUp("no such pool");
        return Promise.resolve();
      });
      await publishEvent(other, subject("a"), Granted, {}, { messageId: "1" });
      await until("the dead letter", () => dead.acknowledged === 1);
      expect(dead.deliveries[0]?.headers.get("Muster-Dead-Reason")).toBe("no such pool");
      const grant = { reservation: { id: "secret" } };
      await publishEvent(other, subject("b"), Granted, grant, { messageId: "2" });
      await until("the second dead letter", () => dead.acknowledged === 2);
      const { headers, payload } = dead.deliveries[1] ?? {};
      expect(headers?.get("Muster-Dead-Reason")).toBe("it holds a secret");
      expect(headers?.get("Muster-Dead-Lost-Bytes")).toBe(String(Granted.encode(grant).finish().length));
      expect(payload).toHaveLength(0);
      await until("the queue is empty", async () => {
        const published = await bus.publish(subject("a"), nothing, { messageId: crypto.randomUUID() });
        return !published.duplicate;
      });
    });

    it("redelivers a message that is neither acknowledged nor kept alive to another replica", async () => {
      const { subject, consuming } = await stream();
      const options = { ...consuming, ackWaitMs: 2000 };
      const silent = collect(() => Promise.resolve());
      const busy = await bus.consume(options, silent.handler);
      await bus.publish(subject("a"), nothing, { messageId: "1" });
      await until("one has it", () => silent.sequences.length > 0);
      await busy[Symbol.asyncDispose]();
      const second = collect();
      await using _consumer = await other.consume(options, second.handler);
      await until("the other has it", () => second.acknowledged === 1);
      expect(second.deliveries[0]?.attempt).toBe(silent.sequences.length + 1);
    });

    it("keeps a message with the handler that reports progress", async () => {
      const { subject, consuming } = await stream();
      const options = { ...consuming, ackWaitMs: 5000 };
      let deliveries = 0;
      let pulses = 0;
      await using _consumer = await bus.consume(options, async (delivery) => {
        deliveries += 1;
        await until(
          "twice the wait has passed",
          () => {
            delivery.working();
            pulses += 1;
            return pulses > 100;
          },
          { everyMs: 100 },
        );
        await delivery.ack();
      });
      await bus.publish(subject("a"), nothing, { messageId: "1" });
      await until("it is done", () => pulses > 100);
      expect(deliveries).toBe(1);
    });

    it("fills its limit of messages in flight in each replica, and never exceeds it", async () => {
      const { subject, consuming } = await stream();
      const options = { ...consuming, maxInFlight: 3 };
      let most = 0;
      let done = 0;
      const hands = [bus, other].map((replica) => ({ replica, held: [] as (() => void)[] }));
      const consumers: AsyncDisposable[] = [];
      for (const { replica, held } of hands)
        consumers.push(
          await replica.consume(options, async (delivery) => {
            await new Promise<void>((resolve) => {
              held.push(resolve);
              most = Math.max(most, held.length);
            });
            await delivery.ack();
            done += 1;
          }),
        );
      for (let n = 0; n < 12; n += 1) await bus.publish(subject("a"), nothing, { messageId: String(n) });
      for (let step = 0; step < 7; step += 1) {
        await until("all places are taken", () => hands.every(({ held }) => held.length === 3));
        hands[step % 2]?.held.shift()?.();
        await until("it is done", () => done === step + 1);
      }
      await until("the last are done", () => {
        for (const { held } of hands) held.shift()?.();
        return done === 12;
      });
      expect(most).toBe(3);
      for (const consumer of consumers) await consumer[Symbol.asyncDispose]();
    });

    it("delivers other messages while more messages than its limit wait for their next attempt", async () => {
      const { subject, consuming } = await stream();
      const poisoned = new Set<number>();
      const options = { ...consuming, maxInFlight: 4 };
      const good: string[] = [];
      await using _consumer = await bus.consume(options, async (delivery) => {
        if (delivery.subject.endsWith(".bad")) {
          poisoned.add(delivery.sequence);
          delivery.retry(3_600_000);
          return;
        }
        good.push(delivery.subject);
        await delivery.ack();
      });
      for (let n = 0; n < 20; n += 1) await other.publish(subject("bad"), nothing, { messageId: `bad-${n}` });
      for (let n = 0; n < 20; n += 1) await other.publish(subject("good"), nothing, { messageId: `good-${n}` });
      await until("all good ones are done", () => good.length === 20);
      expect(poisoned.size).toBe(20);
    });

    it("waits longer before each attempt, also when another process makes it", async () => {
      const { subject, consuming } = await stream();
      const failures: FailedDelivery[] = [];
      const options = { ...consuming, onRetry: (failure: FailedDelivery) => failures.push(failure) };
      const failing = (): Promise<void> => Promise.reject(new Error("on purpose"));
      await bus.publish(subject("a"), nothing, { messageId: "1" });
      for (const [attempt, replica] of [bus, other, bus].entries()) {
        await using _consumer = await replica.consume(options, failing);
        await until("it has failed once more", () => failures.length === attempt + 1);
      }
      expect(failures.map(({ attempt, delayMs }) => [attempt, delayMs])).toEqual([
        [1, 1000],
        [2, 2000],
        [3, 4000],
      ]);
    });

    it("finishes messages in flight when it stops; the next consumer gets the rest", async () => {
      const { subject, consuming } = await stream();
      const options = { ...consuming, maxInFlight: 1 };
      const held = Promise.withResolvers<undefined>();
      const first = collect(async (delivery) => {
        await held.promise;
        await delivery.ack();
      });
      const consumer = await bus.consume(options, first.handler);
      await bus.publish(subject("a"), nothing, { messageId: "1" });
      await bus.publish(subject("a"), nothing, { messageId: "2" });
      await until("the first is in flight", () => first.sequences.length === 1);
      const stopped = consumer[Symbol.asyncDispose]();
      held.resolve(undefined);
      await stopped;
      expect(first.sequences).toEqual([1]);
      const second = collect();
      await using _consumer = await other.consume(options, second.handler);
      await until("the second is done", () => second.acknowledged === 1);
      expect(second.sequences).toEqual([2]);
      expect(second.deliveries[0]?.attempt).toBe(1);
    });

    it("accepts no more messages once its signal is aborted", async () => {
      const { subject, consuming } = await stream();
      const stop = new AbortController();
      const seen = collect();
      await using _consumer = await bus.consume({ ...consuming, signal: stop.signal }, seen.handler);
      await bus.publish(subject("a"), nothing, { messageId: "1" });
      await until("the first is done", () => seen.acknowledged === 1);
      stop.abort();
      await expectNothingLeft(other, consuming, subject("b"));
      expect(seen.sequences).toEqual([1]);
    });

    it("rejects with not_found for a stream that does not exist", async () => {
      const options = { stream: "NONE", durable: "d", subject: ">", maxInFlight: 1, ackWaitMs: 1000 };
      expect(await catchFault(bus.consume(options, () => Promise.resolve()))).toMatchObject({
        code: "not_found",
        kind: "stream",
      });
    });

    it("refuses a stream whose subjects belong to another", async () => {
      const { subject } = await stream();
      const overlapping = { name: "OVERLAP", subjects: [subject("a")], retention: "limits" } as const;
      expect(await catchFault(bus.ensureStream(overlapping))).toMatchObject({ code: "invalid_request" });
    });

    it("refuses an event that is too large, and names the limit", async () => {
      const { subject } = await stream();
      const fault = await catchFault(bus.publish(subject("a"), new Uint8Array(1_100_000), { messageId: "1" }));
      expect(fault).toMatchObject({ code: "limit_exceeded", limit: 1_048_576, retryAfterMs: 0 });
    });
  });
}

type Fixture = {
  readonly name: string;
  readonly subject: (key: string) => string;
  readonly consuming: ConsumeOptions;
};

type Collected = {
  readonly deliveries: Delivery[];
  readonly sequences: number[];
  acknowledged: number;
  readonly handler: (delivery: Delivery) => Promise<void>;
};

/** Keeps the deliveries; acknowledges them by default. */
function collect(then: (delivery: Delivery) => Promise<void> = (delivery) => delivery.ack()): Collected {
  const collected: Collected = {
    deliveries: [],
    sequences: [],
    acknowledged: 0,
    handler: async (delivery) => {
      collected.deliveries.push(delivery);
      collected.sequences.push(delivery.sequence);
      await then(delivery);
      collected.acknowledged += 1;
    },
  };
  return collected;
}

function deadOf(area: string): ConsumeOptions {
  const subject = subjects.dead(area);
  return { stream: streams.dead.name, durable: `dead-${area}`, subject, maxInFlight: 8, ackWaitMs: 20_000 };
}

/** Asserts that the next delivery is a new message, so all earlier messages have ended. */
async function expectNothingLeft(bus: Bus, consuming: ConsumeOptions, subject: string): Promise<void> {
  const { sequence } = await bus.publish(subject, nothing, { messageId: crypto.randomUUID() });
  const rest = collect();
  await using _consumer = await bus.consume(consuming, rest.handler);
  await until("the last message", () => rest.acknowledged === 1);
  expect(rest.sequences).toEqual([sequence]);
}
