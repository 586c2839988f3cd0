import { annotations } from "@muster/proto";
import { expect, it } from "vitest";
import { DEFAULTS, buildJobManifest } from "../../test/manifests.ts";
import { POLICY, makeReplica, makeSnapshot, makeSpec } from "../../test/samples.ts";
import { JOB_KIND } from "./kind-job.ts";
import { planJob } from "./plan-job.ts";
import { findGracePeriod, PREEMPTIBLE_ANNOTATION } from "./read-preemptible.ts";

function read(annotation?: unknown) {
  const written = annotation === undefined ? {} : { [PREEMPTIBLE_ANNOTATION]: annotation };
  return JOB_KIND.read({ ...buildJobManifest("train"), metadata: { name: "train", annotations: written } }, DEFAULTS);
}

it("has the annotation of the contracts", () => {
  expect(PREEMPTIBLE_ANNOTATION).toBe(annotations.preemptible);
});

it.each([
  [undefined, undefined],
  ["true", undefined],
  ["false", true],
])("reads the annotation %j", (annotation, notPreemptible) => {
  const result = read(annotation);
  expect(result.ok && result.spec.notPreemptible).toBe(notPreemptible);
});

it.each(["no", "", false])("refuses the annotation %j", (annotation) => {
  expect(read(annotation)).toMatchObject({
    ok: false,
    problems: [{ field: `metadata.annotations.${PREEMPTIBLE_ANNOTATION}` }],
  });
});

const withGrace = (...seconds: unknown[]) => ({
  replicas: seconds.map((each, at) => {
    const containers = [{ name: "main", image: "image" }];
    return makeReplica(`type${at}`, 1, { template: { spec: { containers, terminationGracePeriodSeconds: each } } });
  }),
});

it.each([
  ["the default", [undefined], 40_000],
  ["the longest", [5, 120, 0], 130_000],
  ["none", [0], 10_000],
  ["an hour for a longer one", [86_400], 3_600_000],
  ["the default for what no pod can have", ["x"], 40_000],
])("states a grace of %s and a little more", (_title, seconds, graceMs) => {
  expect(findGracePeriod(withGrace(...seconds))).toBe(graceMs);
});

it("states the grace and the wish in a request with a queue, and in no other one", () => {
  const asked = (queue: Parameters<typeof makeSnapshot>[0]) => {
    const [step] = planJob(
      makeSnapshot({ units: [], spec: makeSpec({ notPreemptible: true }), ...queue }),
      POLICY,
    ).steps;
    return step?.kind === "reserve" ? step.unit : undefined;
  };
  expect(asked({ queue: { kind: "queue", name: "a" } })).toMatchObject({ graceMs: 40_000, notPreemptible: true });
  expect(asked({})).not.toHaveProperty("graceMs");
});
