import fc from "fast-check";
import { expect, it } from "vitest";
import { ownerIdOfUnit } from "./build-units.ts";
import { planLeftovers } from "./plan-leftovers.ts";

it("gives back the gang and the single machines of a job that is gone, with all of its pods", () => {
  const unitIds = ["gone-1", "gone-1--worker-3", "there-1", "there-1--worker-0", "runs-1--worker-0"];
  const left = planLeftovers({ unitIds, jobs: new Set(["there-1"]), running: new Set(["runs-1"]) });
  expect(left).toEqual(["gone-1", "gone-1--worker-3"]);
});

it("never gives back what belongs to a job that is there, or on which a pod may run", () => {
  const owner = fc.constantFrom("a-1", "b-1", "c-1");
  const unit = fc.tuple(owner, fc.constantFrom("", "--worker-0")).map(([id, member]) => id + member);
  fc.assert(
    fc.property(fc.uniqueArray(unit), fc.array(owner), fc.array(owner), (unitIds, jobs, running) => {
      const kept = new Set<string>([...jobs, ...running]);
      const left = planLeftovers({ unitIds, jobs: new Set(jobs), running: new Set(running) });
      expect(left).toEqual(unitIds.filter((id) => !kept.has(ownerIdOfUnit(id))));
    }),
  );
});
