import { expect, it } from "vitest";
import { shareReads, takeTurns } from "./take-turns.ts";

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

it("whoever asks while a reading is under way shares the next one, which begins after all have asked", async () => {
  const reads: PromiseWithResolvers<string>[] = [];
  const ask = shareReads(() => {
    const read = Promise.withResolvers<string>();
    reads.push(read);
    return read.promise;
  });
  const first = ask();
  await Promise.resolve();
  expect(reads).toHaveLength(1);
  const [second, third] = [ask(), ask()];
  reads[0]?.reject(new Error("away"));
  await expect(first).rejects.toThrow("away");
  expect(reads).toHaveLength(2);
  reads[1]?.resolve("new");
  await expect(Promise.all([second, third])).resolves.toEqual(["new", "new"]);
});
