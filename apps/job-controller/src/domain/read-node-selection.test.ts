import type { NodeSelection } from "@muster/resources";
import { describe, expect, it } from "vitest";
import { DEFAULTS, buildJobManifest, buildReplicaManifest } from "../../test/manifests.ts";
import { JOB_KIND } from "./kind-job.ts";
import { TFJOB_KIND } from "./kind-tfjob.ts";
import type { ReadResult } from "./kind.ts";
import { groupTolerationsByNode } from "./member-machines.ts";
import type { UnitSeen } from "./snapshot.ts";

type Fields = Readonly<Record<string, unknown>>;

/** Builds a job with one replica type for each of these fields of its template. */
function read(...templates: readonly Fields[]): ReadResult {
  const containers = [{ name: "main", image: "i" }];
  const replicas = templates.map((fields, index) => {
    return [`t${index}`, buildReplicaManifest({ template: { spec: { containers, ...fields } } })] as const;
  });
  return JOB_KIND.read(buildJobManifest("train", { replicaSpecs: Object.fromEntries(replicas) }), DEFAULTS);
}

function specOf(result: ReadResult) {
  if (!result.ok) throw new Error(JSON.stringify(result.problems));
  return result.spec;
}

const required = (...nodeSelectorTerms: readonly Fields[]): Fields => ({
  affinity: { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms } } },
});
const TERMS = "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";
const inZone = { matchExpressions: [{ key: "zone", operator: "In", values: ["a"] }] };
const onDisk = { key: "disk", operator: "In", values: ["ssd"] };
const gpu = { key: "gpu", operator: "Exists", effect: "NoSchedule" };

describe("the nodes that a template accepts", () => {
  it.each<[string, Fields, NodeSelection | undefined]>([
    ["are all without taints by default", {}, undefined],
    ["are not selected by the pool", { nodeSelector: { [DEFAULTS.poolLabel]: "cpu" } }, undefined],
    [
      "have the labels of its node selector",
      { nodeSelector: { disk: "ssd", arch: "arm" } },
      {
        terms: [{ matchExpressions: [{ key: "arch", operator: "In", values: ["arm"] }, onDisk] }],
        tolerations: [],
      },
    ],
    [
      "match its affinity and its node selector",
      {
        ...required(inZone, { matchFields: [{ key: "metadata.name", operator: "NotIn", values: ["n"] }] }),
        nodeSelector: { disk: "ssd" },
      },
      {
        terms: [
          { matchExpressions: [onDisk, ...inZone.matchExpressions] },
          { matchExpressions: [onDisk], matchFields: [{ key: "metadata.name", operator: "NotIn", values: ["n"] }] },
        ],
        tolerations: [],
      },
    ],
    [
      "have only taints that it tolerates, for however long",
      { tolerations: [{ ...gpu, tolerationSeconds: 5 }] },
      { terms: [], tolerations: [gpu] },
    ],
  ])("%s", (_title, template, selection) => {
    expect(specOf(read(template)).replicas.map((replica) => replica.selection)).toEqual([selection]);
  });

  it.each<[string, Fields, string]>([
    [
      "an unknown operator",
      required({ matchExpressions: [{ key: "zone", operator: "Is" }] }),
      "matchExpressions[0].operator",
    ],
    [
      "values that are no list",
      required({ matchFields: [{ key: "metadata.name", operator: "In", values: "n" }] }),
      "matchFields[0].values",
    ],
    ["a toleration that is no object", { tolerations: ["gpu"] }, "tolerations[0]"],
    ["a toleration with a number", { tolerations: [{ key: "gpu", value: 1 }] }, "tolerations[0].value"],
  ])("are refused with %s", (_title, template, field) => {
    const result = read(template);
    const fields = result.ok ? [] : result.problems.map((problem) => problem.field);
    expect(fields.join()).toContain(field);
  });

  it.each<[string, Fields, string, string]>([
    ["a label key that none can be", { nodeSelector: { "a b": "c" } }, "nodeSelector.a b", '"a b" is not a label key'],
    [
      "a value that no label has",
      { nodeSelector: { gpu: "h 100" } },
      "nodeSelector.gpu",
      '"h 100" is not a label value',
    ],
    [
      "a bound that is no number",
      required({ matchExpressions: [{ key: "gpu", operator: "Gt", values: ["h100"] }] }),
      `${TERMS}[0].matchExpressions[0]`,
      'Gt needs one value, a whole number, not "h100"',
    ],
    [
      "a value that no label has, among others",
      required({ matchExpressions: [{ key: "gpu", operator: "NotIn", values: ["h100", "h 100"] }] }),
      `${TERMS}[0].matchExpressions[0].values[1]`,
      '"h 100" is not a label value',
    ],
    [
      "no values",
      required({ matchExpressions: [{ key: "gpu", operator: "In", values: [] }] }),
      `${TERMS}[0].matchExpressions[0]`,
      "In needs values, and has none",
    ],
    [
      "no operator",
      required({ matchExpressions: [{ key: "gpu" }] }),
      `${TERMS}[0].matchExpressions[0].operator`,
      "is missing",
    ],
    ["no terms", required(), TERMS, "is empty; write a term"],
    [
      "a toleration that has a value, and the operator Exists",
      { tolerations: [{ key: "gpu", operator: "Exists", value: "big" }] },
      "tolerations[0].value",
      'is "big" with the operator Exists; leave it out',
    ],
    ["a toleration without a key", { tolerations: [{ value: "b" }] }, "tolerations[0]", "has no key; write the key"],
    [
      "a toleration of a key that none can be",
      { tolerations: [{ key: "a b" }] },
      "tolerations[0].key",
      '"a b" is not a label key',
    ],
    ["an empty term", required({}), `${TERMS}[0]`, "accepts no node; write matchExpressions"],
  ])("are refused with %s, in jobs of every kind", (_title, template, field, reason) => {
    const containers = [{ name: "tensorflow", image: "i" }];
    const worker = { replicas: 1, template: { spec: { containers, ...template } } };
    const tfJob = { metadata: { name: "train", namespace: "default" }, spec: { tfReplicaSpecs: { Worker: worker } } };
    const found = [read(template), TFJOB_KIND.read(tfJob, DEFAULTS)].map((result) => {
      return result.ok ? [] : result.problems;
    });
    expect(found).toEqual(
      ["replicaSpecs.t0", "tfReplicaSpecs.Worker"].map((replica) => [
        { field: `spec.${replica}.template.spec.${field}`, reason: expect.stringContaining(reason) as string },
      ]),
    );
  });
});

it("counts only the tolerations that all members of a node have", () => {
  const other = { key: "old", operator: "Exists" };
  const spec = specOf(read({ tolerations: [gpu, other] }, { tolerations: [other] }, {}));
  const units: readonly UnitSeen[] = [
    {
      id: "gang",
      state: "granted",
      nodes: new Map([
        ["t0-0", "one"],
        ["t1-0", "one"],
        ["t2-0", "two"],
        ["t0-1", "two"],
        ["t0-2", "three"],
      ]),
    },
  ];
  const all = { ...spec, replicas: spec.replicas.map((replica) => ({ ...replica, replicas: 3 })) };
  expect(groupTolerationsByNode(all, units)).toEqual(
    new Map([
      ["one", [other]],
      ["two", []],
      ["three", [gpu, other]],
    ]),
  );
  expect(groupTolerationsByNode(specOf(read({})), units)).toEqual(new Map());
});
