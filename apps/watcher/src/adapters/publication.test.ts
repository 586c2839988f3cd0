import { expect, it } from "vitest";
import { makeFakeBucket } from "../../test/fake-bucket.ts";
import { makePublication } from "./publication.ts";

type State = { readonly value: number };

const putTo = (key: string, value: number, expectedRevision?: number) =>
  ({ kind: "put", key, state: { value }, expectedRevision, because: "new" }) as const;

it("recognises its own last write in the view, once, and no write of another replica", async () => {
  const bucket = makeFakeBucket<State>();
  bucket.delay();
  const view = bucket.view();
  const [own, other] = [makePublication(bucket, view, () => undefined), makePublication(bucket, view, () => undefined)];
  await own.write(putTo("k", 1));
  expect(own.isEcho("k")).toBe(false);
  bucket.catchUp();
  expect([own.isEcho("k"), other.isEcho("k"), own.isEcho("unknown")]).toEqual([true, false, false]);
  expect(own.get("k")?.state).toEqual({ value: 1 });
  expect(own.isEcho("k")).toBe(false);
  await other.write(putTo("k", 2, own.get("k")?.revision));
  bucket.catchUp();
  expect([own.isEcho("k"), other.isEcho("k")]).toEqual([false, true]);
});

it("does not regard the removal of a state as an echo", async () => {
  const bucket = makeFakeBucket<State>();
  const side = makePublication(bucket, bucket.view(), () => undefined);
  await side.write(putTo("k", 1));
  const expectedRevision = side.get("k")?.revision ?? 0;
  await side.write({ kind: "forget", key: "k", expectedRevision, because: "kept-long-enough" });
  expect(side.isEcho("k")).toBe(false);
});
