import fc from "fast-check";
import { expect, it } from "vitest";
import { makeWaitingOrders, makeDeferredMessages } from "./waiting-orders.ts";

const job = (id: string, user = "a") => ({ order: { id, user } });

it("puts an order behind earlier ones of its user, and of no other user", () => {
  const waiting = makeWaitingOrders(10);
  expect(waiting.isBehind(job("1"))).toBe(false);
  expect([waiting.put(job("1")), waiting.put(job("2")), waiting.put(job("3", "b"))]).toEqual([true, true, true]);
  expect(["1", "2", "4"].map((id) => waiting.isBehind(job(id)))).toEqual([false, true, true]);
  expect(["3", "4"].map((id) => waiting.isBehind(job(id, "b")))).toEqual([false, true]);
  waiting.drop("1");
  expect(waiting.isBehind(job("2"))).toBe(false);
});

it("keeps the place of an order that is listed again, and its later version", () => {
  const waiting = makeWaitingOrders(10);
  const [before, after] = [job("1"), job("1")];
  waiting.put(before);
  waiting.put(job("2"));
  expect(waiting.put(after)).toBe(false);
  expect([waiting.isCurrent(before), waiting.isCurrent(after), waiting.isBehind(after)]).toEqual([false, true, false]);
  expect(waiting.ids()).toEqual(["1", "2"]);
});

it("has room up to the maximum, and for orders that already wait", () => {
  const waiting = makeWaitingOrders(1);
  waiting.put(job("1"));
  expect(["1", "2"].map((id) => waiting.hasRoom(id))).toEqual([true, false]);
});

it("returns the orders of each user in the order of their arrival", () => {
  const step = fc.record({ id: fc.constantFrom("1", "2", "3", "4", "5"), isPut: fc.boolean() });
  fc.assert(
    fc.property(fc.array(step), (steps) => {
      const waiting = makeWaitingOrders(10);
      let expected: string[] = [];
      for (const { id, isPut } of steps) {
        if (!isPut) expected = expected.filter((each) => each !== id);
        else if (!expected.includes(id)) expected.push(id);
        if (isPut) waiting.put(job(id, Number(id) % 2 === 0 ? "even" : "odd"));
        else waiting.drop(id);
      }
      const queues = waiting.byUser().map((jobs) => jobs.map(({ order }) => order.id));
      for (const parity of [0, 1]) {
        const own = expected.filter((id) => Number(id) % 2 === parity);
        if (own.length > 0) expect(queues).toContainEqual(own);
      }
      expect(queues.flat().toSorted()).toEqual(expected.toSorted());
    }),
  );
});

const message = (sequence: number, user = "a") => ({ sequence, user });

it("defers later messages of the same user, and of no other", () => {
  const later = makeDeferredMessages({ maxMessages: 10, forMs: 20 });
  expect(later.isBehind(message(7), 0)).toBe(false);
  expect([later.defer(message(7), 0), later.defer(message(7), 10)]).toEqual(["deferred", "still-deferred"]);
  expect([6, 7, 8].map((sequence) => later.isBehind(message(sequence), 10))).toEqual([false, false, true]);
  expect(later.isBehind(message(8, "b"), 10)).toBe(false);
  later.done(7);
  expect(later.isBehind(message(8), 10)).toBe(false);
});

it("forgets a message that is not redelivered", () => {
  const later = makeDeferredMessages({ maxMessages: 1, forMs: 20 });
  later.defer(message(7), 0);
  expect([later.isBehind(message(8), 20), later.defer(message(8), 20)]).toEqual([true, "refused"]);
  expect([later.isBehind(message(8), 21), later.defer(message(8), 21)]).toEqual([false, "deferred"]);
});
