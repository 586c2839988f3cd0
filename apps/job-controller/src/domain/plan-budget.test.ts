import { expect, it } from "vitest";
import { DEFAULTS } from "../../test/manifests.ts";
import { POLICY, makeGrantedUnit, makePodFact, makeReplicaSeen, makeSnapshot } from "../../test/samples.ts";
import { JOB_KIND } from "./kind-job.ts";
import { TFJOB_KIND } from "./kind-tfjob.ts";
import type { Kind } from "./kind.ts";
import { planJob } from "./plan-job.ts";

/** Returns the minimum of the budget for a gang of three. */
function minimumOf(
  kind: Kind,
  [field, type, container]: readonly [string, string, string],
  runPolicy: object,
): unknown {
  const template = { spec: { containers: [{ name: container, image: "image" }] } };
  const manifest = { metadata: { name: "train" }, spec: { [field]: { [type]: { replicas: 3, template } }, runPolicy } };
  const read = kind.read(manifest, DEFAULTS);
  if (!read.ok) throw new Error(JSON.stringify(read.problems));
  const components = ["worker-0", "worker-1", "worker-2"];
  const replicas = [
    makeReplicaSeen(
      "worker",
      components.map((each) => makePodFact(each)),
    ),
  ];
  const { steps } = planJob(
    makeSnapshot({ spec: read.spec, replicas, units: [makeGrantedUnit(...components)] }),
    POLICY,
  );
  return steps.flatMap((step) => (step.kind === "sync-budget" ? [step.minAvailable] : []));
}

it.each([
  [JOB_KIND, ["replicaSpecs", "worker", "main"]],
  [TFJOB_KIND, ["tfReplicaSpecs", "Worker", "tensorflow"]],
] as const)("protects as many pods of a job as its manifest states, by default all", (kind, words) => {
  expect(minimumOf(kind, words, {})).toEqual([3]);
  expect(minimumOf(kind, words, { schedulingPolicy: { minAvailable: 2 } })).toEqual([2]);
});
