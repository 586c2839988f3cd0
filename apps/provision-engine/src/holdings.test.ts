import { expect, it } from "vitest";
import { aLease } from "./domain/a-lease.ts";
import { readClaim } from "./domain/workload-types.ts";
import { openHoldings } from "./holdings.ts";

const GIB = 2n ** 30n;
const volume = (id: string) =>
  aLease({ phase: "ORDERED", order: { id, type: "volume", data: '{"size":1,"type":"ssd"}' } });

function claimOf({ order }: ReturnType<typeof volume>) {
  const claim = readClaim(order);
  if (!claim.ok) throw new Error(JSON.stringify(claim.problems));
  return claim.value;
}

it("counts what it has admitted before its record says so, and until the record says otherwise", () => {
  const holdings = openHoldings({ sru: GIB });
  const [first, second] = [volume("1-1"), volume("1-2")];
  holdings.learn({ record: first, revision: 1 });
  holdings.learn({ record: second, revision: 2 });
  expect(holdings.admit(first.order, claimOf(first)).admit).toBe("yes");
  expect(holdings.admit(second.order, claimOf(second)).admit).toBe("no");
  expect(holdings.admit(first.order, claimOf(first)).admit).toBe("yes");
  holdings.learn({ record: { ...first, phase: "ACTIVE" }, revision: 3 });
  // What is told late is known already.
  holdings.learn({ record: first, revision: 1 });
  expect(holdings.admit(second.order, claimOf(second)).admit).toBe("no");
  expect(holdings.counters()).toMatchObject({ counters: { volume: 1 }, used: { sru: GIB } });
  holdings.learn({ record: { ...first, phase: "ENDED" }, revision: 4 });
  expect(holdings.explain(second.order, claimOf(second)).admit).toBe("yes");
  expect(holdings.admit(second.order, claimOf(second)).admit).toBe("yes");
  holdings.forget("1-2");
  expect(holdings.explain(volume("1-3").order, claimOf(second)).admit).toBe("yes");
});
