import { expect, it } from "vitest";
import { takeTurns } from "./take-turns.ts";

it("as much work as allowed is under way, the rest in its order, and work that fails makes room", async () => {
  const turns = takeTurns(2);
  const begun: number[] = [];
  const ends = [1, 2, 3, 4].map(() => Promise.withResolvers<number>());
  const works = ends.map(({ promise }, index) =>
    turns(() => {
      begun.push(index);
      return promise;
    }),
  );
  expect(begun).toEqual([0, 1]);
  ends[1]?.reject(new Error("no"));
  await expect(works[1]).rejects.toThrow("no");
  expect(begun).toEqual([0, 1, 2]);
  ends[0]?.resolve(7);
  await expect(works[0]).resolves.toBe(7);
  expect(begun).toEqual([0, 1, 2, 3]);
  ends[2]?.resolve(0);
  ends[3]?.resolve(0);
  await Promise.all([works[2], works[3]]);
});

it("limits the work in flight, and starts the rest in its order, also after work that fails", async () => {
  const slots = takeTurns(2);
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

it("work whose signal is aborted while it waits is never begun, and takes no turn", async () => {
  const turns = takeTurns(1);
  const first = Promise.withResolvers<string>();
  const one = turns(() => first.promise);
  const stop = new AbortController();
  const begun: string[] = [];
  const left = turns(() => Promise.resolve(begun.push("left")), stop.signal);
  const after = turns(() => Promise.resolve(begun.push("after")), AbortSignal.any([]));
  stop.abort(new Error("gave up"));
  await expect(left).rejects.toThrow("gave up");
  await expect(turns(() => Promise.resolve(begun.push("late")), stop.signal)).rejects.toThrow("gave up");
  first.resolve("done");
  await expect(one).resolves.toBe("done");
  await after;
  expect(begun).toEqual(["after"]);
  await expect(turns(() => Promise.resolve("free"))).resolves.toBe("free");
});
