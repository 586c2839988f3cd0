import { describe, expect, it } from "vitest";
import { DEFAULTS, buildJobManifest, buildReplicaManifest, buildTemplateManifest } from "../../test/manifests.ts";
import { JOB_KIND } from "./kind-job.ts";
import type { KindDefaults, ReadResult } from "./kind.ts";

const NO_POOL = { ...DEFAULTS, pool: undefined };

type Manifest = Readonly<Record<string, unknown>>;

const read = (manifest: unknown, more: Partial<KindDefaults> = {}) => JOB_KIND.read(manifest, { ...NO_POOL, ...more });
const worker = (more: Manifest) => ({ replicaSpecs: { worker: buildReplicaManifest(more) } });

function specOf(result: ReadResult) {
  if (!result.ok) throw new Error(JSON.stringify(result.problems));
  return result.spec;
}

describe("reading a Job", () => {
  it("fills in fields that an older definition omits", () => {
    const template = buildTemplateManifest();
    expect(specOf(read(buildJobManifest("a", { replicaSpecs: { worker: { template, pool: "cpu" } } })))).toEqual({
      replicas: [
        {
          type: "worker",
          replicas: 1,
          restartPolicy: "Never",
          template,
          pool: "cpu",
          dependsOn: [],
          elastic: undefined,
          failuresIgnored: false,
          mainContainer: "main",
          port: undefined,
        },
      ],
      suspend: false,
      managedBy: undefined,
      backoffLimit: 6,
      activeDeadlineMs: undefined,
      ttlAfterFinishedMs: undefined,
      cleanPodPolicy: "Running",
      priority: 0,
      minAvailable: undefined,
      group: undefined,
      failurePolicy: [],
      exitCodes: { retryable: [], permanent: [] },
      success: [[{ type: "worker", indexes: "all" }]],
    });
  });

  it("reads policies", () => {
    const spec = specOf(
      read(
        buildJobManifest("a", {
          runPolicy: {
            suspend: true,
            managedBy: "muster.dev/job-controller",
            backoffLimit: 0,
            activeDeadlineSeconds: 60,
            ttlSecondsAfterFinished: 0,
            cleanPodPolicy: "All",
            schedulingPolicy: { minAvailable: 1, queue: "q", priority: -5 },
          },
          failurePolicy: {
            rules: [
              { action: "Ignore", onPodCondition: { type: "DisruptionTarget" } },
              { action: "FailJob", replicaTypes: ["worker"], onExitCodes: { operator: "NotIn", values: [3, 4] } },
            ],
          },
          exitCodes: { retryable: [3], permanent: [137] },
          successPolicy: {
            rules: [{ allOf: [{ type: "worker", indexes: [1] }] }, { allOf: [{ type: "worker", complete: "Any" }] }],
          },
        }),
      ),
    );
    expect(spec).toMatchObject({
      suspend: true,
      managedBy: undefined,
      backoffLimit: 0,
      activeDeadlineMs: 60_000,
      ttlAfterFinishedMs: 0,
      cleanPodPolicy: "All",
      priority: -5,
      minAvailable: 1,
      group: undefined,
      failurePolicy: [
        { action: "Ignore", replicaTypes: [], on: { podCondition: "DisruptionTarget", status: "True" } },
        {
          action: "FailJob",
          replicaTypes: ["worker"],
          on: { exitCodes: "NotIn", values: [3, 4], container: undefined },
        },
      ],
      exitCodes: { retryable: [3], permanent: [137] },
      success: [[{ type: "worker", indexes: [1] }], [{ type: "worker", indexes: "any" }]],
    });
  });

  it("sorts types after their dependencies, whatever the order in the manifest", () => {
    const replicaSpecs = {
      a: buildReplicaManifest({ dependsOn: [{ type: "c", status: "Complete" }] }),
      b: buildReplicaManifest(),
      c: buildReplicaManifest({ dependsOn: [{ type: "b" }] }),
    };
    const spec = specOf(read(buildJobManifest("j", { replicaSpecs })));
    expect(spec.replicas.map(({ type, dependsOn }) => [type, dependsOn])).toEqual([
      ["b", []],
      ["c", [{ type: "b", status: "Ready" }]],
      ["a", [{ type: "c", status: "Complete" }]],
    ]);
  });

  it("warns that the template's own restart policy is replaced", () => {
    const result = read(
      buildJobManifest("a", worker({ template: buildTemplateManifest({ restartPolicy: "Always" }) })),
    );
    expect(result.ok && result.warnings).toEqual([
      {
        field: "spec.replicaSpecs.worker.template.spec.restartPolicy",
        reason:
          "is replaced: the restartPolicy of the replica type (spec.replicaSpecs.worker.restartPolicy) decides, not Always",
      },
    ]);
  });

  it.each([
    ["its own field", worker({ pool: "own" }), {}, "own"],
    [
      "a nodeSelector",
      worker({ pool: undefined, template: buildTemplateManifest({ nodeSelector: { pool: "sel" } }) }),
      {},
      "sel",
    ],
    ["the annotation of the job", worker({ pool: "" }), { "muster.dev/pool": "noted" }, "noted"],
    ["the default of the controller", worker({ pool: undefined }), {}, "usual"],
  ])("takes the pool from %s", (_title, spec, annotations, pool) => {
    const manifest = { ...buildJobManifest("a", spec), metadata: { name: "a", annotations } };
    expect(specOf(read(manifest, { pool: "usual" })).replicas[0]?.pool).toBe(pool);
  });

  const name = "metadata.name";
  const replicas = "spec.replicaSpecs";
  const code = { action: "FailJob", onExitCodes: { values: [3] } };
  it.each<[title: string, manifest: unknown, field: string, reason: RegExp]>([
    ["nothing", undefined, "", /must be an object, not empty/],
    [
      "exit codes of a type that the kubelet restarts",
      buildJobManifest("a", { ...worker({ restartPolicy: "OnFailure" }), failurePolicy: { rules: [code] } }),
      "spec.failurePolicy.rules[0].onExitCodes",
      /not of worker \(OnFailure\): use restartPolicy ExitCode or Never/,
    ],
    ["no spec", { metadata: { name: "a" } }, "spec", /is missing/],
    ["no types", buildJobManifest("a", { replicaSpecs: {} }), replicas, /at least one replica type/],
    ["no replica", buildJobManifest("a", worker({ replicas: 0 })), replicas, /at least one replica/],
    [
      "too many replicas",
      buildJobManifest("a", worker({ replicas: 1001 })),
      replicas,
      /has 1001 replicas; 1000 at most/,
    ],
    [
      "an invalid count",
      buildJobManifest("a", worker({ replicas: 1.5 })),
      `${replicas}.worker.replicas`,
      /whole number/,
    ],
    ["a count below 0", buildJobManifest("a", worker({ replicas: -1 })), `${replicas}.worker.replicas`, /from 0 to/],
    [
      "a bad type",
      buildJobManifest("a", { replicaSpecs: { W: buildReplicaManifest() } }),
      `${replicas}.W`,
      /no name for a service/,
    ],
    ["a name with a dot", buildJobManifest("a.b"), name, /no name for a service/],
    ["a long name", buildJobManifest("a".repeat(55)), name, /too long by 1: .* 63 characters at most/],
    [
      "no template",
      buildJobManifest("a", worker({ template: undefined })),
      `${replicas}.worker.template`,
      /is missing/,
    ],
    [
      "no container",
      buildJobManifest("a", worker({ template: { spec: {} } })),
      `${replicas}.worker.template.spec.containers`,
      /at least one container/,
    ],
    [
      "no image",
      buildJobManifest("a", worker({ template: { spec: { containers: [{ name: "main" }] } } })),
      `${replicas}.worker.template.spec.containers[0].image`,
      /is missing/,
    ],
    [
      "a machine",
      buildJobManifest("a", worker({ template: buildTemplateManifest({ nodeName: "n" }) })),
      `${replicas}.worker.template.spec.nodeName`,
      /must not be set/,
    ],
    [
      "an unknown main container",
      buildJobManifest("a", worker({ mainContainer: "x" })),
      `${replicas}.worker.mainContainer`,
      /"x" is no container/,
    ],
    [
      "an unknown restart policy",
      buildJobManifest("a", worker({ restartPolicy: "Maybe" })),
      `${replicas}.worker.restartPolicy`,
      /one of Always, OnFailure, Never, ExitCode, not "Maybe"/,
    ],
    [
      "no pool",
      buildJobManifest("a", worker({ pool: undefined })),
      `${replicas}.worker`,
      /worker\.pool, template\.spec\.nodeSelector\["pool"\], the annotation muster\.dev\/pool of the job, or the controller's default pool/,
    ],
    [
      "a pool that cannot be",
      buildJobManifest("a", worker({ pool: "a b" })),
      `${replicas}.worker`,
      /not a label value/,
    ],
    [
      "two pools",
      buildJobManifest("a", worker({ template: buildTemplateManifest({ nodeSelector: { pool: "gpu" } }) })),
      `${replicas}.worker.template.spec.nodeSelector["pool"]`,
      /no machine is in both/,
    ],
    [
      "an unknown dependency",
      buildJobManifest("a", worker({ dependsOn: [{ type: "x" }] })),
      `${replicas}.worker.dependsOn`,
      /"x" is no replica type/,
    ],
    [
      "a type that waits for itself",
      buildJobManifest("a", worker({ dependsOn: [{ type: "worker" }] })),
      `${replicas}.worker.dependsOn`,
      /names the type itself/,
    ],
    [
      "a cycle of three types",
      buildJobManifest("a", {
        replicaSpecs: {
          a: buildReplicaManifest({ dependsOn: [{ type: "b" }] }),
          b: buildReplicaManifest({ dependsOn: [{ type: "c" }] }),
          c: buildReplicaManifest({ dependsOn: [{ type: "a" }] }),
        },
      }),
      replicas,
      /a, b, c wait for each other/,
    ],
    [
      "contradicting limits",
      buildJobManifest("a", worker({ elastic: { minReplicas: 3, maxReplicas: 4 } })),
      `${replicas}.worker.elastic`,
      /not 3, 2, 4/,
    ],
    [
      "a negative limit",
      buildJobManifest("a", { runPolicy: { backoffLimit: -1 } }),
      "spec.runPolicy.backoffLimit",
      /from 0/,
    ],
    [
      "a minimum above the replicas",
      buildJobManifest("a", { runPolicy: { schedulingPolicy: { minAvailable: 3 } } }),
      "spec.runPolicy.schedulingPolicy.minAvailable",
      /more than all 2 replicas/,
    ],
    [
      "an impossible code",
      buildJobManifest("a", { exitCodes: { retryable: [0] } }),
      "spec.exitCodes.retryable[0]",
      /1 to 255/,
    ],
    [
      "a code twice",
      buildJobManifest("a", { exitCodes: { retryable: [3], permanent: [3] } }),
      "spec.exitCodes",
      /both/,
    ],
    [
      "a rule about nothing",
      buildJobManifest("a", { failurePolicy: { rules: [{ action: "FailJob" }] } }),
      "spec.failurePolicy.rules[0]",
      /exactly one of/,
    ],
    [
      "a rule about an unknown type",
      buildJobManifest("a", { failurePolicy: { rules: [{ ...code, replicaTypes: ["x"] }] } }),
      "spec.failurePolicy.rules[0].replicaTypes",
      /"x" is no replica type/,
    ],
    [
      "an impossible success rule",
      buildJobManifest("a", { successPolicy: { rules: [{ allOf: [{ type: "worker", indexes: [2] }] }] } }),
      "spec.successPolicy.rules[0].allOf[0].indexes",
      /can never succeed/,
    ],
  ])("refuses %s", (_title, manifest, field, reason) => {
    const result = read(manifest);
    const problems = result.ok ? [] : result.problems;
    expect(problems).toContainEqual({ field, reason: expect.stringMatching(reason) as string });
  });

  it("names all errors together, and the manager of the job", () => {
    const result = read(
      buildJobManifest("A", {
        ...worker({ pool: undefined, replicas: -1 }),
        runPolicy: { managedBy: "example.com/x" },
      }),
    );
    expect(result).toMatchObject({ ok: false, managedBy: "example.com/x" });
    expect(result.ok ? [] : result.problems.map(({ field }) => field)).toEqual([
      "metadata.name",
      "spec.replicaSpecs.worker",
      "spec.replicaSpecs.worker.replicas",
    ]);
  });
});

it("describes to each pod of a Job itself and all other pods", () => {
  const spec = specOf(
    read(
      buildJobManifest("train", {
        replicaSpecs: { ps: buildReplicaManifest({ port: 2222, replicas: 1 }), worker: buildReplicaManifest() },
      }),
    ),
  );
  const job = { namespace: "ml", name: "train", uid: "u" };
  const { env } = JOB_KIND.describeCluster(job, { type: "worker", index: 1 }, spec, {
    ...NO_POOL,
    clusterDomain: "cluster.local",
  });
  expect(Object.fromEntries(env.map(({ name, value }) => [name, value]))).toEqual({
    MUSTER_JOB: "train",
    MUSTER_REPLICA_TYPE: "worker",
    MUSTER_REPLICA_INDEX: "1",
    MUSTER_REPLICAS: "2",
    MUSTER_CLUSTER: JSON.stringify({
      ps: ["train-ps-0.train.ml.svc.cluster.local:2222"],
      worker: ["train-worker-0.train.ml.svc.cluster.local", "train-worker-1.train.ml.svc.cluster.local"],
    }),
  });
});

it("omits the description of a gang that is too large for a variable, and warns its author", () => {
  const [name, namespace] = ["a".repeat(52), "n".repeat(40)];
  const gang = (replicas: number) =>
    read({ ...buildJobManifest(name, worker({ replicas, port: 2222 })), metadata: { name, namespace } });
  const described = (replicas: number) =>
    JOB_KIND.describeCluster(
      { namespace, name, uid: "u" },
      { type: "worker", index: 0 },
      specOf(gang(replicas)),
      NO_POOL,
    )
      .env.filter((variable) => variable.name === "MUSTER_CLUSTER")
      .map(({ value }) => value.length < 131_072);
  expect(described(1000)).toEqual([]);
  expect(gang(1000)).toMatchObject({
    warnings: [
      {
        field: "spec.replicaSpecs",
        reason:
          "are too many, with names as long as theirs, for the variable MUSTER_CLUSTER: it would be longer than 131072 bytes, and pods go without it",
      },
    ],
  });
  expect(described(700)).toEqual([true]);
  expect(gang(700)).toMatchObject({ warnings: [] });
});

describe("several pools in the annotation of the job", () => {
  const readPools = (pools: string, spec = worker({ pool: "" })) =>
    read({ ...buildJobManifest("a", spec), metadata: { name: "a", annotations: { "muster.dev/pool": pools } } });

  it("are accepted in their order by each type that names none itself", () => {
    const replicaSpecs = { worker: buildReplicaManifest({ pool: "" }), driver: buildReplicaManifest({ pool: "cpu" }) };
    const { replicas } = specOf(readPools("a100, h100,l4", { replicaSpecs }));
    expect(Object.fromEntries(replicas.map(({ type, pool, otherPools }) => [type, [pool, otherPools]]))).toEqual({
      worker: ["a100", ["h100", "l4"]],
      driver: ["cpu", undefined],
    });
  });

  it.each([
    ["a100, a100", 'names the pool "a100" twice'],
    ["a100,", 'is "a100, ": the name of a pool is missing beside a comma'],
    ["a,b,c,d,e,f,g,h,i", "names 9 pools; 8 at most"],
    ["a100, b c", 'pool "b c" is not a label value'],
  ])("are a problem of the annotation: %s", (pools, reason) => {
    const result = readPools(pools);
    expect(result.ok ? [] : result.problems).toEqual([
      { field: 'metadata.annotations["muster.dev/pool"]', reason: expect.stringContaining(reason) as string },
    ]);
  });
});
