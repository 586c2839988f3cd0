import { allocatedFraction, fitsInto, type Amounts } from "@muster/resources";
import fc from "fast-check";
import { expect, it } from "vitest";
import { CLOSED, indexRooms, type Room } from "./index-rooms.ts";

const amounts: fc.Arbitrary<Amounts> = fc
  .record({ cpu: fc.nat(8), memory: fc.nat(8), pods: fc.nat(4), gpus: fc.nat(2) }, { requiredKeys: [] })
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
