import { annotations } from "@muster/proto";
import { buildPodDefaults, NO_DEFAULTS } from "@muster/resources";
import { describe, expect, it } from "vitest";
import { DEFAULTS, buildJobManifest, buildReplicaManifest } from "../../test/manifests.ts";
import { JOB_KIND } from "./kind-job.ts";
import { MPIJOB_KIND } from "./kind-mpijob.ts";
import { PYTORCHJOB_KIND } from "./kind-pytorchjob.ts";
import type { Kind, ReadResult } from "./kind.ts";
import { SHARING_ANNOTATION, withPodDefaults } from "./read-sharing.ts";

type Manifest = Readonly<Record<string, unknown>>;

const CONTAINER = { name: "main", image: "i" };
const noted = (sharing: unknown) => ({ annotations: { [SHARING_ANNOTATION]: sharing } });
const requesting = (requests: Manifest, more: Manifest = {}) => ({ ...CONTAINER, resources: { requests }, ...more });

/** Builds a job with this annotation, whose template has this annotation and this spec. */
function read(ofJob: unknown, ofTemplate: unknown, spec: Manifest = {}): ReadResult {
  const template = {
    ...(ofTemplate !== undefined && { metadata: noted(ofTemplate) }),
    spec: { containers: [requesting({ cpu: "500m", memory: "1Gi" })], ...spec },
  };
  const job = buildJobManifest("train", { replicaSpecs: { worker: buildReplicaManifest({ template }) } });
  const metadata = { name: "train", ...(ofJob !== undefined && noted(ofJob)) };
  return JOB_KIND.read({ ...job, metadata }, DEFAULTS);
}

function sharesOf(result: ReadResult): unknown[] {
  if (!result.ok) throw new Error(JSON.stringify(result.problems));
  return result.spec.replicas.map(({ shared }) => shared);
}

it("has the annotation of the contracts", () => {
  expect(SHARING_ANNOTATION).toBe(annotations.sharing);
});

describe("the machines of a replica type", () => {
  const PART = { cpu: 500, memory: 2 ** 30 };

  it.each([
    ["are whole without an annotation, whatever it requests", undefined, undefined, undefined],
    ["are shared by the annotation of the job", "shared", undefined, PART],
    ["are shared by the annotation of the template", undefined, "shared", PART],
    ["are whole by the annotation of the template", "shared", "exclusive", undefined],
    ["are shared by the annotation of the template, which wins over the job", "exclusive", "shared", PART],
  ])("%s", (_title, ofJob, ofTemplate, shared) => {
    expect(sharesOf(read(ofJob, ofTemplate))).toEqual([shared]);
  });

  it("must provide the requests if they are whole, in addition to the template's selection", () => {
    const selectionOf = (sharing: string, spec: Manifest = {}): unknown => {
      const result = read(sharing, undefined, spec);
      return result.ok ? result.spec.replicas[0]?.selection : result.problems;
    };
    expect(selectionOf("exclusive")).toEqual({ terms: [], tolerations: [], minimum: PART });
    expect(selectionOf("exclusive", { tolerations: [{ key: "gpu", operator: "Exists" }] })).toEqual({
      terms: [],
      tolerations: [{ key: "gpu", operator: "Exists" }],
      minimum: PART,
    });
    expect(selectionOf("exclusive", { containers: [CONTAINER] })).toBeUndefined();
    expect(selectionOf("shared")).toBeUndefined();
  });

  it("include the requests that admission adds to pods", () => {
    const defaults = buildPodDefaults(
      [{ name: "a", limits: [{ type: "Container", min: { gpus: "1" } }] }],
      [{ name: "kata", overhead: { podFixed: { cpu: "250m" } } }],
    );
    const admitted = (sharing: string) => {
      const result = read(sharing, undefined, { runtimeClassName: "kata" });
      if (!result.ok) throw new Error(JSON.stringify(result.problems));
      expect(withPodDefaults(result.spec, NO_DEFAULTS)).toBe(result.spec);
      expect(withPodDefaults(result.spec, defaults)).toBe(withPodDefaults(result.spec, defaults));
      return withPodDefaults(result.spec, defaults).replicas[0];
    };
    const more = { cpu: 750, gpus: 1, memory: 2 ** 30 };
    expect(admitted("shared")).toMatchObject({ shared: more });
    expect(admitted("exclusive")).toMatchObject({ selection: { minimum: more } });
  });

  const inTemplate = "spec.replicaSpecs.worker.template.metadata.annotations.muster.dev/sharing";
  it.each([
    ["a word that is none, on the job", "half", undefined, "metadata.annotations.muster.dev/sharing"],
    ["a word that is none, on the template", "shared", "Shared", inTemplate],
    ["no word, on the template", undefined, true, inTemplate],
  ])("are refused with %s, and the valid values", (_title, ofJob, ofTemplate, field) => {
    const result = read(ofJob, ofTemplate);
    const problems = result.ok ? [] : result.problems;
    expect(new Set(problems.map((each) => each.field))).toEqual(new Set([field]));
    expect(problems.map(({ reason }) => reason).join()).toContain("must be one of shared, exclusive");
  });
});

describe("the members of a job with a queue, without an annotation, get", () => {
  const ofQueue = (spec: Manifest, annotations: Manifest = {}, queue = "team-a") => {
    const metadata = { name: "train", labels: { "muster.dev/queue": queue }, ...annotations };
    const worker = buildReplicaManifest({ template: { spec } });
    return JOB_KIND.read({ ...buildJobManifest("train", { replicaSpecs: { worker } }), metadata }, DEFAULTS);
  };
  const busy = { containers: [requesting({ cpu: "1" })] };
  const limited = { containers: [{ ...CONTAINER, resources: { limits: { cpu: "1" } } }] };
  const inInit = { containers: [CONTAINER], initContainers: [requesting({ cpu: "1" }, { name: "init" })] };
  const ofPod = { containers: [CONTAINER], resources: { requests: { cpu: "1" } } };

  it.each<[string, Manifest, Manifest | undefined]>([
    ["parts where a container has requests", busy, { cpu: 1000 }],
    ["parts where a container has limits", limited, { cpu: 1000 }],
    ["parts where an init container has requests", inInit, { cpu: 1000 }],
    ["parts where the pod has requests", ofPod, { cpu: 1000 }],
    ["whole machines where the template has no requests", { containers: [CONTAINER] }, undefined],
    ["whole machines where all requests are 0", { containers: [requesting({ cpu: "0" })] }, undefined],
  ])("%s", (_title, spec, shared) => {
    expect(sharesOf(ofQueue(spec))).toEqual([shared]);
  });

  it("the choice of an annotation, with or without requests", () => {
    expect(sharesOf(ofQueue(busy, noted("exclusive")))).toEqual([undefined]);
    expect(sharesOf(ofQueue({ containers: [CONTAINER] }, noted("shared")))).toEqual([{}]);
  });

  it("whole machines with an empty label, as without one", () => {
    expect(sharesOf(ofQueue(busy, {}, ""))).toEqual([undefined]);
  });

  it("a problem if amounts are uncountable", () => {
    expect(ofQueue({ containers: [requesting({ cpu: "many" })] })).toMatchObject({
      problems: [{ field: "spec.replicaSpecs.worker.template.spec.containers[0].resources.requests.cpu" }],
    });
  });
});

describe("a shared member requests", () => {
  it.each<[string, Manifest, Manifest]>([
    ["nothing when its template does not: its pod counts alone", { containers: [CONTAINER] }, {}],
    [
      "the sum of its containers, of each resource",
      { containers: [requesting({ cpu: 1, "nvidia.com/gpu": "2" }), requesting({ cpu: "250m" }, { name: "b" })] },
      { cpu: 1250, "nvidia.com/gpu": 2 },
    ],
    [
      "its limits where it has no requests",
      { containers: [{ ...CONTAINER, resources: { limits: { cpu: "2", memory: "1G" }, requests: { cpu: "1" } } }] },
      { cpu: 1000, memory: 1e9 },
    ],
    ["no resource with an amount of 0", { containers: [requesting({ cpu: "0", memory: "1Ki" })] }, { memory: 1024 }],
    [
      "the largest init container, where that is more, and its sidecars at all times",
      {
        containers: [requesting({ cpu: "1" })],
        initContainers: [
          requesting({ cpu: "100m" }, { name: "side", restartPolicy: "Always" }),
          requesting({ cpu: "3" }, { name: "init" }),
        ],
      },
      { cpu: 3100 },
    ],
    [
      "the overhead of its pod, too",
      { containers: [requesting({ cpu: "1" })], overhead: { cpu: "50m", memory: "64Mi" } },
      { cpu: 1050, memory: 64 * 2 ** 20 },
    ],
    [
      "the requests of the pod itself, if it has any",
      { containers: [requesting({ cpu: "1", memory: "1Ki" })], resources: { requests: { cpu: "4" } } },
      { cpu: 4000, memory: 1024 },
    ],
  ])("%s", (_title, spec, shared) => {
    expect(sharesOf(read("shared", undefined, spec))).toEqual([shared]);
  });

  it.each([
    ["text", "many"],
    ["less than nothing", "-1"],
    ["more than any machine has", "9Pi"],
  ])("no amount that is %s, and the field is named", (_title, amount) => {
    const spec = { containers: [CONTAINER, { ...requesting({ cpu: amount }), name: "b" }] };
    expect(read("shared", undefined, spec)).toMatchObject({
      problems: [
        {
          field: "spec.replicaSpecs.worker.template.spec.containers[1].resources.requests.cpu",
          reason: "must be a quantity from 0 to 8Pi, such as 500m or 2Gi",
        },
      ],
    });
    expect(read("exclusive", undefined, spec).ok, "a whole machine needs no amounts").toBe(true);
  });

  const images = { waitForMaster: "busybox", kubectlDelivery: "kubectl" };
  const replicas = (name: string, requests: Manifest) => ({
    template: { spec: { containers: [{ ...requesting(requests), name }] } },
  });
  it.each<[string, Kind, Manifest, Manifest]>([
    [
      "PyTorchJob, whose workers wait for their master",
      PYTORCHJOB_KIND,
      { pytorchReplicaSpecs: { Master: replicas("pytorch", {}), Worker: replicas("pytorch", { cpu: "10m" }) } },
      { master: {}, worker: { cpu: 50, memory: 10 * 2 ** 20 } },
    ],
    [
      "MPIJob, whose launcher gets a kubectl",
      MPIJOB_KIND,
      { mpiReplicaSpecs: { Launcher: replicas("mpi", {}), Worker: replicas("mpi", { cpu: "2" }) } },
      { launcher: { cpu: 100, memory: 512 * 2 ** 20, "ephemeral-storage": 5 * 2 ** 30 }, worker: { cpu: 2000 } },
    ],
  ])("the requests of the containers that Muster adds, in a %s", (_title, kind, spec, shares) => {
    const result = kind.read({ metadata: { name: "train", ...noted("shared") }, spec }, { ...DEFAULTS, images });
    if (!result.ok) throw new Error(JSON.stringify(result.problems));
    const found = result.spec.replicas.map(({ type, shared }) => [type, shared]);
    expect(Object.fromEntries(found)).toEqual(shares);
  });
});
