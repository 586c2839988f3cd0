import { expect, it } from "vitest";
import { makeSlots } from "./slots.ts";

it("lets so much work go on at once, and the rest in its order, also after work that fails", async () => {
  const slots = makeSlots(2);
  const begun: number[] = [];
  const ends = new Map<number, { resolve: (value: number) => void; reject: (error: Error) => void }>();
  const work = (number: number): Promise<number> =>
    slots(() => {
      begun.push(number);
      return new Promise((resolve, reject) => ends.set(number, { resolve, reject }));
    });
  const all = [1, 2, 3, 4].map((number) => work(number).catch(() => -number));
  await new Promise(setImmediate);
  expect(begun).toEqual([1, 2]);
  ends.get(2)?.reject(new Error("no"));
  await new Promise(setImmediate);
  expect(begun).toEqual([1, 2, 3]);
  ends.get(1)?.resolve(1);
  await new Promise(setImmediate);
  expect(begun).toEqual([1, 2, 3, 4]);
  for (const number of [3, 4]) ends.get(number)?.resolve(number);
  expect(await Promise.all(all)).toEqual([1, -2, 3, 4]);
});
