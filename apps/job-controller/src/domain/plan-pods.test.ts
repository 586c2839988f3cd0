import { expect, it } from "vitest";
import {
  makeGrantedUnit,
  JOB,
  NOW_MS,
  makePodFact,
  POLICY,
  makeReplicaSeen,
  makeSnapshot,
  makeSpec,
} from "../../test/samples.ts";
import { buildOwnerId } from "./build-units.ts";
import { NEW_STATUS } from "./job-status.ts";
import { planJob } from "./plan-job.ts";
import type { Snapshot, UnitSeen } from "./snapshot.ts";

const OVER = { type: "Succeeded", status: "True", reason: "JobSucceeded", message: "" } as const;
const over = { ...NEW_STATUS, conditions: [{ ...OVER, lastUpdateMs: NOW_MS, lastTransitionMs: NOW_MS }] };
const none: UnitSeen = { id: buildOwnerId(JOB), state: "none" };
const unknown: UnitSeen = { id: buildOwnerId(JOB), state: "unknown" };

function deleted(more: Partial<Snapshot>): string[] {
  const { steps } = planJob(makeSnapshot({ spec: makeSpec({ cleanPodPolicy: "None" }), budget: 2, ...more }), POLICY);
  return steps.flatMap((step) => (step.kind === "delete-pod" ? [step.pod] : []));
}

/** Builds a pod of a frozen leader, which creates it after other processes have released the machine. */
const late = {
  replicas: [makeReplicaSeen("worker", [makePodFact("worker-0", { node: "foreign" }), makePodFact("worker-1")])],
};
const unbound = makePodFact("worker-0", { phase: "Pending", node: undefined, pinned: "foreign" });

it("deletes a pod on a machine that the job does not have, during the job and after it", () => {
  expect(deleted(late)).toEqual(["train-worker-0"]);
  expect(deleted({ ...late, status: over })).toEqual(["train-worker-0"]);
  expect(deleted({ ...late, status: over, units: [none] })).toEqual(["train-worker-0", "train-worker-1"]);
  expect(deleted({ status: over, units: [none], replicas: [makeReplicaSeen("worker", [unbound, undefined])] })).toEqual(
    ["train-worker-0"],
  );
});

it("deletes no pod while the ledger is silent, and none of another owner", () => {
  expect(deleted({ ...late, units: [unknown] })).toEqual([]);
  expect(deleted({ ...late, status: over, units: [unknown] })).toEqual([]);
  const adopted = makePodFact("worker-0", { component: "", node: "somewhere" });
  expect(deleted({ replicas: [makeReplicaSeen("worker", [adopted, makePodFact("worker-1")])] })).toEqual([]);
  expect(
    deleted({ status: over, units: [makeGrantedUnit("worker-1")], replicas: [makeReplicaSeen("worker", [adopted])] }),
  ).toEqual([]);
});
