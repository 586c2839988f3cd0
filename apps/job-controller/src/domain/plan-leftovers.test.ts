import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { makePodFact } from "../../test/samples.ts";
import { getUnitOwnerId } from "./build-units.ts";
import { planLeftovers } from "./plan-leftovers.ts";
import type { PodFact, UnitSeen } from "./snapshot.ts";

function granted(id: string, nodes: Readonly<Record<string, string>>): UnitSeen {
  return { id, state: "granted", nodes: new Map(Object.entries(nodes)) };
}

function waiting(id: string): UnitSeen {
  return { id, state: "waiting", components: ["worker-0"], because: { code: "WAITS", text: "" }, sinceMs: 0 };
}

function planned(units: readonly UnitSeen[], jobs: readonly string[], pods: Readonly<Record<string, PodFact[]>>) {
  return planLeftovers({ units, jobs: new Set(jobs), running: (id) => pods[id] ?? [] });
}

describe("the units of a deleted job", () => {
  it("are released, the gang and single machines, with all their pods", () => {
    const units = [
      granted("gone-1", { "worker-0": "a" }),
      granted("gone-1--worker-3", { "worker-3": "b" }),
      granted("there-1", { "worker-0": "c" }),
      waiting("there-1--worker-1"),
    ];
    expect(planned(units, ["there-1"], {})).toEqual({ release: ["gone-1", "gone-1--worker-3"], left: [] });
  });

  it("are kept, unit by unit, if a pod that the job has lost runs there, and the pod is named", () => {
    const orphan = makePodFact("worker-0", { name: "orph-worker-0", node: "a" });
    const units = [
      granted("orph-1", { "worker-0": "a", "worker-1": "b" }),
      granted("orph-1--worker-2", { "worker-2": "c" }),
      waiting("orph-1--worker-3"),
    ];
    expect(planned(units, [], { "orph-1": [orphan] })).toEqual({
      release: ["orph-1--worker-2", "orph-1--worker-3"],
      left: [
        { ownerId: "orph-1", job: "orph", namespace: "default", pod: "orph-worker-0", uid: orphan.uid, node: "a" },
      ],
    });
  });

  it("are kept for a pod without a node, by its member", () => {
    const orphan = makePodFact("worker-0", { node: undefined });
    const units = [granted("orph-1", { "worker-0": "a" }), granted("orph-1--worker-1", { "worker-1": "b" })];
    expect(planned(units, [], { "orph-1": [orphan] }).release).toEqual(["orph-1--worker-1"]);
  });
});

it("never releases units of an existing job, or a machine on which a pod may run", () => {
  const owner = fc.constantFrom("a-1", "b-1", "c-1");
  const unitId = fc.tuple(owner, fc.constantFrom("", "--worker-0")).map(([id, member]) => id + member);
  fc.assert(
    fc.property(fc.uniqueArray(unitId), fc.array(owner), fc.array(unitId), (unitIds, jobs, occupied) => {
      // Each unit has one machine with the unit's name.
      const units = unitIds.map((id) => granted(id, { "worker-0": id }));
      const running = (ownerId: string): PodFact[] =>
        occupied.filter((id) => getUnitOwnerId(id) === ownerId).map((node) => makePodFact("worker-0", { node }));
      const { release } = planLeftovers({ units, jobs: new Set(jobs), running });
      const owners = new Set<string>(jobs);
      const kept = (id: string): boolean => owners.has(getUnitOwnerId(id)) || occupied.includes(id);
      expect(release).toEqual(unitIds.filter((id) => !kept(id)));
    }),
  );
});
