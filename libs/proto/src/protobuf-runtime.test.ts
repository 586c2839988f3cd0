import { expect, it } from "vitest";
import { muster } from "./index.ts";

it("decodes 64-bit fields to numbers, as their types say", () => {
  const { Conflict } = muster.common.v1;
  const bytes = Conflict.encode({ id: "a", expectedRevision: Number.MAX_SAFE_INTEGER }).finish();
  const { expectedRevision, actualRevision } = Conflict.decode(bytes);
  expect([expectedRevision, actualRevision]).toEqual([Number.MAX_SAFE_INTEGER, 0]);
});
