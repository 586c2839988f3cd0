import { expect, it } from "vitest";
import { muster } from "./index.ts";

it("decodes 64-bit fields to numbers, as in their types", () => {
  const { Conflict } = muster.common.v1;
  const bytes = Conflict.encode({ id: "a", expectedRevision: Number.MAX_SAFE_INTEGER }).finish();
  const { expectedRevision, actualRevision } = Conflict.decode(bytes);
  expect([expectedRevision, actualRevision]).toEqual([Number.MAX_SAFE_INTEGER, 0]);
});

it("decodes amounts above 2^53 to numbers, not to strings", () => {
  const { PoolUse } = muster.reservation.v1;
  const amounts = { memory: 2 ** 53, cpu: 2 ** 53 + 2, pods: 2 ** 60 };
  expect(PoolUse.decode(PoolUse.encode({ amounts }).finish()).amounts).toEqual(amounts);
});
