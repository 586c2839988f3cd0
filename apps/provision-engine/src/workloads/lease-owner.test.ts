import { expect, it } from "vitest";
import { aLease } from "../domain/a-lease.ts";
import { leaseOfOwner, leaseOwner } from "./lease-owner.ts";

it("knows the lease and the run again that machines are held for, and takes no other name for one", () => {
  const { id } = leaseOwner(aLease({ order: { id: "12-3" }, run: 4 }));
  expect(leaseOfOwner(id)).toEqual({ id: "12-3", run: 4 });
  for (const other of ["", "12-3", "12-3-0", "a-3-4", "12-3-4-5", "12-3-4 "])
    expect(leaseOfOwner(other)).toBeUndefined();
});
