import { expect, it } from "vitest";
import { makeSharedReads } from "./shared-reads.ts";

it("callers during a read share the next one, which begins after all of them have called", async () => {
  const reads: PromiseWithResolvers<string>[] = [];
  const ask = makeSharedReads(() => {
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
