import fc from "fast-check";
import { expect, it } from "vitest";
import { aLease } from "./domain/a-lease.ts";
import { sumHeldUnits } from "./domain/count-leases.ts";
import { decideAdmission } from "./domain/decide-admission.ts";
import type { LeaseRecord } from "./domain/lease.ts";
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

it("knows at every moment what a sum over all leases would say", () => {
  const id = fc.constantFrom("1-1", "1-2", "1-3", "1-4");
  const phase = fc.constantFrom("ORDERED", "PROVISIONING", "ACTIVE", "ENDED");
  const step = fc.oneof(
    fc.record({
      do: fc.constant("learn"),
      id,
      phase,
      size: fc.integer({ min: 1, max: 3 }),
      user: fc.constantFrom("a", "b"),
    }),
    fc.record({ do: fc.constant("forget"), id }),
    fc.record({ do: fc.constant("admit"), id }),
  );
  const sized = (size: number): string => JSON.stringify({ size, type: "ssd" });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 30 }), (steps) => {
      const holdings = openHoldings({ sru: 6n * GIB });
      const model = new Map<string, Pick<LeaseRecord, "order" | "phase">>();
      let revision = 0;
      for (const each of steps) {
        const known = model.get(each.id);
        if (each.do === "learn") {
          const order = { id: each.id, type: "volume", data: sized(each.size), user: each.user };
          const record = aLease({ phase: each.phase, order });
          holdings.learn({ record, revision: ++revision });
          model.set(each.id, record);
        } else if (each.do === "forget") {
          holdings.forget(each.id);
          model.delete(each.id);
        } else if (known !== undefined) {
          const claim = readClaim(known.order);
          const isAdmitted = claim.ok && holdings.admit(known.order, claim.value).admit === "yes";
          if (isAdmitted) model.set(each.id, { ...known, phase: "PROVISIONING" });
        }
        for (const size of [1, 2, 4, 6]) {
          const { order } = aLease({ order: { id: "9-9", type: "volume", data: sized(size) } });
          const claim = claimOf({ ...volume("9-9"), order });
          const summed = { held: sumHeldUnits(model.values()), capacity: { sru: 6n * GIB }, ofUser: [] };
          expect(holdings.explain(order, claim)).toEqual(decideAdmission(order, claim, summed));
        }
      }
    }),
  );
});
