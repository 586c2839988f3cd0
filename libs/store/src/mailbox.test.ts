import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, it } from "vitest";
import { openMailbox } from "./mailbox.ts";

/** Runs a full garbage collection after the references of finished calls are gone. */
async function collectGarbage(): Promise<void> {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  await new Promise(setImmediate);
  collect();
}

it("returns items in the order of insertion, whatever their number", async () => {
  const mailbox = openMailbox<number>();
  const taken: number[] = [];
  for (let next = 0; next < 100; next += 1) {
    for (const item of [2 * next, 2 * next + 1]) mailbox.put(item);
    taken.push(await mailbox.take());
  }
  for (let left = 0; left < 100; left += 1) taken.push(await mailbox.take());
  expect(taken).toEqual(Array.from({ length: 200 }, (_, index) => index));
});

it("keeps no more taken items than waiting ones, though it is never empty", async () => {
  const mailbox = openMailbox<object>();
  const references: WeakRef<object>[] = [];
  const put = (): void => {
    const item = {};
    references.push(new WeakRef(item));
    mailbox.put(item);
  };
  put();
  for (let count = 1; count < 100; count += 1) {
    put();
    await mailbox.take();
  }
  await collectGarbage();
  const alive = references.filter((reference) => reference.deref() !== undefined);
  expect(alive.length).toBeLessThanOrEqual(2);
});

it("rejects with the failure after all items are taken", async () => {
  const mailbox = openMailbox<number>();
  mailbox.put(1);
  mailbox.fail(new Error("lost"));
  expect(await mailbox.take()).toBe(1);
  await expect(mailbox.take()).rejects.toThrow("lost");
});

it("wakes the taker that waits for an item or for the failure", async () => {
  const box = openMailbox<number>();
  const first = box.take();
  box.put(1);
  await expect(first).resolves.toBe(1);
  const second = box.take();
  box.fail(new Error("first"));
  box.fail(new Error("second"));
  await expect(second).rejects.toThrow("first");
});
