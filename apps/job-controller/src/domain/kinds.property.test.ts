import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { DEFAULTS } from "../../test/manifests.ts";
import type { ReadResult } from "./kind.ts";
import { KINDS } from "./kinds.ts";

const WITH_IMAGES = { ...DEFAULTS, images: { waitForMaster: "a", kubectlDelivery: "b" } };

const TYPES = ["Worker", "worker", "Master", "PS", "Chief", "Launcher", "Evaluator", "a"];
const TYPES_OF: Readonly<Record<string, readonly string[]>> = {
  Job: ["worker", "a"],
  TFJob: ["Worker", "PS"],
  PyTorchJob: ["Master", "Worker"],
  MPIJob: ["Launcher", "Worker"],
};
const CONTAINERS = ["tensorflow", "pytorch", "jax", "mpi", "main"];
const CONTAINER_OF: Readonly<Record<string, string>> = { TFJob: "tensorflow", PyTorchJob: "pytorch", JAXJob: "jax" };
/** Generates a valid value, or rarely any value. */
const mostly = <Value>(right: fc.Arbitrary<Value>) =>
  fc.oneof({ weight: 30, arbitrary: right }, { weight: 1, arbitrary: fc.jsonValue() });
const some = (fields: Record<string, fc.Arbitrary<unknown>>) => fc.record(fields, { requiredKeys: [] });

const sharing = some({
  "muster.dev/sharing": mostly(fc.constantFrom("shared", "exclusive")),
  "muster.dev/topology": mostly(fc.constantFrom("zone", "topology.kubernetes.io/zone")),
});

/** Generates manifests of a kind that may be valid, or invalid at any field. */
function manifests(kind: string): fc.Arbitrary<unknown> {
  const type = fc.oneof(
    { weight: 9, arbitrary: fc.constantFrom(...(TYPES_OF[kind] ?? ["Worker"])) },
    fc.constantFrom(...TYPES),
  );
  const container = fc.record({
    name: fc.oneof({ weight: 9, arbitrary: fc.constant(CONTAINER_OF[kind] ?? "main") }, fc.constantFrom(...CONTAINERS)),
    image: mostly(fc.constant("image")),
    env: mostly(fc.constant([{ name: "A", value: "1" }])),
    ports: mostly(fc.constant([{ name: "tfjob-port", containerPort: 1 }])),
    resources: mostly(fc.constant({ limits: { cpu: 1, memory: "1Gi" } })),
    volumeMounts: mostly(fc.constant([])),
  });
  const template = fc.record({
    metadata: mostly(fc.record({ labels: fc.constant({ a: "b" }), annotations: sharing })),
    spec: mostly(
      fc.record(
        {
          containers: mostly(fc.array(container, { minLength: 1, maxLength: 3 })),
          initContainers: mostly(fc.constant([])),
          nodeSelector: mostly(fc.constant({ pool: "p" })),
          affinity: mostly(fc.constant({})),
          volumes: mostly(fc.constant([])),
          restartPolicy: mostly(fc.constant("Always")),
          resources: fc.constant({ requests: { cpu: "1" } }),
          overhead: mostly(fc.constant({ memory: "1Mi" })),
        },
        { requiredKeys: ["containers"] },
      ),
    ),
  });
  const replica = fc.record(
    {
      replicas: mostly(fc.integer({ min: 0, max: 5 })),
      template: mostly(template),
      restartPolicy: mostly(fc.constantFrom("Always", "ExitCode")),
      pool: mostly(fc.constant("p")),
      port: mostly(fc.constant(80)),
      dependsOn: mostly(fc.array(fc.record({ type: mostly(fc.constantFrom("a", "worker")) }), { maxLength: 2 })),
      elastic: mostly(fc.constant({ minReplicas: 0, maxReplicas: 9 })),
    },
    { requiredKeys: ["template"] },
  );
  const replicas = mostly(fc.dictionary(type, mostly(replica), { minKeys: 1, maxKeys: 3 }));
  const policy = mostly(
    some({
      suspend: mostly(fc.boolean()),
      managedBy: mostly(fc.constantFrom("a.b/c", "kueue.x-k8s.io/multikueue")),
      backoffLimit: mostly(fc.nat(3)),
      schedulingPolicy: mostly(some({ minAvailable: mostly(fc.nat(3)), priorityClass: mostly(fc.constant("c")) })),
    }),
  );
  return mostly(
    fc.record({
      metadata: mostly(
        fc.oneof(
          fc.constant({ name: "a" }),
          fc.record({
            name: fc.constant("a"),
            annotations: sharing.map((each) => ({ ...each, "muster.dev/pool": "p" })),
          }),
        ),
      ),
      spec: mostly(
        some({
          replicaSpecs: replicas,
          tfReplicaSpecs: replicas,
          pytorchReplicaSpecs: replicas,
          mpiReplicaSpecs: replicas,
          jaxReplicaSpecs: replicas,
          runPolicy: policy,
          elasticPolicy: mostly(some({ maxReplicas: mostly(fc.nat(5)), rdzvConf: mostly(fc.constant([{}])) })),
          failurePolicy: mostly(some({ rules: mostly(fc.array(some({ action: mostly(fc.constant("FailJob")) }))) })),
          successPolicy: mostly(some({ rules: mostly(fc.array(some({ allOf: fc.jsonValue() }))) })),
          exitCodes: fc.jsonValue(),
        }),
      ),
    }),
  );
}

/** Returns the value with the keys of every map in reverse order. */
function reversed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(reversed);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .reverse()
      .map(([key, field]) => [key, reversed(field)]),
  );
}

/** Removes the order of keys, which no reader observes. */
function comparable(result: ReadResult): unknown {
  return JSON.parse(JSON.stringify(result));
}

describe.each(KINDS)("reading a $kind", (kind) => {
  const manifest = manifests(kind.kind);
  it("never throws, is deterministic, and ignores the order of keys", () => {
    fc.assert(
      fc.property(manifest, (value) => {
        const result = kind.read(value, WITH_IMAGES);
        expect(kind.read(value, WITH_IMAGES)).toEqual(result);
        expect(comparable(kind.read(reversed(value), WITH_IMAGES))).toEqual(comparable(result));
      }),
      { numRuns: 300 },
    );
  });

  it("accepts any JSON without throwing", () => {
    fc.assert(fc.property(fc.jsonValue({ maxDepth: 6 }), (value) => kind.read(value, WITH_IMAGES).ok || true));
  });

  it("can describe the gang to every member", () => {
    let readable = 0;
    fc.assert(
      fc.property(manifest, (value) => {
        const result = kind.read(value, WITH_IMAGES);
        if (!result.ok) return;
        readable += 1;
        const job = { name: "a", namespace: "b", uid: "c" };
        for (const { type, replicas: count, shared = {} } of result.spec.replicas) {
          for (const amount of Object.values(shared)) expect(Number.isSafeInteger(amount) && amount > 0).toBe(true);
          for (let index = 0; index < count; index += 1) {
            const { env } = kind.describeCluster(job, { type, index }, result.spec, WITH_IMAGES);
            expect(new Set(env.map(({ name }) => name)).size).toBe(env.length);
          }
        }
        kind.companions(job, result.spec, WITH_IMAGES);
      }),
      { numRuns: 500, seed: 7 },
    );
    expect(readable).toBeGreaterThan(0);
  });
});
