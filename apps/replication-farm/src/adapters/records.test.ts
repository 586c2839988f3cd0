import type { Bucket } from "@muster/store";
import { expect, it } from "vitest";
import { makeRecords } from "./records.ts";

type Record = { readonly fence: number; readonly outbox: readonly [] };
type Stored = { readonly record: Record };

it("limits the concurrent calls to the store, however many sets have a pass", async () => {
  const waiting: (() => void)[] = [];
  const record: Record = { fence: 1, outbox: [] };
  const bucket = {
    name: "sets",
    get: (key: string) =>
      new Promise((resolve) => waiting.push(() => resolve({ key, value: { record }, revision: 3 }))),
    update: () => new Promise<number>((resolve) => waiting.push(() => resolve(4))),
  } as unknown as Bucket<Stored, Record>;
  const records = makeRecords(bucket as unknown as Parameters<typeof makeRecords<Record>>[0]);
  const calls = [
    ...Array.from({ length: 500 }, (_, index) => records.get(`set-${index}`)),
    ...Array.from({ length: 500 }, (_, index) =>
      records.own({ key: `set-${index}`, revision: 3, next: record, audits: [] }, 1),
    ),
  ];
  let answered = 0;
  while (answered < calls.length) {
    expect(waiting.length).toBeGreaterThan(0);
    expect(waiting.length).toBeLessThanOrEqual(128);
    answered += waiting.length;
    for (const answer of waiting.splice(0)) answer();
    await new Promise((resolve) => setImmediate(resolve));
  }
  expect(await Promise.all(calls)).toHaveLength(1000);
});
