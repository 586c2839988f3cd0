import type { KindDefaults } from "../src/domain/kind.ts";

type Manifest = Readonly<Record<string, unknown>>;

/** The defaults of a controller that is configured with a pool and nothing else. */
export const DEFAULTS: KindDefaults = {
  pool: "cpu",
  poolLabel: "pool",
  clusterDomain: undefined,
  scheduler: undefined,
  images: { waitForMaster: undefined, kubectlDelivery: undefined },
};

/** Builds a job as people write it, with only the required fields. */
export function buildJobManifest(name: string, spec: Manifest = {}): Manifest {
  return {
    apiVersion: "muster.dev/v1",
    kind: "Job",
    metadata: { name, namespace: "default" },
    spec: { replicaSpecs: { worker: buildReplicaManifest() }, ...spec },
  };
}

export function buildReplicaManifest(more: Manifest = {}): Manifest {
  return { replicas: 2, pool: "cpu", template: buildTemplateManifest(), ...more };
}

export function buildTemplateManifest(more: Manifest = {}): Manifest {
  return { spec: { containers: [{ name: "main", image: "busybox", command: ["true"] }], ...more } };
}
