import { expect, it } from "vitest";
import {
  makeGrantedUnit,
  JOB,
  makePodFact,
  POLICY,
  makeReplicaSeen,
  makeSnapshot,
  makeSpec,
} from "../../test/samples.ts";
import { buildOwnerId } from "./build-units.ts";
import { NEW_STATUS } from "./job-status.ts";
import { planJob } from "./plan-job.ts";
import type { Snapshot } from "./snapshot.ts";

const GANG = buildOwnerId(JOB);
const unreadable = { ok: false, problems: [{ field: "spec", reason: "" }], managedBy: "another" } as const;
const foreign = (component: string) => makePodFact(component, { component: "" });

/** The pods that the plan deletes and the machines that it releases. */
function steps(more: Partial<Snapshot>): string[] {
  const { steps: planned } = planJob(makeSnapshot({ spec: makeSpec({ managedBy: "another" }), ...more }), POLICY);
  return planned.map((step) => ("pod" in step ? step.pod : "unitId" in step ? step.unitId : step.kind));
}

it("deletes pods and budget and releases machines of a running job that gets another controller", () => {
  const running = {
    replicas: [makeReplicaSeen("worker", [makePodFact("worker-0"), makePodFact("worker-1")])],
    budget: 2,
  };
  expect(steps(running)).toEqual(["train-worker-0", "train-worker-1", "delete-budget"]);
  expect(steps({})).toEqual([GANG]);
  expect(steps({ units: [{ id: GANG, state: "none" }], budget: 2 })).toEqual([]);
});

it("releases those of an unreadable job too", () => {
  const world = { spec: unreadable, replicas: [], units: [makeGrantedUnit("worker-0")] };
  expect(steps({ ...world, unknownTypes: [makePodFact("worker-0")] })).toEqual(["train-worker-0"]);
  expect(steps(world)).toEqual([GANG]);
});

it("changes neither the status nor the pods of the other controller, on whatever machine they are", () => {
  const replicas = [makeReplicaSeen("worker", [foreign("worker-0"), foreign("worker-1")])];
  expect(steps({ replicas })).toEqual([GANG]);
  const none = { units: [{ id: GANG, state: "none" as const }] };
  expect(planJob(makeSnapshot({ spec: makeSpec({ managedBy: "another" }), replicas, ...none }), POLICY)).toEqual({
    status: NEW_STATUS,
    steps: [],
    recheckInMs: undefined,
  });
});
