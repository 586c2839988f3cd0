import { expect, it } from "vitest";
import { forEachSome } from "./for-each-some.ts";

it("keeps the maximum in flight, and starts the next item when one has ended", async () => {
  const begun: number[] = [];
  const pending = new Map<number, () => void>();
  const done = forEachSome(
    [1, 2, 3],
    2,
    (item) => {
      begun.push(item);
      return new Promise<void>((resolve) => pending.set(item, resolve));
    },
    () => undefined,
  );
  expect(begun).toEqual([1, 2]);
  pending.get(2)?.();
  await new Promise(setImmediate);
  expect(begun).toEqual([1, 2, 3]);
  for (const end of pending.values()) end();
  await done;
});

it("does the rest when some fail, and reports which", async () => {
  const failed: (readonly [number, unknown])[] = [];
  const worked: number[] = [];
  const work = (item: number) => {
    worked.push(item);
    return item === 2 ? Promise.reject(new Error("no")) : Promise.resolve();
  };
  await forEachSome([1, 2, 3], 1, work, (item, error) => failed.push([item, error]));
  expect(worked).toEqual([1, 2, 3]);
  expect(failed).toEqual([[2, new Error("no")]]);
});

it("resolves immediately without items", async () => {
  await forEachSome(
    [],
    3,
    () => Promise.reject(new Error("asked")),
    () => expect.fail("reported"),
  );
});
