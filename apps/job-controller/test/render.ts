import { readFileSync } from "node:fs";
import { annotations, labels } from "@muster/proto";
import { parse } from "yaml";
import { buildPod } from "../src/domain/build-pod.ts";
import { buildService, groupServiceOwners } from "../src/domain/build-service.ts";
import type { Kind, KindDefaults } from "../src/domain/kind.ts";
import { KINDS } from "../src/domain/kinds.ts";
import type { MemberPolicy } from "../src/domain/member-metadata.ts";

export type Manifest = {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string };
};

/** One manifest of each kind. */
export const SAMPLES = [
  ["job", "../../../examples/training-job.yaml"],
  ["tfjob", "../../../examples/tfjob.yaml"],
  ["pytorchjob", "./jobs/pytorchjob.yaml"],
  ["mpijob", "./jobs/mpijob.yaml"],
  ["jaxjob", "./jobs/jaxjob.yaml"],
] as const;

const DEFAULTS: KindDefaults = {
  pool: "usual",
  poolLabel: "pool",
  clusterDomain: "cluster.local",
  scheduler: undefined,
  images: { waitForMaster: "alpine:3", kubectlDelivery: "kubectl:1" },
};
const POLICY: MemberPolicy = {
  keys: { labels, annotations },
  installation: "muster-1",
  defaults: DEFAULTS,
  schedulingGates: [],
};
const TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

export function readSample(file: string): Manifest {
  const manifest: unknown = parse(readFileSync(new URL(file, import.meta.url), "utf8"));
  if (!isManifest(manifest)) throw new Error(file);
  return manifest;
}

export function isManifest(value: unknown): value is Manifest {
  return typeof value === "object" && value !== null && "kind" in value && "metadata" in value;
}

export function findKind({ kind }: Manifest): Kind | undefined {
  return KINDS.find((each) => each.kind === kind);
}

/** Renders a manifest as the controller does: the spec that it works with, the last pod of each type, and everything beside the pods. */
export function renderManifest(manifest: Manifest) {
  const kind = findKind(manifest);
  const result = kind?.read(manifest, DEFAULTS);
  if (kind === undefined || result?.ok !== true) throw new Error(JSON.stringify(result));
  const { spec, warnings } = result;
  const job = { name: manifest.metadata.name, namespace: manifest.metadata.namespace ?? "default", uid: "0a1b-2c3d" };
  const request = { kind, job, spec };
  const pods = spec.replicas.map(({ type, replicas }) =>
    buildPod(
      { ...request, member: { type, index: replicas - 1 }, node: `node-${type}`, attempt: 0, traceparent: TRACEPARENT },
      POLICY,
    ),
  );
  const services = [...groupServiceOwners(request).values()].map((owner) => buildService(request, owner, POLICY.keys));
  return { spec, warnings, companions: kind.companions(job, spec, DEFAULTS), services, pods };
}
