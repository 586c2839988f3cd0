import { computeAllocatedFraction, canFit, type Amounts } from "@muster/resources";
import fc from "fast-check";
import { expect, it } from "vitest";
import { NO_ROOM, indexRooms, type NodeRoom } from "./index-rooms.ts";

const amounts: fc.Arbitrary<Amounts> = fc
  .record(
    { cpu: fc.nat(8), memory: fc.nat(8), pods: fc.nat(4), gpus: fc.nat(2), "x/gpu": fc.nat(2), "x/nic": fc.nat(1) },
    { requiredKeys: [] },
  )
  .map((record) => new Map(Object.entries(record)));
const anyRoom: fc.Arbitrary<NodeRoom> = fc
  .record({ allocatable: amounts, free: amounts, isUnused: fc.boolean(), gpus: fc.constantFrom(0, 0, 1) })
  .map(({ allocatable, free, isUnused, gpus }) => ({
    allocatable,
    free: isUnused ? allocatable : free,
    isUnused,
    gpus,
  }));
const room = fc.oneof({ weight: 5, arbitrary: anyRoom }, { weight: 1, arbitrary: fc.constant(NO_ROOM) });

/** Finds by a linear search the room that the index promises to find. */
function findInOrder(rooms: readonly NodeRoom[], requests: Amounts): number | undefined {
  const asks = (wanted: (resource: string) => boolean): boolean =>
    [...requests].some(([resource, amount]) => amount > 0 && wanted(resource));
  const keyOf = ({ allocatable, free, isUnused = false, gpus = 0 }: NodeRoom): readonly number[] => {
    const kinds = [...allocatable].flatMap(([kind, amount]) => (amount > 0 && kind.includes("/") ? [kind] : []));
    const isSpecial = kinds.some((kind) => !asks((resource) => resource === kind));
    const hasUnknown = gpus > 0 && !asks((resource) => resource.endsWith("/gpu"));
    const fraction = isUnused ? 0 : computeAllocatedFraction(free, allocatable);
    const size = ["cpu", "memory"].map((resource) => allocatable.get(resource) ?? free.get(resource) ?? 0);
    return [Number(isSpecial || hasUnknown), Number(isUnused), -fraction, ...size];
  };
  const compare = (one: readonly number[], other: readonly number[]): number =>
    one.map((value, at) => value - (other[at] ?? 0)).find((difference) => difference !== 0) ?? 0;
  const able = rooms.flatMap((one, place) => (canFit(requests, one.free) ? [{ place, key: keyOf(one) }] : []));
  return able.sort((one, other) => compare(one.key, other.key) || one.place - other.place)[0]?.place;
}

it("finds the same room as a test of each, whatever was set before", () => {
  const step = fc.record({ place: fc.nat(20), room, requests: amounts });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
      const rooms: NodeRoom[] = [];
      const index = indexRooms();
      for (const { place: any, room, requests } of steps) {
        const place = Math.min(any, rooms.length);
        rooms[place] = room;
        index.set(place, room);
        expect(index.at(place)).toBe(room);
        expect(index.find(requests)).toBe(findInOrder(rooms, requests));
      }
    }),
    { numRuns: 1000 },
  );
});

it("finds nothing without rooms", () => {
  expect(indexRooms().find(new Map())).toBeUndefined();
  expect(indexRooms().at(0)).toBeUndefined();
});

it("omits rooms that refuse the class, however many positions exist", () => {
  const index = indexRooms();
  const free = new Map([
    ["cpu", 1],
    ["pods", 1],
  ]);
  for (let place = 0; place < 100; place += 1) {
    index.set(place, { allocatable: free, free });
    if (place !== 70) index.refuse(place, ["picky"]);
  }
  expect([index.find(new Map()), index.find(new Map(), "picky"), index.find(new Map(), "other")]).toEqual([0, 70, 0]);
});
