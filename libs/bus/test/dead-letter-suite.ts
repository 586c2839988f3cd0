import { muster } from "@muster/proto";
import { until } from "@muster/testkit";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { EventOptions } from "../src/events.ts";
import { consumeEvents, openDeadLetters, publishEvent, type Bus } from "../src/index.ts";
import { catchFault, type TestWorld } from "./call-suite.ts";

const Granted = muster.reservation.v1.ReservationGranted;
const granted = { reservation: { id: "r-1" } };

/** Tests the promises of dead letters on one kind of bus. */
export function describeDeadLetterSuite(kind: string, openWorld: () => Promise<TestWorld>): void {
  describe(`dead letters on ${kind}`, () => {
    let world: TestWorld;
    let bus: Bus;
    let other: Bus;
    let count = 0;
    let options: EventOptions;
    let subject: string;
    beforeAll(async () => {
      world = await openWorld();
      bus = await world.connect("one");
      other = await world.connect("two");
    });
    afterAll(async () => {
      await world[Symbol.asyncDispose]();
    });

    /** Creates a separate stream and area for each test. */
    beforeEach(async () => {
      count += 1;
      const stream = `DEADLY_${count}`;
      await bus.ensureStream({ name: stream, subjects: [`deadly.${count}.>`], retention: "limits" });
      const consuming = { durable: "worker", subject: `deadly.${count}.*`, maxInFlight: 16, ackWaitMs: 20_000 };
      options = { stream, area: `area-${count}`, ...consuming };
      subject = `deadly.${count}.a`;
    });

    /** Consumes every message, and by default dead-letters its first delivery. */
    const consume = async (seen: { giveUp: boolean; deliveries: number }): Promise<AsyncDisposable> =>
      consumeEvents(bus, options, Granted, (_event, { giveUp }) => {
        seen.deliveries += 1;
        if (seen.giveUp) giveUp("no such pool");
        return Promise.resolve();
      });

    const letters = () => openDeadLetters(other).list({ area: options.area });

    const oneLetter = async (): Promise<number> => {
      await publishEvent(bus, subject, Granted, granted, { messageId: "first" });
      const [letter] = await until("there is a letter", async () => {
        const found = await letters();
        return found.length > 0 && found;
      });
      return letter?.id ?? 0;
    };

    it("has the message and its subject, the reason, the consumer, the number of deliveries, and the time", async () => {
      await using _consumer = await consume({ giveUp: true, deliveries: 0 });
      const startMs = Date.now();
      const id = await oneLetter();
      const letter = await openDeadLetters(other).show(id);
      expect(letter).toMatchObject({
        id,
        area: options.area,
        reason: "no such pool",
        subject,
        type: "muster.reservation.v1.ReservationGranted",
        stream: options.stream,
        consumer: "worker",
        deliveries: 1,
        lostBytes: undefined,
      });
      expect(Granted.toObject(Granted.decode(letter.payload))).toEqual(granted);
      expect(letter.atMs).toBeGreaterThanOrEqual(startMs - 1000);
      expect([...letter.headers.keys()].filter((name) => name.startsWith("Muster-Dead"))).toEqual([]);
    });

    it("lists one area, or all, oldest first, page by page", async () => {
      await using _consumer = await consume({ giveUp: true, deliveries: 0 });
      for (let n = 1; n <= 5; n += 1) await publishEvent(bus, subject, Granted, granted, { messageId: String(n) });
      const all = await until("there are five", async () => {
        const found = await letters();
        return found.length === 5 && found;
      });
      const ids = all.map(({ id }) => id);
      expect(ids).toEqual([...ids].sort((a, b) => a - b));
      const { area } = options;
      const first = await openDeadLetters(bus).list({ area, limit: 2 });
      const second = await openDeadLetters(bus).list({ area, limit: 3, after: first.at(-1)?.id ?? 0 });
      expect([...first, ...second].map(({ id }) => id)).toEqual(ids);
      const everywhere = (await openDeadLetters(bus).list({ limit: 1000 })).map(({ id }) => id);
      expect(everywhere.filter((id) => ids.includes(id))).toEqual(ids);
    });

    it("replays a letter to its original subject, once, and removes it", async () => {
      const seen = { giveUp: true, deliveries: 0 };
      await using _consumer = await consume(seen);
      const id = await oneLetter();
      seen.giveUp = false;
      expect(await openDeadLetters(other).replay(id)).toMatchObject({ duplicate: false });
      await until("it is handled", () => seen.deliveries === 2);
      expect(await letters()).toEqual([]);
      expect(await catchFault(openDeadLetters(bus).replay(id))).toMatchObject({ code: "not_found" });
      expect((await bus.streamState(options.stream))?.messages).toBe(2);
    });

    it("replays it once for two concurrent callers, and after a lost answer", async () => {
      const seen = { giveUp: true, deliveries: 0 };
      await using _consumer = await consume(seen);
      const id = await oneLetter();
      seen.giveUp = false;
      // The removal of the letter fails, as if the process had crashed before it.
      const dying: Bus = { ...bus, removeMessage: () => Promise.reject(new Error("died here")) };
      await expect(openDeadLetters(dying).replay(id)).rejects.toThrow("died here");
      const again = await Promise.allSettled([openDeadLetters(bus).replay(id), openDeadLetters(other).replay(id)]);
      expect(again.filter(({ status }) => status === "fulfilled").length).toBeGreaterThan(0);
      for (const one of again)
        if (one.status === "fulfilled") expect(one.value.duplicate).toBe(true);
        else expect(one.reason).toMatchObject({ fault: { code: "not_found" } });
      expect((await bus.streamState(options.stream))?.messages).toBe(2);
      expect(await letters()).toEqual([]);
    });

    it("creates a new letter for a message that fails again, without accumulating headers", async () => {
      await using _consumer = await consume({ giveUp: true, deliveries: 0 });
      const id = await oneLetter();
      const before = await openDeadLetters(bus).show(id);
      await openDeadLetters(bus).replay(id);
      const [second] = await until("it has died again", async () => {
        const found = await letters();
        return found.length === 1 && found[0]?.id !== id && found;
      });
      expect(second).toMatchObject({ subject, reason: "no such pool", deliveries: 1 });
      expect([...(second?.headers.keys() ?? [])]).toEqual([...before.headers.keys()]);
      await openDeadLetters(bus).replay(second?.id ?? 0);
      expect((await bus.streamState(options.stream))?.messages).toBe(3);
    });

    it("keeps a letter whose subject no stream binds", async () => {
      await using _consumer = await consume({ giveUp: true, deliveries: 0 });
      const id = await oneLetter();
      await bus.ensureStream({ name: options.stream, subjects: [`deadly.${count}.moved`], retention: "limits" });
      expect(await catchFault(openDeadLetters(bus).replay(id))).toMatchObject({ code: "unavailable" });
      expect(await letters()).toHaveLength(1);
    });

    it("deletes a dead letter, and returns whether it existed", async () => {
      await using _consumer = await consume({ giveUp: true, deliveries: 0 });
      const id = await oneLetter();
      expect(await openDeadLetters(bus).drop(id)).toBe(true);
      expect(await openDeadLetters(bus).drop(id)).toBe(false);
      expect(await letters()).toEqual([]);
      expect(await catchFault(openDeadLetters(bus).show(id))).toMatchObject({ code: "not_found", kind: "dead letter" });
    });

    it.each([0, -1, 1.5, Number.NaN, 1_000_000])("finds no letter %d", async (id) => {
      expect(await catchFault(openDeadLetters(bus).show(id))).toMatchObject({ code: "not_found" });
      expect(await openDeadLetters(bus).drop(id)).toBe(false);
    });

    it("dead-letters a message after its maximum attempts, with the last error as the reason", async () => {
      const attempts: number[] = [];
      await using _consumer = await consumeEvents(
        bus,
        { ...options, maxAttempts: 2 },
        Granted,
        (_event, { attempt }) => {
          attempts.push(attempt);
          return Promise.reject(new Error(`on purpose ${attempt}`));
        },
      );
      const id = await oneLetter();
      expect(attempts).toEqual([1, 2]);
      expect(await openDeadLetters(bus).show(id)).toMatchObject({
        deliveries: 2,
        reason: "failed 2 times, at last because on purpose 2",
      });
    });

    it("keeps the reason of a message that leaves no room for it, and states the lost size", async () => {
      const payload = Granted.encode({ reservation: { id: "x".repeat(1_048_450) } }).finish();
      await bus.publish(subject, payload, { messageId: "large", headers: new Map([["Own", "y"]]) });
      await using _consumer = await consume({ giveUp: true, deliveries: 0 });
      const [letter] = await until("there is a letter", async () => {
        const found = await letters();
        return found.length === 1 && found;
      });
      expect(letter).toMatchObject({ subject, reason: "no such pool", lostBytes: payload.length });
      expect(await catchFault(openDeadLetters(bus).replay(letter?.id ?? 0))).toMatchObject({ code: "invalid_request" });
      expect(await letters()).toHaveLength(1);
    });

    it("reports the number of dead letters and its limit", async () => {
      const { letters: number, maxBytes, maxAgeMs } = await openDeadLetters(bus).summary();
      expect(number).toBe((await openDeadLetters(bus).list({ limit: 1000 })).length);
      expect({ maxBytes, maxAgeMs }).toEqual({ maxBytes: 67_108_864, maxAgeMs: 2_592_000_000 });
    });

    it("is an empty list if no message was ever dead-lettered", async () => {
      await using fresh = await openWorld();
      const empty = openDeadLetters(await fresh.connect("fresh"));
      expect(await empty.list()).toEqual([]);
      expect(await empty.summary()).toMatchObject({ letters: 0, bytes: 0 });
      expect(await empty.drop(1)).toBe(false);
    });
  });
}
