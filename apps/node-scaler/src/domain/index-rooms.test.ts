import { allocatedFraction, fitsInto, type Amounts } from "@muster/resources";
import fc from "fast-check";
import { expect, it } from "vitest";
import { CLOSED, indexRooms, type Room } from "./index-rooms.ts";

const amounts: fc.Arbitrary<Amounts> = fc
  .record({ cpu: fc.nat(8), memory: fc.nat(8), pods: fc.nat(4) })
  .map((record) => new Map(Object.entries(record)));
const room = fc.oneof(
  { weight: 5, arbitrary: fc.record({ allocatable: amounts, free: amounts }) },
  { weight: 1, arbitrary: fc.constant(CLOSED) },
);

/** What the index promises, asking of each. */
function findByLoop(rooms: readonly Room[], requests: Amounts): number | undefined {
  let best: number | undefined;
  const fraction = (place: number): number => {
    const { free, allocatable } = rooms[place] ?? CLOSED;
    return allocatedFraction(free, allocatable);
  };
  for (const [place, { free }] of rooms.entries())
    if (fitsInto(requests, free) && (best === undefined || fraction(place) > fraction(best))) best = place;
  return best;
}

it("finds the room that asking of each finds, whatever was set before", () => {
  const step = fc.record({ place: fc.nat(20), room, requests: amounts });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
      const rooms: Room[] = [];
      const index = indexRooms();
      for (const { place: any, room, requests } of steps) {
        const place = Math.min(any, rooms.length);
        rooms[place] = room;
        index.set(place, room);
        expect(index.at(place)).toBe(room);
        expect(index.find(requests)).toBe(findByLoop(rooms, requests));
      }
    }),
    { numRuns: 500 },
  );
});

it("finds nothing among no rooms", () => {
  expect(indexRooms().find(new Map())).toBeUndefined();
  expect(indexRooms().at(0)).toBeUndefined();
});

it("asks few of many rooms that are full", () => {
  let asked = 0;
  class Counted extends Map<string, number> {
    override get(resource: string): number | undefined {
      asked += resource === "pods" ? 1 : 0;
      return super.get(resource);
    }
  }
  const index = indexRooms();
  const allocatable = new Map(Object.entries({ cpu: 4000, memory: 8000, pods: 110 }));
  for (let place = 0; place < 10_000; place += 1)
    index.set(place, {
      allocatable,
      free: new Counted(Object.entries({ cpu: 100 + (place % 7), memory: 0, pods: 50 })),
    });
  index.set(9_000, { allocatable, free: new Counted(allocatable) });
  asked = 0;
  expect(index.find(new Map(Object.entries({ cpu: 100, memory: 1 })))).toBe(9_000);
  expect(asked).toBeLessThan(20);
});
