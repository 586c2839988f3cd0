import fc from "fast-check";
import { expect, it } from "vitest";
import { ExpiryHeap } from "./expiry-heap.ts";

/** A slow model of the heap: takes the expired ids, the earliest first. */
function takeOver(times: Map<string, bigint>, nowNs: bigint): bigint[] {
  const over = [...times].filter(([, atNs]) => nowNs > atNs);
  for (const [id] of over) times.delete(id);
  return over.map(([, atNs]) => atNs).toSorted((a, b) => (a < b ? -1 : a > b ? 1 : 0));
}

it("holds the same as a sorted list of the ids and times", () => {
  const id = fc.nat({ max: 30 }).map(String);
  const ns = fc.bigInt({ min: 0n, max: 20n });
  const change = fc.oneof(
    fc.record({ kind: fc.constant("set" as const), id, ns }),
    fc.record({ kind: fc.constant("delete" as const), id, ns }),
    fc.record({ kind: fc.constant("take" as const), id, ns }),
  );
  fc.assert(
    fc.property(fc.array(change, { maxLength: 200, size: "max" }), (changes) => {
      const heap = new ExpiryHeap();
      const times = new Map<string, bigint>();
      for (const each of changes) {
        if (each.kind === "set") {
          heap.set(each.id, each.ns);
          times.set(each.id, each.ns);
        } else if (each.kind === "delete") {
          heap.delete(each.id);
          times.delete(each.id);
        } else {
          const before = new Map(times);
          const taken = heap.takeExpired(each.ns);
          expect(taken.map((taking) => before.get(taking))).toEqual(takeOver(times, each.ns));
          expect(new Set(taken).size).toBe(taken.length);
        }
        expect(heap.size).toBe(times.size);
        expect(heap.next).toBe(
          [...times.values()].reduce<bigint | undefined>((a, b) => (a === undefined || b < a ? b : a), undefined),
        );
      }
    }),
  );
});

it("returns 100000 leases in the order of their times", () => {
  const heap = new ExpiryHeap();
  const count = 100_000;
  // 7919 is a prime that does not divide the count, so that each time occurs once.
  for (let at = 0; at < count; at++) heap.set(String(at), BigInt((at * 7919) % count));
  for (let at = 0; at < count; at += 2) heap.set(String(at), BigInt(count + at));
  const taken = heap.takeExpired(BigInt(3 * count));
  const timeOf = (id: string): number => (Number(id) % 2 === 0 ? count + Number(id) : (Number(id) * 7919) % count);
  const times = taken.map(timeOf);
  expect(taken).toHaveLength(count);
  expect(times).toEqual(times.toSorted((a, b) => a - b));
  expect(heap.next).toBeUndefined();
});

it("removes only times that are strictly over", () => {
  const heap = new ExpiryHeap();
  heap.set("a", 5n);
  expect(heap.takeExpired(5n)).toEqual([]);
  expect(heap.takeExpired(6n)).toEqual(["a"]);
});
