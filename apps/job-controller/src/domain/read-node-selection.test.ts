import type { NodeSelection } from "@muster/resources";
import { describe, expect, it } from "vitest";
import { DEFAULTS, jobManifest, replicaManifest } from "../../test/manifests.ts";
import { JOB_KIND } from "./kind-job.ts";
import type { ReadResult } from "./kind.ts";
import { tolerationsByNode } from "./member-machines.ts";
import type { UnitSeen } from "./snapshot.ts";

type Fields = Readonly<Record<string, unknown>>;

/** A job with one replica type for each of these fields of its template. */
function read(...templates: readonly Fields[]): ReadResult {
  const containers = [{ name: "main", image: "i" }];
  const replicas = templates.map((fields, index) => {
    return [`t${index}`, replicaManifest({ template: { spec: { containers, ...fields } } })] as const;
  });
  return JOB_KIND.read(jobManifest("train", { replicaSpecs: Object.fromEntries(replicas) }), DEFAULTS);
}

function specOf(result: ReadResult) {
  if (!result.ok) throw new Error(JSON.stringify(result.problems));
  return result.spec;
}

const required = (...nodeSelectorTerms: readonly Fields[]): Fields => ({
  affinity: { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms } } },
});
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
      "are none for an empty term",
      { ...required({}), nodeSelector: { disk: "ssd" } },
      { terms: [{}], tolerations: [] },
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
  expect(tolerationsByNode(all, units)).toEqual(
    new Map([
      ["one", [other]],
      ["two", []],
      ["three", [gpu, other]],
    ]),
  );
  expect(tolerationsByNode(specOf(read({})), units)).toEqual(new Map());
});
